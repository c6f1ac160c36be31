"""The newest readings of some producers, of all nodes, asked for once.

A reading goes to the nodes with a consumer for it. A node knows what a producer last read only if the reading came to
it. So the other nodes are asked, and of each producer the newest answer holds. A node that does not answer in time is
left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from fumarole.exchange.gathering import Last, may_see, reading_kept
from fumarole.exchange.permissions import Permissions
from fumarole.exchange.readings import Reading
from fumarole.exchange.retained import Kept

if TYPE_CHECKING:
    from fumarole.exchange.exchange import Exchange

PATIENCE: Final = 0.5
"""Seconds until it is answered without the nodes that have not answered."""
BETWEEN: Final = ","


def of_producers(exchange: Exchange, identities: Iterable[str], sees: Permissions | None) -> Iterator[Kept]:
    """What this node has of them."""
    for identity in identities:
        producer = exchange.producers.get(identity)
        if producer is None:
            continue
        kept = reading_kept(exchange, producer, {})
        if kept is not None and may_see(sees, kept.topic):
            yield kept


class LatestReadings:
    """One question. `done` is called once, when all nodes have answered or the time is over."""

    kind = Last.READINGS

    def __init__(
        self,
        exchange: Exchange,
        identities: Sequence[str],
        sees: Permissions | None,
        done: Callable[[dict[str, Kept]], None],
    ) -> None:
        self.exchange = exchange
        self.sees = sees
        self.has_ended = False
        self._identities = identities
        self._done = done
        self._asked: set[str] = set()
        self._found: dict[str, Kept] = {}

    def begin(self) -> None:
        """Asks this node, and all others. Where there are none, `done` is called at once."""
        self.take(of_producers(self.exchange, self._identities, self.sees))
        if self.exchange.ask is not None:
            self.exchange.ask(self)
        if self._asked:
            self.exchange.timers.after(PATIENCE, self._end)
        else:
            self._end()

    def question(self) -> tuple[str, str]:
        """The identities, where other questions have a pattern, and no query."""
        return BETWEEN.join(self._identities), ""

    def ask(self, nodes: Iterable[str]) -> None:
        """These nodes are asked."""
        self._asked.update(nodes)

    def marked(self, node: str) -> None:
        """Which messages came before the answer does not matter here."""

    def take(self, some: Iterable[Kept]) -> None:
        """Readings of a node."""
        for kept in some:
            reading = kept.publication(0.0).reading
            if isinstance(reading, Reading) and kept.is_newer(self._found.get(reading.producer)):
                self._found[reading.producer] = kept

    def answered(self, node: str) -> None:
        """The node has said all, or is gone."""
        self._asked.discard(node)
        if not self._asked:
            self._end()

    def _end(self) -> None:
        if not self.has_ended:
            self.has_ended = True
            self._done(self._found)
