"""A rate limit for log lines that any client can cause."""

import logging
import time
from collections.abc import Callable

SECONDS = 60.0
"""Between two lines of one kind."""


SHOWN = 50
"""Characters of what a client has said."""


def plain(text: str) -> str:
    """A client's words as they may stand in a log: short, and without a character that a terminal obeys."""
    return text[:SHOWN].encode("unicode_escape").decode("ascii")[: 2 * SHOWN]


class LogLimiter:
    """Logs the first line of each kind, then one a minute with the number of lines left out.

    The text is the kind. What differs between two lines of a kind belongs in the arguments.
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._last: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def __call__(self, text: str, *arguments: object) -> None:
        now = self._clock()
        left_out = self._left_out.get(text, 0)
        if text in self._last and now - self._last[text] < SECONDS:
            self._left_out[text] = left_out + 1
            return
        self._last[text] = now
        self._left_out[text] = 0
        more = f" ({left_out} more since the last such line)" if left_out else ""
        self._log.warning(text + more, *arguments)
