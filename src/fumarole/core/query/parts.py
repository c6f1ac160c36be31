"""A query with tests on messages in two parts: the part that decides the set, and the tests of each message (F6).

    Kind = 'so2' AND $value > 80                  set: Kind = 'so2'     left: $value > 80
    Kind = 'so2' OR $value > 80                   set: every producer   left: all of it
    NOT (Kind = 'so2' AND $value > 80)            set: every producer   left: all of it
    Kind = 'so2' AND (Room = '4' OR $size > 9)    set: Kind = 'so2'     left: Room = '4' OR $size > 9

Both are made from the canonical form, where NOT stands before single tests only. Terms of an AND that ask nothing of
the message hold for every producer in the set, so they are not asked again.
"""

from typing import Final

from fumarole.core.query.canonical import canonical
from fumarole.core.query.compile import closure
from fumarole.core.query.tree import (
    And,
    Compare,
    Constant,
    Field,
    In,
    Kind,
    Not,
    Or,
    Query,
    Test,
    cost,
    fields,
    keys,
    tests,
)

VALUE: Final = Field("value")


def set_query(query: Query) -> Query | None:
    """Holds for the producers of which some message could make the query true: `holds.could_hold`. None: for all."""
    decides = _of_metadata(canonical(query))
    return None if decides is None else canonical(decides)


def message_query(query: Query) -> Query | None:
    """For a message of a producer in the set it holds where the whole query holds. Canonical form. None: for all."""
    form = canonical(query)
    terms = form.terms if isinstance(form, And) else (form,)
    left = tuple([term for term in terms if fields(term)])
    return _joined(left)


def _of_metadata(form: Query) -> Query | None:
    """The form with tests of the message taken as true, and left out. None: it is true."""
    match form:
        case And(terms):
            return _joined(tuple([part for part in map(_of_metadata, terms) if part is not None]))
        case Or(terms):
            parts = [part for part in map(_of_metadata, terms) if part is not None]
            return Or(tuple(parts)) if len(parts) == len(terms) else None
        case Not(term):
            return None if _of_metadata(term) is None else form
    return None if isinstance(form.key, Field) else form


def _joined(terms: tuple[Query, ...]) -> Query | None:
    if len(terms) > 1:
        return And(terms)
    return terms[0] if terms else None


class MessageTest:
    """The tests of a message, prepared for very many messages."""

    __slots__ = ("cost", "cuts", "holds", "paths", "query", "subject")

    def __init__(self, query: Query) -> None:
        self.query = query
        """In canonical form."""
        self.holds = closure(query)
        self.cost = cost(query)
        self.paths = frozenset([field.path for field in fields(query) if field.path])
        """The fields of JSON payloads that it tests."""
        self.subject = _subject(query)
        """Where it asks for nothing but `$value`, or nothing but one field of JSON payloads: that. None: for more."""
        self.cuts = _numbers(query)
        """The numbers that it compares with. Two values of its subject that are numbers on the same side of each of
        these, or equal to it, get the same answer."""


def _subject(query: Query) -> Field | None:
    asked = fields(query)
    if len(asked) > 1 or keys(query):
        return None
    (field,) = asked
    return field if field == VALUE or field.path else None


def _numbers(query: Query) -> frozenset[float]:
    constants = [each for test in tests(query) for each in _constants(test)]
    numbers = [each.value for each in constants if each.kind is Kind.NUMBER]
    return frozenset([number for number in numbers if not isinstance(number, str)])


def _constants(test: Test) -> tuple[Constant, ...]:
    match test:
        case Compare(_, _, constant):
            return (constant,)
        case In(_, constants):
            return constants
        case _:  # in canonical form there is no BETWEEN
            return ()
