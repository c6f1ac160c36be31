"""The limit of a turn of the loop: what arrives beyond it is taken in later.

The loop reads every connection that has something to say before it does anything else, and looks for more as long as
there are very many: up to 49,152 in one turn. Each is a few tens of microseconds of work. So after 10 ms of work a
batch is no longer taken in. Its connection keeps the bytes, at most 1 KiB, and is not read until it had its turn:

    3 batches come in one turn               all are taken in at once
    10,000 clients say something together    10 ms of them at once, 10 ms in each turn that follows

They are taken in in the order in which they came. Node links have no limit: silence would look like death (C4).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Final

MOMENT: Final = 0.01
"""Seconds of one turn for batches, and as long for those that were put off."""
WORTH_A_LOOK: Final = 0.005
"""Seconds of work, of one turn or of many, after which the length of this turn is measured."""
PART: Final = 1024
"""Bytes of a batch that is put off. The rest stays in its socket."""


class TurnLimit:
    """How long this turn has been. The pumps add to `busy`, and call `look` when it is over `worth_a_look`.

    Most turns are short, so nothing is done for each of them: the loop is asked for its next turn only after work that
    is worth a look, and that turn begins to count anew.
    """

    __slots__ = ("_clock", "_ends", "_is_due", "_waiting", "busy", "is_over", "space", "worth_a_look")

    def __init__(self, worth_a_look: float = WORTH_A_LOOK, clock: Callable[[], float] = monotonic) -> None:
        self.worth_a_look = worth_a_look
        self._clock = clock
        self.busy = 0.0
        """Seconds of work since it was last looked at."""
        self.is_over = False
        """True when batches are to be put off."""
        self.space = memoryview(bytearray(PART))
        """Where they are read to."""
        self._waiting: deque[Callable[[], None]] = deque()
        self._ends = 0.0
        self._is_due = False
        """Is `_next_turn` going to be called?"""

    def look(self) -> None:
        """There was work. Is it enough for this turn?"""
        if not self._is_due:
            self._arrange()
        elif self._clock() > self._ends:
            self.is_over = True

    def put_off(self, take_in: Callable[[], None]) -> None:
        """Calls `take_in` when there is time."""
        self._waiting.append(take_in)

    def _arrange(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._ends = self._clock() + MOMENT - self.worth_a_look
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_due = self.is_over = False
        self.busy = 0.0
        end = self._clock() + MOMENT
        try:
            while self._waiting and self._clock() < end:
                self._waiting.popleft()()
        finally:
            self.is_over = False
            if self._waiting:
                self._arrange()


NO_LIMIT: Final = TurnLimit(inf)
"""Of connections that are always read."""
