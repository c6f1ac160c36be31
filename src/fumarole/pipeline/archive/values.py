"""Values of metadata as rows of the archive have them: a kind, and a column for each kind.

A whole number that no double is has its digits in `text` too: without them 2⁵³ + 1 would be 2⁵³.
"""

from __future__ import annotations

from typing import NamedTuple

from fumarole.core.query.tree import Kind, Value, kind_of

GONE = "gone"


class Typed(NamedTuple):
    """A value in columns."""

    kind: str
    text: str | None = None
    number: float | None = None
    truth: bool | None = None


def typed(value: Value | None) -> Typed:
    """In columns; None: the key is gone."""
    if value is None:
        return Typed(GONE)
    match kind_of(value):
        case Kind.TEXT:
            return Typed(Kind.TEXT.value, text=str(value))
        case Kind.TRUTH:
            return Typed(Kind.TRUTH.value, truth=bool(value))
        case Kind.NUMBER:
            number = float(value)
            return Typed(Kind.NUMBER.value, text=None if number == value else str(value), number=number)


def plain(kind: str, text: str | None, number: float | None, truth: bool | None) -> Value | None:
    """The value again; None: the key is gone."""
    if kind == Kind.NUMBER:
        return number if text is None else int(text)
    return {Kind.TEXT.value: text, Kind.TRUTH.value: truth}.get(kind)
