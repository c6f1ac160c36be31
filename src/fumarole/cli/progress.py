"""Progress bars, on a terminal only, when work takes more than a moment."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import rich.progress

PATIENCE = 0.7
"""Seconds of work before a bar is shown."""
INTERVAL = 0.1


class Progress:
    """A bar, on stderr. Without a total it has no end. `counted` names what is shown as a number too."""

    def __init__(self, what: str, total: float | None, counted: str = "") -> None:
        self._what = what
        self._total = total
        self._counted = counted
        self._next = time.monotonic() + PATIENCE
        # Without a known end, or with typed input, a bar would disturb.
        self._enabled = sys.stderr.isatty() and not (total is None and sys.stdin.isatty())
        self._bar: rich.progress.Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: float) -> None:
        """Sets the amount that is done. Cheap to call often."""
        if not self._enabled or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + INTERVAL
        if self._bar is None:
            self._bar = self._make()
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done)

    def _make(self) -> rich.progress.Progress:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            SpinnerColumn,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        known = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn()) if self._total else (SpinnerColumn(),)
        count = (TextColumn("{task.completed:,.0f} " + self._counted),) if self._counted else ()
        bar = Progress(TextColumn(self._what), *known, *count, console=Console(stderr=True), transient=True)
        bar.add_task(self._what, total=self._total)
        return bar


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A line on a terminal that names the running work, until the block ends."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    # stderr may be redirected meanwhile; the line stays on the terminal.
    with os.fdopen(os.dup(sys.stderr.fileno()), "w") as screen:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=Console(file=screen), transient=True) as line:
            line.add_task(what, total=None)
            yield
