"""What is to be done later. Pure: the time is a number from outside, and the event loop is told when to come back.

`doors/timers.py` runs it on the event loop. Without one, `run` is called with the time.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count


class Timers:
    """Calls, each at its time; of the same time, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._calls: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._now = 0.0
        self.clock: Callable[[], float] | None = None
        """The event loop's; None: there is none, and time passes by `run`."""
        self.arrange: Callable[[float], None] = lambda _: None
        """Arranges that `run` is called at this time."""

    def now(self) -> float:
        return self._now if self.clock is None else self.clock()

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        due = self.now() + seconds
        is_first = not self._calls or due < self._calls[0][0]
        heappush(self._calls, (due, next(self._numbers), call))
        if is_first:
            self.arrange(due)

    def run(self, now: float) -> None:
        """Does all that is due."""
        self._now = max(self._now, now)
        while self._calls and self._calls[0][0] <= now:
            heappop(self._calls)[2]()
        if self._calls:
            self.arrange(self._calls[0][0])
