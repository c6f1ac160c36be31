"""One form for queries that mean the same, so that they can share one evaluation.

What does not matter: the order of terms, repeated terms, parentheses, how often something is denied, and how it is put:

    NOT (b = 1 OR NOT a BETWEEN 1 AND 5)        a >= 1 AND a <= 5 AND b != 1
    a = 2 OR a = 1 OR a IN (2, 3)               a IN (1, 2, 3)

Every rule here holds in three-valued logic. De Morgan's do, and so does double denial; `a = 1 OR a != 1` is not always
true, and stays. NOT ends up directly before IN, LIKE and MATCHES and nowhere else, so that in this form a query is true
exactly when enough of its tests are true: neither `compile` nor `index` has to tell false from unknown.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

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
    show,
)
from fumarole.core.values import HIGHEST_INTEGER, LOWEST_INTEGER

_OPPOSITE: Final[dict[Operator, Operator]] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_ORDER_OF_KINDS: Final = list(Kind)


def canonical(query: Query) -> Query:
    """The form that all queries of this meaning share, as far as the rules above go."""
    return _affirmed(query).query


class _Form(NamedTuple):
    """A canonical query with the text by which it is ordered, and its terms in the same form if it is AND or OR."""

    text: str
    query: Query
    terms: tuple["_Form", ...] = ()


def _affirmed(query: Query) -> _Form:
    match query:
        case And(terms):
            return _all([_affirmed(term) for term in terms])
        case Or(terms):
            return _any([_affirmed(term) for term in terms])
        case Not(term):
            return _denied(term)
        case Between(key, low, high):
            return _all([_form(Compare(key, ">=", exact(low))), _form(Compare(key, "<=", exact(high)))])
        case _:
            return _form(_test(query))


def _denied(query: Query) -> _Form:
    """The canonical form of NOT query."""
    match query:
        case And(terms):
            return _any([_denied(term) for term in terms])
        case Or(terms):
            return _all([_denied(term) for term in terms])
        case Not(term):
            return _affirmed(term)
        case Between(key, low, high):
            return _any([_form(Compare(key, "<", exact(low))), _form(Compare(key, ">", exact(high)))])
        case _:
            return _form(_opposite(_test(query)))


def _test(test: Compare | In | Like | Matches | Has | IsNull) -> Compare | In | Like | Matches | Has | IsNull:
    match test:
        case Compare(key, operator, constant):
            return Compare(key, operator, exact(constant))
        case In(key, constants):
            return _one_of(key, constants)
        case Like(key, pattern):
            return _like(key, pattern)
        case _:
            return test


def _opposite(test: Compare | In | Like | Matches | Has | IsNull) -> Query:
    match test:
        case Compare(key, operator, constant):
            return Compare(key, _OPPOSITE[operator], constant)
        case Has(key):
            return IsNull(key)
        case IsNull(key):
            return Has(key)
        case _:
            return Not(test)


def _form(query: Query) -> _Form:
    return _Form(show(query), query)


def _all(forms: list[_Form]) -> _Form:
    """AND. `a != 1 AND a != 2` is `a NOT IN (1, 2)`."""
    flat = [inner for form in forms for inner in (form.terms if isinstance(form.query, And) else (form,))]
    terms = _gathered(flat, _excluded, _none_of)
    if len(terms) == 1:
        return terms[0]
    return _Form(f"({' AND '.join([term.text for term in terms])})", And(tuple([term.query for term in terms])), terms)


def _any(forms: list[_Form]) -> _Form:
    """OR. `a = 1 OR a = 2` is `a IN (1, 2)`."""
    flat = [inner for form in forms for inner in (form.terms if isinstance(form.query, Or) else (form,))]
    terms = _gathered(flat, _included, _one_of)
    if len(terms) == 1:
        return terms[0]
    return _Form(f"({' OR '.join([term.text for term in terms])})", Or(tuple([term.query for term in terms])), terms)


def _gathered(
    forms: list[_Form],
    list_in: Callable[[Query], In | None],
    made_of: Callable[[Key, Iterable[Constant]], Query],
) -> tuple[_Form, ...]:
    """Each term once, in the order of their texts, the lists of each key made one list."""
    lists: dict[Key, list[Constant]] = {}
    distinct: dict[str, _Form] = {}
    for form in forms:
        found = list_in(form.query)
        if found is None:
            distinct[form.text] = form
        else:
            lists.setdefault(found.key, []).extend(found.constants)
    for key, constants in lists.items():
        form = _form(made_of(key, constants))
        distinct[form.text] = form
    return tuple([distinct[text] for text in sorted(distinct)])


def _included(query: Query) -> In | None:
    """The equivalent list of this term, where there is one."""
    match query:
        case Compare(key, "=", constant):
            return In(key, (constant,))
        case In():
            return query
    return None


def _excluded(query: Query) -> In | None:
    """The list of which this term is the opposite, where there is one."""
    match query:
        case Compare(key, "!=", constant):
            return In(key, (constant,))
        case Not(In() as test):
            return test
    return None


def _one_of(key: Key, constants: Iterable[Constant]) -> Compare | In:
    ordered = sorted({exact(constant) for constant in constants}, key=_rank)
    return Compare(key, "=", ordered[0]) if len(ordered) == 1 else In(key, tuple(ordered))


def _none_of(key: Key, constants: Iterable[Constant]) -> Query:
    return _opposite(_one_of(key, constants))


def _rank(constant: Constant) -> tuple[int, object]:
    return _ORDER_OF_KINDS.index(constant.kind), constant.value


def exact(constant: Constant) -> Constant:
    """`5.0` is `5`, and `-0.0` is `0`; but `1e20` is too large to be written as a whole number, and stays."""
    value = constant.value
    if isinstance(value, float) and value.is_integer() and LOWEST_INTEGER <= value <= HIGHEST_INTEGER:
        return Constant(Kind.NUMBER, int(value))
    return constant


def _like(key: Key, pattern: str) -> Compare | Like:
    """`%%` is `%`, `%_` is `_%`, and without either it is an equality."""
    if not re.search("[%_]", pattern):
        return Compare(key, "=", Constant(Kind.TEXT, pattern))
    return Like(key, re.sub("[%_]{2,}", lambda run: "_" * run[0].count("_") + "%" * ("%" in run[0]), pattern))
