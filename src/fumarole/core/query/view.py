"""Views (F7): the distinct values of some metadata keys over the producers that a query selects.

    select Region, count(*) where Status = 'failed'

    producers                                  entries
    1  Region usa,   Status failed             usa    2
    2  Region usa,   Status failed             japan  1
    3  Region japan, Status failed             nil    1
    4  Region japan, Status fine
    5                Status failed

A key that a producer does not have is nil, a value of its own. Values that are equal (M10) are one: 5 and 5.0 are, 1
and true are not. `content` is the definition of what a view holds, `diff` of what changes: an entry whose count
changes goes, and comes again with the other.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from fumarole.core.limits import Limits
from fumarole.core.query.canonical import exact
from fumarole.core.query.errors import QueryError, clipped
from fumarole.core.query.holds import holds
from fumarole.core.query.tree import (
    FIELD,
    PLAIN_KEY,
    QUOTED_KEY,
    Constant,
    Metadata,
    Query,
    Value,
    constant,
    is_keyword,
    show,
    show_key,
    unquoted,
)


@dataclass(frozen=True, slots=True)
class View:
    """The keys of a view, and the query that selects its producers."""

    keys: tuple[str, ...]
    counted: bool
    """True when the number of producers is the last element of each entry."""
    query: Query

    def __post_init__(self) -> None:
        assert self.keys


Entry = tuple[Constant | None, ...]
"""The values of the keys, each with its kind, so that 1 and true are two; None: nil."""


class Diff(NamedTuple):
    """Entries that came, and entries that went."""

    new: frozenset[Entry]
    gone: frozenset[Entry]

    def __bool__(self) -> bool:
        return bool(self.new or self.gone)


def content(view: View, producers: Iterable[Metadata]) -> frozenset[Entry]:
    """The entries of the view for these producers. The definition."""
    counts = Counter([entry_of(view, metadata) for metadata in producers if holds(view.query, metadata) is True])
    return frozenset([(*entry, constant(count)) if view.counted else entry for entry, count in counts.items()])


def diff(before: frozenset[Entry], after: frozenset[Entry]) -> Diff:
    """The change between two contents. The definition."""
    return Diff(after - before, before - after)


def joined(first: Diff, second: Diff) -> Diff:
    """One for two that follow one another: what came and went again is in neither."""
    return Diff(
        (first.new - second.gone) | (second.new - first.gone), (first.gone - second.new) | (second.gone - first.new)
    )


def arrays(entries: Iterable[Entry]) -> list[list[Value | None]]:
    """Entries in their sent form (F7), in a deterministic order."""
    return [[None if each is None else each.value for each in entry] for entry in sorted(entries, key=_rank)]


def entry_of(view: View, metadata: Metadata) -> Entry:
    """The entry of one producer, its count left out."""
    values = map(metadata.get, view.keys)
    return tuple([None if value is None else exact(constant(value)) for value in values])


def _rank(entry: Entry) -> list[tuple[str, Value]]:
    return [("", "") if each is None else (each.kind, each.value) for each in entry]


def show_view(view: View) -> str:
    """The view as text. Parsed again it is the same."""
    names = [_quoted_if_reserved(key) for key in view.keys] + ["count(*)"] * view.counted
    return f"select {', '.join(names)} where {show(view.query)}"


def _quoted_if_reserved(key: str) -> str:
    return f"`{key}`" if key.lower() == _WHERE else show_key(key)


# From text.

_SELECT: Final = "select"
_WHERE: Final = "where"
_TOKEN: Final = re.compile(
    rf"\s*(?:(?P<count>(?i:count)\s*\(\s*\*\s*\))|(?P<key>{PLAIN_KEY})|(?P<quoted>{QUOTED_KEY})|(?P<field>{FIELD})"
    r"|(?P<comma>,)|(?P<end>\Z)|(?P<other>\S[^\s,`]*))"
)
# The tokens that follow a key with the name `select` in a query.
_GOES_ON: Final = re.compile(r"\s*(?:[=<>!]|(?:IN|BETWEEN|LIKE|MATCHES|IS|NOT|AND|OR)\b)", re.IGNORECASE)
_DEFAULTS: Final = Limits()


def is_view(text: str) -> bool:
    """True when the text is a view. A query whose first key is `select` continues as a query."""
    first = _TOKEN.match(text)
    return first is not None and _is(first, _SELECT) and _GOES_ON.match(text, first.end()) is None


def parse_view(text: str, limits: Limits = _DEFAULTS) -> View:
    """The view that a text is. Raises QueryError, also where its query has a test of the message."""
    from fumarole.core.query.parse import check_query_length  # the parser is imported where a query is parsed

    check_query_length(text, limits.query_length)
    token = _next(text, 0)
    if not _is(token, _SELECT):
        raise _unexpected(text, token, _SELECT)
    keys: dict[str, None] = {}
    counted = False
    while not counted:
        token = _next(text, token.end())
        if token.lastgroup == "count" and keys:
            counted = True
        else:
            _add(keys, text, token, limits.view_keys)
        token = _next(text, token.end())
        if token.lastgroup != "comma":
            break
    if not _is(token, _WHERE):
        raise _unexpected(text, token, _WHERE if counted else f"a comma or {_WHERE}")
    return View(tuple(keys), counted, _query(text, token.end(), limits))


def _next(text: str, at: int) -> re.Match[str]:
    token = _TOKEN.match(text, at)
    assert token is not None  # there is one for every character, and for the end
    return token


def _is(token: re.Match[str], word: str) -> bool:
    return token.lastgroup == "key" and token["key"].lower() == word


def _add(keys: dict[str, None], text: str, token: re.Match[str], most: int) -> None:
    if token.lastgroup == "quoted":
        key = unquoted(token["quoted"])
    elif token.lastgroup == "key" and not _is(token, _WHERE) and not is_keyword(token["key"]):
        key = token["key"]
    elif token.lastgroup == "field":
        raise _unexpected(text, token, "a metadata key: a view is of producers, and there is no message to look at")
    else:
        raise _unexpected(text, token, "a key")
    if key in keys:
        raise _unexpected(text, token, "each key once")
    keys[key] = None
    if len(keys) > most:
        raise QueryError(text, _start(token), f"key number {len(keys)}", f"at most {most}")


def _query(text: str, begin: int, limits: Limits) -> Query:
    try:
        from fumarole.core.query.parse import parse_without_message

        return parse_without_message(text[begin:], limits)
    except QueryError as wrong:
        raise QueryError(text, begin + wrong.position, wrong.found, wrong.expected) from None


def _start(token: re.Match[str]) -> int:
    return token.start(token.lastgroup or 0)


def _unexpected(text: str, token: re.Match[str], expected: str) -> QueryError:
    found = "the end" if token.lastgroup == "end" else f"`{clipped(token[token.lastgroup or 0])}`"
    return QueryError(text, _start(token), found, expected)
