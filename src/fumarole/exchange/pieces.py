"""Answers by the value of one field: where tests ask for nothing else, they need not be asked again and again.

The numbers in the tests cut the line of numbers into pieces, and within a piece the answer is the same. So a message
costs a search for its piece, however many ask:

    $value > 80   $value BETWEEN 20 AND 90      …  20  …  80  …  90  …      seven pieces: each number, and around them

What is no number has pieces of its own: missing, true, false, and what is of no kind. Text has none: it may be tested
in many ways.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from fumarole.core.query.message import OTHER, Found
from fumarole.core.query.tree import Field

if TYPE_CHECKING:
    from fumarole.exchange.plans import Plan

PLANS_KEPT: Final = 32
MISSING, TRUE, FALSE, OF_NO_KIND = -1, -2, -3, -4
"""Pieces that hold one value."""


class Cuts:
    """The numbers with which a field is compared."""

    __slots__ = ("field", "numbers")

    def __init__(self, field: Field, numbers: Iterable[float]) -> None:
        self.field = field
        self.numbers = sorted(numbers)

    def piece(self, value: Found) -> int | None:
        """The piece that a value is in; None: it is in none."""
        if value is None:
            return MISSING
        if value is OTHER:
            return OF_NO_KIND
        if isinstance(value, bool):
            return TRUE if value else FALSE
        if isinstance(value, str):
            return None
        place = bisect_left(self.numbers, value)
        return 2 * place + (place < len(self.numbers) and self.numbers[place] == value)


class Pieces:
    """The plans of one producer's messages, by piece, as far as they are known.

    The compiled forms of both are in fastpath/pieces.pyx.
    """

    __slots__ = ("_plans", "cuts")

    def __init__(self, cuts: Cuts) -> None:
        self.cuts = cuts
        self._plans: dict[int, Plan] = {}

    def find(self, value: Found) -> Plan | None:
        """The plan of a message with this value; None: it is not known."""
        piece = self.cuts.piece(value)
        return None if piece is None else self._plans.get(piece)

    def keep(self, value: Found, plan: Plan) -> None:
        """This is the plan of every message whose value is in the same piece."""
        piece = self.cuts.piece(value)
        if piece is not None:
            if len(self._plans) >= PLANS_KEPT:
                self._plans.clear()
            self._plans[piece] = plan
