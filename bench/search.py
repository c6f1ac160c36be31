"""The highest rate without loss, found by trying rates.

`highest` goes through given rates upwards. `limit` begins near the last known one and halves the interval on a
logarithmic scale: five to six attempts instead of nine, for attempts that take long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Round = TypeVar("Round")


class Rated(Protocol):
    """The result of an attempt, with the rate that it came to."""

    @property
    def rate(self) -> float: ...


Attempted = TypeVar("Attempted", bound=Rated)
TRIES = 2
"""Of one rate in `highest`. What a busy machine lost once is not yet what cannot be taken."""
STEP = 1.5
NEAR = 1.15
"""The rate that was taken and the one that was not are so near each other at the end."""
MOST_ATTEMPTS = 6
SATURATED = 0.7
"""An attempt that comes to less of its rate: the publisher cannot offer more, so no higher rate is tried."""


def highest(rates: Sequence[float], attempt: Callable[[float], Round | None]) -> Round | None:
    """What the last attempt without a loss came to; None: all lost something. An attempt that loses gives None."""
    best: Round | None = None
    for rate in rates:
        found = next((done for _ in range(TRIES) if (done := attempt(rate)) is not None), None)
        if found is None:
            break
        best = found
    return best


def limit(start: float, attempt: Callable[[float], Attempted | None]) -> Attempted | None:
    """What the attempt at the highest rate without a loss came to; None: all lost something.

    The first loss at a rate is believed.
    """
    taken, lost = 0.0, math.inf
    best: Attempted | None = None
    rate = start
    for _ in range(MOST_ATTEMPTS):
        found = attempt(rate)
        if found is None:
            lost = rate
        else:
            taken, best = rate, found
        if lost <= taken * NEAR or (found is not None and found.rate < rate * SATURATED):
            break
        rate = taken * STEP if lost == math.inf else lost / STEP if not taken else math.sqrt(taken * lost)
    return best
