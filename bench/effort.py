"""How much is measured, and who is told about it while it runs."""

from collections.abc import Callable
from typing import NamedTuple

QUICK_PART = 10
"""A quick run does so much less. Good for a look; its figures are not written down."""


class Effort(NamedTuple):
    rounds: int
    """Alternating rounds; the best of each server counts."""
    quick: bool
    tell: Callable[[str], None]

    def share(self, count: int) -> int:
        """So many, or fewer where it has to be quick."""
        return max(1, count // QUICK_PART) if self.quick else count
