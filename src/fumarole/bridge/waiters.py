"""Tasks that wait for the same work, each for the state at the time when it came."""

from __future__ import annotations

import asyncio

from fumarole.bridge.errors import BridgeRefusedError


class Waiters:
    """In order of arrival: the worker notes the number of waiting tasks when it begins, and wakes these at its end."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self) -> asyncio.Future[None]:
        """To be awaited; raises BridgeRefusedError if nothing came of it."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        return waiter

    def tell(self, first: int) -> None:
        """The first so many have what they wait for."""
        done, self._waiting = self._waiting[:first], self._waiting[first:]
        for waiter in done:
            if not waiter.done():
                waiter.set_result(None)

    def refuse(self, reason: str) -> None:
        """None of them will have it."""
        refused, self._waiting = self._waiting, []
        for waiter in refused:
            if not waiter.done():
                waiter.set_exception(BridgeRefusedError(reason))
                waiter.exception()  # some have failed for another reason by now, and never look at it
