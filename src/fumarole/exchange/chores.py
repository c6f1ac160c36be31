"""Work that takes long, a step at a time: others want their turn.

A chore is an iterator, and each step of it takes a moment. The first is taken at once, and mostly there is no other.
Whoever has a clock and an event loop goes on with the rest; where there is nobody, it is done at once too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator


class Chores:
    """What is unfinished. Chores take turns, so that a short one does not wait for a long one."""

    def __init__(self) -> None:
        self._unfinished: deque[Iterator[None]] = deque()
        self.put_off: Callable[[], None] | None = None
        """Sees to it that `step` is called until nothing is left; None: nobody does, and nothing is put off."""

    def begin(self, chore: Iterator[None]) -> None:
        if _is_finished_by_a_step(chore):
            return
        if self.put_off is None:
            for _ in chore:
                pass
        else:
            self._unfinished.append(chore)
            self.put_off()

    def step(self) -> bool:
        """Takes one, of the chore whose turn it is. False: nothing is left to do."""
        if self._unfinished:
            chore = self._unfinished.popleft()
            if not _is_finished_by_a_step(chore):
                self._unfinished.append(chore)
        return bool(self._unfinished)


def _is_finished_by_a_step(chore: Iterator[None]) -> bool:
    return next(chore, FINISHED) is FINISHED


FINISHED = object()
