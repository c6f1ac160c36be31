"""The table of calls. The router, `/openapi.json` and the page of the documentation are made from it.

    Route("GET", "/v1/producers", producers.listing, "The producers, or those that a query selects", …)

A path ends in `{topic}` or `{pattern}`, which takes all words that follow, or has one word in braces, like `{id}`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from fumarole.core.errors import FumaroleError

if TYPE_CHECKING:
    from fumarole.sessions.http.call import Call


class Access(Enum):
    """The access that a call needs."""

    OPEN = "any client"
    USER = "any user"
    ADMIN = "the role admin"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One name of a query."""

    name: str
    text: str
    kind: str = "text"
    """text, count, seconds or flag."""
    example: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """One call."""

    method: str
    path: str
    handle: Callable[[Call], Any]
    """Answers; of a body that is taken line by line, gives back what hears it."""
    summary: str
    parameters: tuple[Parameter, ...] = ()
    answers: Mapping[int, str] = field(default_factory=dict)
    body: str = ""
    """The type of the body that is taken; empty: none is."""
    produces: tuple[str, ...] = ("application/json",)
    access: Access = Access.USER
    touches_messages: bool = True
    """Without users it wants a Host of this machine (H5)."""
    takes_lines: bool = False
    """The body is heard line by line as it comes."""
    switch: str = ""
    """The name by which `http.off` closes it."""


class BadParameterError(FumaroleError):
    """A path or query that is not as it should be; the text says how."""


OPAQUE: Final = "application/octet-stream"
"""The type of a body that the server does not parse."""
_REST: Final = ("{topic}", "{pattern}")


class Router:
    """Finds the routes of a path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._exact: dict[str, dict[str, Route]] = {}
        self._prefixes: list[tuple[str, str, dict[str, Route]]] = []
        for route in routes:
            prefix, brace, name = route.path.partition("{")
            if brace:
                self._of_prefix(prefix, brace + name)[route.method] = route
            else:
                self._exact.setdefault(route.path, {})[route.method] = route

    def _of_prefix(self, prefix: str, name: str) -> dict[str, Route]:
        for known, known_name, methods in self._prefixes:
            if known == prefix and (known_name in _REST) == (name in _REST):
                return methods
        made: dict[str, Route] = {}
        self._prefixes.append((prefix, name, made))
        return made

    def find(self, path: str) -> tuple[dict[str, Route], str]:
        """The routes of a path by method, and the words that its braces take. Empty: there is no such path."""
        exact = self._exact.get(path)
        if exact is not None:
            return exact, ""
        for prefix, name, methods in self._prefixes:
            if path.startswith(prefix):
                rest = path[len(prefix) :]
                if name in _REST or (rest and "/" not in rest):
                    return methods, rest
        return {}, ""


def topic_of(words: str) -> str:
    """The topic or pattern that the rest of a path is: words between `/` or `.`, percent-decoded."""
    return ".".join(_decoded(word) for word in words.split("/"))


def _decoded(word: str) -> str:
    if "%" not in word:
        text = word
    else:
        try:
            text = unquote_to_bytes(word).decode()
        except UnicodeDecodeError:
            raise BadParameterError("a path is UTF-8, percent-encoded") from None
    if text in (".", ".."):
        raise BadParameterError("`.` and `..` are no words of a topic")
    return text


def word_of(words: str) -> str:
    """One word of a path."""
    return _decoded(words)


COMMON: Final = (
    Parameter("namespace", "The namespace, where the server has no users (H1).", example="default"),
    Parameter(
        "node", "Only what the node of this name knows; another one is named in the answer 307.", example="node-1"
    ),
)


def options_of(query: str, parameters: Iterable[Parameter]) -> dict[str, Any]:
    """The names of a query with their values. Raises BadParameterError."""
    known = {each.name: each for each in (*parameters, *COMMON)}
    found: dict[str, Any] = {}
    for part in query.split("&"):
        if not part:
            continue
        name, _, value = part.replace("+", " ").partition("=")
        name = _text(name)
        if name not in known:
            raise BadParameterError(f"`{name[:32]}` is no parameter of this call; it has {', '.join(sorted(known))}")
        if name in found:
            raise BadParameterError(f"`{name}` is there twice")
        found[name] = _value(known[name], _text(value))
    return found


def _text(encoded: str) -> str:
    try:
        return unquote_to_bytes(encoded).decode() if "%" in encoded else encoded
    except UnicodeDecodeError:
        raise BadParameterError("a query is UTF-8, percent-encoded") from None


def _value(parameter: Parameter, text: str) -> str | int | float | bool:
    if parameter.kind == "count":
        if not (text.isascii() and text.isdigit() and len(text) <= 9):
            raise BadParameterError(f"`{parameter.name}` is a number of one to nine digits, not {text[:32]!r}")
        return int(text)
    if parameter.kind == "flag":
        if text not in ("0", "1", "true", "false"):
            raise BadParameterError(f"`{parameter.name}` is 0 or 1, not {text[:32]!r}")
        return text in ("1", "true")
    return text
