"""Periods (F9): seconds as a number, or text with a unit, at every door and in every setting.

0.5   "500ms"   "1s"   "5m"   "2h"
"""

from __future__ import annotations

import re
from typing import Final

from fumarole.core.errors import FumaroleError

UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
EXPECTED: Final = "seconds as a number, or a number with a unit: 500ms, 1s, 5m, 2h"
SHORTEST_EVERY: Final = 0.001
LONGEST_EVERY: Final = 86_400.0
LONGEST: Final = 1e15
"""No period is so long; whole numbers beyond floats are refused by it too."""
SHOWN: Final = 32
_PERIOD = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?) ?(ms|s|min|m|h)?")


def _number_shown(number: object) -> str:
    return "a number so large" if isinstance(number, int) and abs(number) > LONGEST else str(number)


class PeriodError(FumaroleError):
    """An invalid period, or one that is invalid for this purpose."""


def parse_period(given: object) -> float:
    """The seconds of a period. Raises PeriodError."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        if 0 <= given <= LONGEST:  # not true of NaN
            return float(given)
        raise PeriodError(f"expected {EXPECTED}; not {_number_shown(given)}")
    if not isinstance(given, str):
        raise PeriodError(f"expected {EXPECTED}; not a value of type {type(given).__name__}")
    found = _PERIOD.fullmatch(given)
    if found is None:
        raise PeriodError(f"expected {EXPECTED}; not {given[:SHOWN]!r}")
    return float(found[1]) * UNITS[found[2] or "s"]


def parse_every(given: object) -> float:
    """The period of a conflated consumer (F4): 0, or a millisecond to a day. Raises PeriodError."""
    seconds = parse_period(given)
    if seconds and not SHORTEST_EVERY <= seconds <= LONGEST_EVERY:
        raise PeriodError(f"`every` is 0, or a period from 1ms to 24h; not {str(given)[:SHOWN]}")
    return seconds
