"""The definition of what a query means (M10): slow, small, and meant to be read.

SQL's three-valued logic. A test of a key that is not there is unknown, and so is a comparison of values of different
kinds; only HAS and IS NULL are always true or false. A consumer gets what is true.

    AND      true     unknown  false       OR       true  unknown  false        NOT
    true     true     unknown  false       true     true  true     true         true     false
    unknown  unknown  unknown  false       unknown  true  unknown  unknown      unknown  unknown
    false    false    false    false       false    true  unknown  false        false    true
"""

import operator as operators
from collections.abc import Callable, Sequence
from typing import Any, Final

from fumarole.core.query.regex import finder
from fumarole.core.query.tree import (
    And,
    Between,
    Compare,
    Constant,
    Has,
    In,
    IsNull,
    Like,
    Matches,
    Metadata,
    Not,
    Operator,
    Or,
    Query,
    Value,
    kind_of,
)

Truth = bool | None
"""None is unknown."""

COMPARISONS: Final[dict[Operator, Callable[[Any, Any], bool]]] = {
    "=": operators.eq,
    "!=": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}


def holds(query: Query, metadata: Metadata) -> Truth:
    """Does the query hold for a producer with this metadata? The definition."""
    match query:
        case And(terms):
            return every([holds(term, metadata) for term in terms])
        case Or(terms):
            return some([holds(term, metadata) for term in terms])
        case Not(term):
            return opposite(holds(term, metadata))
        case Has(key):
            return key in metadata
        case IsNull(key):
            return key not in metadata
    return None if query.key not in metadata else value_holds(query, metadata[query.key])


def value_holds(test: Compare | In | Between | Like | Matches, value: Value) -> Truth:
    """Does the test hold for the value that the key has?"""
    match test:
        case Compare(_, operator, constant):
            return comparison_holds(value, operator, constant)
        case In(_, constants):
            return some([comparison_holds(value, "=", constant) for constant in constants])
        case Between(_, low, high):
            return every([comparison_holds(value, ">=", low), comparison_holds(value, "<=", high)])
        case Like(_, pattern):
            return like(pattern, value) if isinstance(value, str) else None
        case Matches(_, regex):
            return finder(regex)(value) if isinstance(value, str) else None


def comparison_holds(value: Value, operator: Operator, constant: Constant) -> Truth:
    """Text by code points, numbers exactly whether whole or not, false before true."""
    return COMPARISONS[operator](value, constant.value) if kind_of(value) is constant.kind else None


def like(pattern: str, text: str) -> bool:
    """Is the whole text like the pattern? `ends` are the places where what has been read of the pattern can end."""
    ends = {0}
    for character in pattern:
        if character == "%":
            ends = set(range(min(ends), len(text) + 1)) if ends else ends
        else:
            ends = {end + 1 for end in ends if end < len(text) and character in ("_", text[end])}
    return len(text) in ends


def every(truths: Sequence[Truth]) -> Truth:
    """AND."""
    return False if False in truths else None if None in truths else True


def some(truths: Sequence[Truth]) -> Truth:
    """OR."""
    return True if True in truths else None if None in truths else False


def opposite(truth: Truth) -> Truth:
    """NOT."""
    return None if truth is None else not truth
