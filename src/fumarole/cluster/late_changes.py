"""What other nodes say of producers and that is too dear to be taken in at once (A6).

A change of metadata is replicated, and each node puts it to the queries that stand. Where these are dear, the change
waits until they are answered, in slices. The link goes on: what other producers say is taken in meanwhile, and all that
the same producer says waits behind, so that its readings come after its metadata (M5).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from fumarole.core.errors import FumaroleError
from fumarole.core.query.evaluation import Unprepared
from fumarole.exchange.slices import Slices

MOST: Final = 10_000
"""Changes and readings that wait. With one more, all that wait for its producer are taken in at once."""

Key = tuple[str, str]
"""A namespace, and the identity of a producer there."""
Act = Callable[[bool], None]
"""Takes something in. True: it may raise Unprepared, and then nothing has happened."""


class LateChanges:
    """Of all nodes."""

    def __init__(self, slices: Slices) -> None:
        self._slices = slices
        self._waiting: dict[Key, deque[Act]] = {}
        self._count = 0

    def take(self, key: Key, act: Act) -> None:
        """Now, or behind what waits for the same producer. Raises what `act` does, where that is done now."""
        waiting = self._waiting.get(key)
        if waiting is None:
            try:
                act(self._count < MOST)
            except Unprepared:
                self._waiting[key] = deque([act])
                self._count += 1
                self._slices.begin(self._take_later(key))
        else:
            waiting.append(act)
            self._count += 1
            if self._count > MOST:
                self._take_all(key)

    def _take_later(self, key: Key) -> Iterator[None]:
        while waiting := self._waiting.get(key):
            try:
                _quietly(waiting[0], waits=True)
            except Unprepared as change:
                while change.evaluation.is_under_way:
                    yield
            else:
                waiting.popleft()
                self._count -= 1
                yield
        self._waiting.pop(key, None)

    def _take_all(self, key: Key) -> None:
        for act in self._waiting.pop(key):
            self._count -= 1
            _quietly(act, waits=False)


def _quietly(act: Act, *, waits: bool) -> None:
    """What a peer said and that makes no sense here is left out."""
    try:
        act(waits)
    except FumaroleError:
        return
