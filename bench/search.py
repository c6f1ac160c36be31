"""The highest rate without loss: rates are tried, each higher than the one before, until one loses something twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Round = TypeVar("Round")
TRIES = 2
"""Of one rate. What a busy machine lost once is not yet what the recorder cannot take."""


def highest(rates: Sequence[float], attempt: Callable[[float], Round | None]) -> Round | None:
    """What the last attempt without a loss came to; None: all lost something. An attempt that loses gives None."""
    best: Round | None = None
    for rate in rates:
        found = next((done for _ in range(TRIES) if (done := attempt(rate)) is not None), None)
        if found is None:
            break
        best = found
    return best
