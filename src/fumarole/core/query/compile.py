"""A query as a closure: selected or not, as fast as Python goes.

It is made from the canonical form, where a query is true exactly when enough of its tests are true. So unknown needs no
place of its own here: each test becomes a function that says whether it is true, AND is `all` and OR is `any`.

Tests of metadata and tests of the message are alike, but for where the value is found, and `Values` knows that.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

from fumarole.core.query.canonical import canonical
from fumarole.core.query.holds import COMPARISONS
from fumarole.core.query.like import like_test
from fumarole.core.query.message import OTHER
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
    Kind,
    Like,
    Matches,
    Not,
    Operator,
    Or,
    Query,
    kind_of,
)


class Values(Protocol):
    """The source of tested values: a producer's metadata, or a `Message` with the metadata of its producer."""

    def get(self, key: Any, /) -> Any:
        """The value; None: there is none."""

    def __contains__(self, key: Any, /) -> bool: ...


Selects = Callable[[Values], bool]


def compiled(query: Query) -> Selects:
    """Says of a producer's metadata, or of a message, whether the query holds: true, and neither false nor unknown."""
    return closure(canonical(query))


def closure(query: Query) -> Selects:
    """The same for a query that is in canonical form already."""
    match query:
        case And(terms):
            return _all([closure(term) for term in terms])
        case Or(terms):
            return _any([closure(term) for term in terms])
        case Compare(key, operator, constant):
            return _comparison(key, operator, constant)
        case In(key, constants):
            return _one_of(key, constants)
        case Not(In(key, constants)):
            return _none_of(key, constants)
        case Like(key, pattern):
            return _of_text(key, like_test(pattern))
        case Not(Like(key, pattern)):
            return _not_of_text(key, like_test(pattern))
        case Matches(key, regex):
            return _of_text(key, finder(regex))
        case Not(Matches(key, regex)):
            return _not_of_text(key, finder(regex))
        case Has(key):
            return _present(key)
        case IsNull(key):
            return _absent(key)
        case Between() | Not():
            raise AssertionError(f"not canonical: {query}")


def _present(key: Key) -> Selects:
    return lambda values: key in values


def _absent(key: Key) -> Selects:
    return lambda values: key not in values


def _all(terms: list[Selects]) -> Selects:
    first, second, *others = terms
    if not others:
        return lambda values: first(values) and second(values)

    def every(values: Values) -> bool:
        for term in terms:  # noqa: SIM110 - `all` with a generator takes twice as long
            if not term(values):
                return False
        return True

    return every


def _any(terms: list[Selects]) -> Selects:
    first, second, *others = terms
    if not others:
        return lambda values: first(values) or second(values)

    def some(values: Values) -> bool:
        for term in terms:  # noqa: SIM110 - `any` with a generator takes twice as long
            if term(values):
                return True
        return False

    return some


# A value that is not there is None here, which has the type of no kind; nor has OTHER.
_TYPES: Final = {Kind.TEXT: (str,), Kind.NUMBER: (int, float), Kind.TRUTH: (bool,)}


def _comparison(key: Key, operator: Operator, constant: Constant) -> Selects:
    value, types, holds = constant.value, _TYPES[constant.kind], COMPARISONS[operator]
    if operator == "=" and constant.kind is Kind.TEXT:
        return lambda values: values.get(key) == value  # only text is equal to text

    def selects(values: Values) -> bool:
        found = values.get(key)
        return type(found) in types and holds(found, value)

    return selects


def _one_of(key: Key, constants: tuple[Constant, ...]) -> Selects:
    if all(constant.kind is Kind.TEXT for constant in constants):
        texts = frozenset(constant.value for constant in constants)
        return lambda values: values.get(key) in texts
    wanted = frozenset((constant.kind, constant.value) for constant in constants)

    def selects(values: Values) -> bool:
        found = values.get(key)
        return found is not None and found is not OTHER and (kind_of(found), found) in wanted

    return selects


def _none_of(key: Key, constants: tuple[Constant, ...]) -> Selects:
    kinds = {constant.kind for constant in constants}
    if len(kinds) > 1:
        return lambda _: False  # comparing any value with one of them is unknown
    types = _TYPES[kinds.pop()]
    others = frozenset(constant.value for constant in constants)

    def selects(values: Values) -> bool:
        found = values.get(key)
        return type(found) in types and found not in others

    return selects


def _of_text(key: Key, holds: Callable[[str], bool]) -> Selects:
    def selects(values: Values) -> bool:
        found = values.get(key)
        return isinstance(found, str) and holds(found)

    return selects


def _not_of_text(key: Key, holds: Callable[[str], bool]) -> Selects:
    def selects(values: Values) -> bool:
        found = values.get(key)
        return isinstance(found, str) and not holds(found)

    return selects
