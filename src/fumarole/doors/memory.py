"""Memory that has become free is given back to the system.

The C library keeps what is freed for the next time, and after one bad hour with slow consumers the next time may
never come.
"""

import asyncio
import ctypes
from collections.abc import Callable

ENOUGH = 8 * 1024 * 1024
"""Bytes to have become free before it is worth the milliseconds."""
PAUSE = 1.0
"""Seconds: connections that end together are cleaned up together."""


def _trim_function() -> Callable[[int], int] | None:
    # Only glibc has it, and only glibc needs it.
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
    return trim


class Freed:
    """Adds up what is freed, and gives it back when it is enough."""

    def __init__(self, trim: Callable[[int], int] | None) -> None:
        self._trim = trim
        self._bytes = 0

    def __call__(self, size: int) -> None:
        """So many bytes have become free, or are about to."""
        before, self._bytes = self._bytes, self._bytes + size
        if self._trim is not None and before <= ENOUGH < self._bytes:
            asyncio.get_running_loop().call_later(PAUSE, self._give_back, self._trim)

    def _give_back(self, trim: Callable[[int], int]) -> None:
        self._bytes = 0
        trim(0)


freed = Freed(_trim_function())
