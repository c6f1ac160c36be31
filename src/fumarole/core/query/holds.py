"""The definition of what a query means (M10): slow, small, and meant to be read.

SQL's three-valued logic. A test of a key that is not there is unknown, and so is a comparison of values of different
kinds; only HAS and IS NULL are always true or false. A consumer gets what is true.

    AND      true     unknown  false       OR       true  unknown  false        NOT
    true     true     unknown  false       true     true  true     true         true     false
    unknown  unknown  unknown  false       unknown  true  unknown  unknown      unknown  unknown
    false    false    false    false       false    true  unknown  false        false    true

A query may have tests of the message too (F6). `holds` says whether a message is delivered, `could_hold` whether a
producer is in the set. What is delivered comes from a producer in the set: with NOT pushed inward only AND and OR are
left, and neither becomes less true where one of its terms does.
"""

import operator as operators
from collections.abc import Callable, Sequence
from typing import Any, Final

from fumarole.core.query.message import OTHER, Found, Message
from fumarole.core.query.regex import finder
from fumarole.core.query.tree import (
    And,
    Between,
    Compare,
    Constant,
    Has,
    In,
    IsNull,
    Key,
    Like,
    Matches,
    Metadata,
    Not,
    Operator,
    Or,
    Query,
    Value,
    fields,
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


def holds(query: Query, values: Metadata | Message) -> Truth:
    """True when the query holds for a producer with this metadata, or for a message. The definition.

    A test of the message is unknown where there is none.
    """
    match query:
        case And(terms):
            return every([holds(term, values) for term in terms])
        case Or(terms):
            return some([holds(term, values) for term in terms])
        case Not(term):
            return opposite(holds(term, values))
        case Has(key):
            return _found(key, values) is not None
        case IsNull(key):
            return _found(key, values) is None
    value = _found(query.key, values)
    return None if value is None or value is OTHER else value_holds(query, value)


def could_hold(query: Query, metadata: Metadata) -> Truth:
    """True when a producer with this metadata is in the set: a message of it could make the query true. The definition.

    That is the query with every test of the message, denied or not, taken as true. As such a test and its denial are
    both true then, NOT is pushed inward first.
    """
    match query:
        case And(terms):
            return every([could_hold(term, metadata) for term in terms])
        case Or(terms):
            return some([could_hold(term, metadata) for term in terms])
        case Not(And(terms)):
            return some([could_hold(Not(term), metadata) for term in terms])
        case Not(Or(terms)):
            return every([could_hold(Not(term), metadata) for term in terms])
        case Not(Not(term)):
            return could_hold(term, metadata)
        case _:  # a test, or the denial of one
            return True if fields(query) else holds(query, metadata)


def _found(key: Key, values: Metadata | Message) -> Found:
    if isinstance(values, Message):
        return values.get(key)
    return values.get(key) if isinstance(key, str) else None


def value_holds(test: Compare | In | Between | Like | Matches, value: Value) -> Truth:
    """True when the test holds for the value of the key."""
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
    """True when the whole text is like the pattern. `ends` are the possible ends of the pattern's part read so far."""
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
