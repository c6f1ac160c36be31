"""Errors in a query. Each has the position, the text found and the text expected."""

import unicodedata

from fumarole.core.errors import FumaroleError

_SHOWN_BEFORE = 50
_SHOWN_AFTER = 20


class QueryError(FumaroleError):
    """A query that the language or its limits refuse: where, what was found, what was expected instead."""

    def __init__(self, query: str, position: int, found: str, expected: str) -> None:
        super().__init__(f"found {found}, expected {expected}, at position {position}")
        self.query = query
        self.position = position
        """The index of the first wrong character; the length of the query where it ends too early."""
        self.found = found
        self.expected = expected

    def caret(self) -> str:
        """The place in the query with a caret under it, then the sentence: three lines for a terminal."""
        start = max(self.query.rfind("\n", 0, self.position) + 1, self.position - _SHOWN_BEFORE)
        before = _printable(self.query[start : self.position])
        after = _printable(self.query[self.position : self.position + _SHOWN_AFTER].partition("\n")[0])
        return f"{before}{after}\n{' ' * _width(before)}^\n{self}"


def clipped(text: str, longest: int = 32) -> str:
    """A piece of a query for an error: short, on one line, without control characters."""
    return _printable(text if len(text) <= longest else text[: longest - 1] + "…")


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _width(text: str) -> int:
    """Columns on a terminal: two for the wide characters of East Asia, none for marks on the one before."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )
