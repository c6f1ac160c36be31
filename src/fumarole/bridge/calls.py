"""Calls that gather replies (R1): the caller, the number of replies, and the deadline. Pure: time is a number.

A heap has an entry for each call, with the time when it is up. Entries of calls that ended before stay until they are
due, or until they are the greater part: then the heap is made anew.
"""

from __future__ import annotations

import heapq
from typing import Final, NamedTuple

from fumarole.bridge.errors import BridgeRefusedError
from fumarole.bridge.forms import MSGPACK, Form

MOST_CALLS: Final = 1_000
"""Calls of one client under way."""
STALE_KEPT: Final = 64
"""Entries of the heap without a call that are not worth making it anew."""


class Caller(NamedTuple):
    """The client that asked, the id that it gave its call, and the form in which it wrote it."""

    client: bytes
    identity: bytes
    form: Form = MSGPACK


class Calls:
    """Calls under way, by the correlation id that their replies carry."""

    def __init__(self) -> None:
        self._callers: dict[str, Caller] = {}
        self._missing: dict[str, int | None] = {}
        """The number of replies still to come; None: all until the deadline."""
        self._of_client: dict[bytes, int] = {}
        self._due: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._callers)

    def open(self, correlation: str, caller: Caller, replies: int | None, until: float) -> None:
        """A call begins. Raises BridgeRefusedError where its client has too many."""
        count = self._of_client.get(caller.client, 0)
        if count >= MOST_CALLS:
            raise BridgeRefusedError(f"{MOST_CALLS} calls of yours are under way; wait for one to end")
        self._of_client[caller.client] = count + 1
        self._callers[correlation] = caller
        self._missing[correlation] = replies
        if len(self._due) > 2 * len(self._callers) + STALE_KEPT:
            self._due = [entry for entry in self._due if entry[1] in self._callers]
            heapq.heapify(self._due)
        heapq.heappush(self._due, (until, correlation))

    def reply(self, correlation: str) -> tuple[Caller, bool] | None:
        """The call of a reply, and whether it was the last; None: no call waits for it."""
        caller = self._callers.get(correlation)
        if caller is None:
            return None
        missing = self._missing[correlation]
        if missing is not None:
            self._missing[correlation] = missing - 1
        if missing == 1:
            self.close(correlation)
        return caller, missing == 1

    def close(self, correlation: str) -> Caller | None:
        """It is over."""
        caller = self._callers.pop(correlation, None)
        if caller is not None:
            del self._missing[correlation]
            self._of_client[caller.client] -= 1
            if not self._of_client[caller.client]:
                del self._of_client[caller.client]
        return caller

    def sweep(self, now: float) -> list[Caller]:
        """The calls whose time is up."""
        ended = []
        while self._due and self._due[0][0] <= now:
            caller = self.close(heapq.heappop(self._due)[1])
            if caller is not None:
                ended.append(caller)
        return ended

    def next_due(self) -> float | None:
        """When `sweep` has something to do next."""
        while self._due and self._due[0][1] not in self._callers:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None
