"""Staying awake for a moment: who is spoken to again at once should not have gone to sleep.

A processor that has nothing to do goes to sleep, and to be woken takes longer than all that the exchange does for a
message. So after each batch the loop looks again, without waiting, for a little while. That must not cost anybody much,
so it learns whether it is of use:

    the next batch came while it was awake        it pays: it stays as long next time
    nothing came                                  it does not: half as long next time, and soon not at all
    between two looks much time had gone by       somebody else wants this processor: not at all

Where it is not at all, it is tried again after many batches.
"""

from __future__ import annotations

from collections.abc import Callable
from os import sched_yield
from time import monotonic

LONGEST = 0.0003
"""Seconds awake: more than a peer needs to be woken and to answer."""
SHORTEST = 0.00005
ROBBED = 0.0002
"""Seconds between two looks with nothing to do in between: the processor was somebody else's meanwhile."""
UNPAID_REST = 64
ROBBED_REST = 256
"""Batches until it is tried again."""


class Vigil:
    """One for each loop. `next_turn` has something called in the loop's next turn, as `call_soon` does."""

    def __init__(
        self, next_turn: Callable[[Callable[[], None]], object], clock: Callable[[], float] = monotonic
    ) -> None:
        self._next_turn = next_turn
        self._clock = clock
        self._length = LONGEST
        self._rest = 0
        self._until = 0.0
        self._last_look = 0.0
        self.awake = False

    def batch_done(self) -> None:
        """There was something to do."""
        if self.awake:
            self._length = LONGEST
        elif self._length < SHORTEST:
            self._rest -= 1
            if self._rest > 0:
                return
            self._length = LONGEST / 2
        self._last_look = self._clock()
        self._until = self._last_look + self._length
        if not self.awake:
            self.awake = True
            self._next_turn(self._look)

    def _look(self) -> None:
        """A turn of the loop has gone by."""
        sched_yield()  # whoever waits for this processor goes first: perhaps it is whom we wait for
        now = self._clock()
        if now - self._last_look > ROBBED:
            self._sleep(0.0, ROBBED_REST)
        elif now >= self._until:
            self._sleep(self._length / 2, UNPAID_REST)
        else:
            self._last_look = now
            self._next_turn(self._look)

    def _sleep(self, length: float, rest: int) -> None:
        self.awake = False
        self._length = length
        self._rest = rest
