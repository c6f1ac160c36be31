"""When the state of a connection that has ended is taken apart: at once, or in a later turn of the loop.

Very many clients may leave in one moment: a switch fails, or a process that had thousands of connections. Each is a few
tens of microseconds of work, since its consumers leave and its will is published. So a turn of the loop has a bound:

    3 connections end in one turn          all are taken apart at once
    9,000 connections end in one turn      10 ms of them at once, 10 ms in each turn that follows

They are taken apart in the order in which they ended.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol

MOMENT: Final = 0.01
"""Seconds of one turn."""


class Ending(Protocol):
    """When connections are taken apart."""

    def take(self, end: Callable[[], None]) -> None:
        """Calls `end`, now or later."""


class EndInTurns:
    """The policy for clients."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._waiting: deque[Callable[[], None]] = deque()
        self._spent = 0.0
        """Seconds of this turn."""
        self._is_due = False
        """Is `_next_turn` going to be called?"""

    def take(self, end: Callable[[], None]) -> None:
        if self._waiting or self._spent >= MOMENT:
            self._waiting.append(end)
        else:
            self._do(end)
        self._arrange()

    def _arrange(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_due = False
        self._spent = 0.0
        try:
            while self._waiting and self._spent < MOMENT:
                self._do(self._waiting.popleft())
        finally:
            if self._waiting:
                self._arrange()

    def _do(self, end: Callable[[], None]) -> None:
        began = self._clock()
        try:
            end()
        finally:
            self._spent += self._clock() - began


class EndAtOnce:
    """The policy for node links: what a node has lost is to be known at once (C4)."""

    def take(self, end: Callable[[], None]) -> None:
        end()
