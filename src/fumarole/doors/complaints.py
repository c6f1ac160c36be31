"""Log lines that any stranger can cause: seldom, however often there is reason for one."""

import logging
import time
from collections.abc import Callable

SECONDS = 60.0
"""Between two lines of one kind."""


class Complaints:
    """Logs the first of each kind, and then one a minute with the number of those in between.

    The text says the kind; what differs from one to the next goes into the arguments.
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._last: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def __call__(self, text: str, *arguments: object) -> None:
        now = self._clock()
        unsaid = self._unsaid.get(text, 0)
        if text in self._last and now - self._last[text] < SECONDS:
            self._unsaid[text] = unsaid + 1
            return
        self._last[text] = now
        self._unsaid[text] = 0
        more = f" ({unsaid} more since the last such line)" if unsaid else ""
        self._log.warning(text + more, *arguments)
