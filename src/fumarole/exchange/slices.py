"""Background work in slices, so that long work does not hold up other connections.

A job is an iterator, and each of its steps is a short slice. The first slice is done at once; most jobs have no
other. The event loop does the rest (`doors/slices.py`). Without an event loop all of it is done at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator


class Slices:
    """The unfinished jobs. They take turns, so that a short job does not wait for a long one."""

    def __init__(self) -> None:
        self._unfinished: deque[Iterator[None]] = deque()
        self.put_off: Callable[[], None] | None = None
        """Arranges that `step` is called until nothing is left. None: nothing is put off."""

    def begin(self, job: Iterator[None]) -> None:
        if _is_finished_by_a_step(job):
            return
        if self.put_off is None:
            for _ in job:
                pass
        else:
            self._unfinished.append(job)
            self.put_off()

    def step(self) -> bool:
        """Does a slice of the job whose turn it is. False when nothing is left."""
        if self._unfinished:
            job = self._unfinished.popleft()
            if not _is_finished_by_a_step(job):
                self._unfinished.append(job)
        return bool(self._unfinished)


def _is_finished_by_a_step(job: Iterator[None]) -> bool:
    return next(job, FINISHED) is FINISHED


FINISHED = object()
