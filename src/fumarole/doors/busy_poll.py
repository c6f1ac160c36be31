"""Adaptive busy polling. After each batch the loop polls for up to 300 µs before it sleeps.

Waking a sleeping CPU costs more than routing a message, so a loop that expects an answer soon does not sleep. Polling
must not cost other processes much, so it adapts to what came of it:

    the next batch came during polling, soon           the next poll is eight times as long as that took,
                                                       but at least half as long as this one
    it came late                                       the next poll is as long as possible
    nothing came                                       the next poll is half as long, and soon there is none
    much time passed between two turns of the loop     another process needs this CPU: no polling

Polling that was given up is tried again after many batches.

So a client that answers after 40 µs is waited for as long as possible. But of 100 clients that publish in one moment
the batches come 10 µs apart, and after the last of them it is not worth 300 µs to wait for more.
"""

from __future__ import annotations

from collections.abc import Callable
from os import sched_yield
from time import monotonic

LONGEST = 0.0003
"""Seconds of polling: more than a client needs to be woken and to answer."""
SHORTEST = 0.00005
TIMES = 8
"""How many times the last wait is waited for the next batch."""
PREEMPTED = 0.0002
"""Seconds between two turns without work: another process had the CPU."""
UNPAID_REST = 64
PREEMPTED_REST = 256
"""Batches until polling is tried again."""


class BusyPoll:
    """One for each loop. `next_turn` calls a function in the loop's next turn, as `call_soon` does."""

    def __init__(
        self, next_turn: Callable[[Callable[[], None]], object], clock: Callable[[], float] = monotonic
    ) -> None:
        self._next_turn = next_turn
        self._clock = clock
        self._length = LONGEST
        self._rest = 0
        self._until = 0.0
        self._since = 0.0
        """When the last batch was done."""
        self._last_turn = 0.0
        self.polling = False

    def batch_done(self) -> None:
        """A batch was read and answered."""
        now = self._clock()
        if self.polling:
            self._length = min(max(TIMES * (now - self._since), self._length / 2, 2 * SHORTEST), LONGEST)
        elif self._length < SHORTEST:
            self._rest -= 1
            if self._rest > 0:
                return
            self._length = LONGEST / 2
        self._since = self._last_turn = now
        self._until = now + self._length
        if not self.polling:
            self.polling = True
            self._next_turn(self._poll)

    def _poll(self) -> None:
        """A turn of the loop has passed."""
        sched_yield()  # a process that waits for this CPU runs first: it may be the client whose answer is awaited
        now = self._clock()
        if now - self._last_turn > PREEMPTED:
            self._stop(0.0, PREEMPTED_REST)
        elif now >= self._until:
            self._stop(self._length / 2, UNPAID_REST)
        else:
            self._last_turn = now
            self._next_turn(self._poll)

    def _stop(self, length: float, rest: int) -> None:
        self.polling = False
        self._length = length
        self._rest = rest
