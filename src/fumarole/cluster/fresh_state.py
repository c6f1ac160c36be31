"""Fresh state between nodes: retained messages, which every node has, and last values, which are asked for (F1, F3).

A message that is retained is told to all other nodes right after it was forwarded to those with consumers for it,
on the same ordered connection. A node that comes is told all that is retained. Of two the later holds
(`exchange/retained.py`), so all nodes have the same in the end. When a node is gone, which may have been before it
could tell all nodes, the others tell each other what they have heard from it lately.

How last values are asked for and answered is explained in `exchange/gathering.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Final

from fumarole.core.errors import FumaroleError
from fumarole.core.query.parse import parse
from fumarole.core.topic import check_topic, parse_wildcards
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.gathering import Asking, Last, values
from fumarole.exchange.hybrid_clock import MICROSECONDS
from fumarole.exchange.latest_readings import BETWEEN, of_producers
from fumarole.exchange.permissions import Permissions
from fumarole.exchange.retained import Kept
from fumarole.protocols.cluster_protocol import (
    Frame,
    KeptMessage,
    LastAnswered,
    LastAsked,
    RetainedMessages,
    frame,
    slices,
)

if TYPE_CHECKING:
    from fumarole.cluster.peer import Peer
    from fumarole.exchange.namespaces import Namespaces

LATELY_SECONDS: Final = 60


class FreshState:
    """This node's part in it."""

    def __init__(
        self, namespaces: Namespaces, say: Callable[[Frame], None], peers: Callable[[], Collection[Peer]]
    ) -> None:
        self._namespaces = namespaces
        self._say = say
        self._peers = peers
        self._tokens = count(1)
        self._asked: dict[int, Asking] = {}
        namespaces.share(self.retained, self.ask)

    # Retained messages.

    def retained(self, exchange: Exchange, kept: Kept) -> None:
        """A message was retained here."""
        self._say(RetainedMessages(exchange.name, (_told(kept),)))

    def everything(self) -> Iterator[RetainedMessages]:
        """All that is retained, for a node that has just come."""
        for exchange in list(self._namespaces):
            for some in slices(map(_told, exchange.retained)):
                yield RetainedMessages(exchange.name, some)

    def said_by(self, gone: Collection[str]) -> Iterator[RetainedMessages]:
        """These nodes are gone: what they have retained lately, and may not have told all nodes."""
        since = self._namespaces.clock.wall() - LATELY_SECONDS * MICROSECONDS
        for exchange in list(self._namespaces):
            of_them = (_told(kept) for kept in exchange.retained if kept.node in gone and kept.time >= since)
            for some in slices(of_them):
                yield RetainedMessages(exchange.name, some)

    def learn(self, said: RetainedMessages) -> None:
        try:
            exchange = self._namespaces.open(said.namespace)
        except FumaroleError:
            return
        for message in said.messages:
            try:
                check_topic(message.topic, exchange.grammar)
            except FumaroleError:
                continue
            exchange.retained.learn(_kept(message))
        self._namespaces.release(exchange)

    # Last values.

    def ask(self, asking: Asking) -> None:
        """A consumer here has asked for them. Its subscription was told before, on the same connection."""
        peers = [peer for peer in self._peers() if peer.is_linked() and not peer.leaving]
        if not peers:
            return
        token = next(self._tokens)
        self._asked[token] = asking
        asking.ask(peer.name for peer in peers)
        pattern, query = asking.question()
        sees = asking.sees or Permissions()
        kind = asking.kind.value
        for peer in peers:
            peer.say(LastAsked(token, asking.exchange.name, pattern, query, sees.allow, sees.deny, kind))

    def answer(self, peer: Peer, asked: LastAsked) -> None:
        """Another node asks."""
        peer.say(LastAnswered(asked.token))
        peer.say_in_time(self._answers(asked))

    def _answers(self, asked: LastAsked) -> Iterator[bytes]:
        for some in slices(self._values(asked)):
            yield frame(LastAnswered(asked.token, some))
        yield frame(LastAnswered(asked.token, (), is_all=True))

    def _values(self, asked: LastAsked) -> Iterable[KeptMessage]:
        exchange = self._namespaces.get(asked.namespace)
        if exchange is None or asked.wanted == Last.RETAINED.value:
            return  # what is retained is known there
        sees = None if asked.allow is None and not asked.deny else Permissions(asked.allow, asked.deny)
        if asked.wanted == Last.READINGS.value:
            yield from map(_told, of_producers(exchange, asked.pattern.split(BETWEEN), sees))
            return
        try:
            pattern = parse_wildcards(asked.pattern)
            query = parse(asked.query) if asked.query else None
        except FumaroleError:
            return
        for kept in values(exchange, pattern, asked.pattern, query, sees, Last.ALL):
            if kept is not None:
                yield _told(kept)

    def answered(self, peer: str, said: LastAnswered) -> None:
        asking = self._asked.get(said.token)
        if asking is None or asking.has_ended:
            self._asked.pop(said.token, None)
            return
        asking.marked(peer)
        asking.take(map(_kept, said.messages))
        if said.is_all:
            asking.answered(peer)

    def evict(self, peer: str) -> None:
        """This node is evicted: no question waits for its values."""
        for token, asking in list(self._asked.items()):
            asking.answered(peer)
            if asking.has_ended:
                del self._asked[token]

    def tick(self) -> None:
        """Time passes."""
        for token, asking in list(self._asked.items()):
            if asking.has_ended:
                del self._asked[token]


def _told(kept: Kept) -> KeptMessage:
    return KeptMessage(kept.topic, kept.time, kept.node, kept.payload, kept.headers)


def _kept(message: KeptMessage) -> Kept:
    return Kept(message.topic, message.time, message.node, message.payload, message.headers)
