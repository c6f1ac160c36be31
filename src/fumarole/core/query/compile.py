"""A query as a closure: selected or not, as fast as Python goes.

It is made from the canonical form, where a query is true exactly when enough of its tests are true. So unknown needs no
place of its own here: each test becomes a function that says whether it is true, AND is `all` and OR is `any`.
"""

from collections.abc import Callable
from typing import Final

from fumarole.core.query.canonical import canonical
from fumarole.core.query.holds import COMPARISONS
from fumarole.core.query.like import like_test
from fumarole.core.query.regex import finder
from fumarole.core.query.tree import (
    And,
    Between,
    Compare,
    Constant,
    Has,
    In,
    IsNull,
    Kind,
    Like,
    Matches,
    Metadata,
    Not,
    Operator,
    Or,
    Query,
    kind_of,
)

Selects = Callable[[Metadata], bool]


def compiled(query: Query) -> Selects:
    """Says of a producer's metadata whether the query holds: true, and neither false nor unknown."""
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


def _present(key: str) -> Selects:
    return lambda metadata: key in metadata


def _absent(key: str) -> Selects:
    return lambda metadata: key not in metadata


def _all(terms: list[Selects]) -> Selects:
    first, second, *others = terms
    if not others:
        return lambda metadata: first(metadata) and second(metadata)

    def every(metadata: Metadata) -> bool:
        for term in terms:  # noqa: SIM110 - `all` with a generator takes twice as long
            if not term(metadata):
                return False
        return True

    return every


def _any(terms: list[Selects]) -> Selects:
    first, second, *others = terms
    if not others:
        return lambda metadata: first(metadata) or second(metadata)

    def some(metadata: Metadata) -> bool:
        for term in terms:  # noqa: SIM110 - `any` with a generator takes twice as long
            if term(metadata):
                return True
        return False

    return some


# A value that is not there is None here, which has the type of no kind.
_TYPES: Final = {Kind.TEXT: (str,), Kind.NUMBER: (int, float), Kind.TRUTH: (bool,)}


def _comparison(key: str, operator: Operator, constant: Constant) -> Selects:
    value, types, holds = constant.value, _TYPES[constant.kind], COMPARISONS[operator]
    if operator == "=" and constant.kind is Kind.TEXT:
        return lambda metadata: metadata.get(key) == value  # only text is equal to text

    def selects(metadata: Metadata) -> bool:
        found = metadata.get(key)
        return type(found) in types and holds(found, value)

    return selects


def _one_of(key: str, constants: tuple[Constant, ...]) -> Selects:
    if all(constant.kind is Kind.TEXT for constant in constants):
        texts = frozenset(constant.value for constant in constants)
        return lambda metadata: metadata.get(key) in texts
    wanted = frozenset((constant.kind, constant.value) for constant in constants)

    def selects(metadata: Metadata) -> bool:
        found = metadata.get(key)
        return found is not None and (kind_of(found), found) in wanted

    return selects


def _none_of(key: str, constants: tuple[Constant, ...]) -> Selects:
    kinds = {constant.kind for constant in constants}
    if len(kinds) > 1:
        return lambda _: False  # whatever the value, comparing it with one of them is unknown
    types = _TYPES[kinds.pop()]
    values = frozenset(constant.value for constant in constants)

    def selects(metadata: Metadata) -> bool:
        found = metadata.get(key)
        return type(found) in types and found not in values

    return selects


def _of_text(key: str, holds: Callable[[str], bool]) -> Selects:
    def selects(metadata: Metadata) -> bool:
        found = metadata.get(key)
        return isinstance(found, str) and holds(found)

    return selects


def _not_of_text(key: str, holds: Callable[[str], bool]) -> Selects:
    def selects(metadata: Metadata) -> bool:
        found = metadata.get(key)
        return isinstance(found, str) and not holds(found)

    return selects
