"""Mistakes in a configuration: the place, the value found there, and the value expected.

A mistake may end up in a log, so it never shows a secret: of tables
and lists only the kind is named, and settings that hold secrets describe the found value without showing it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from fumarole.core.errors import FumaroleError

KeyPath = tuple[str | int, ...]
"""The path to a value: keys of tables, indexes of lists. `("users", 0, "name")`"""

LONGEST_SHOWN: Final = 60
"""The most characters of a value or key that a mistake shows."""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]{1,60}")
_URL_CREDENTIALS = re.compile(r"//.*@", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a value: a file and its line, a variable, or a flag."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake."""

    origin: Origin
    key: str
    found: str
    expected: str
    suggestion: str | None = None

    @property
    def line(self) -> int | None:
        """The line of the file, if it was a file."""
        return self.origin.line

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        hint = f" (did you mean {self.suggestion}?)" if self.suggestion else ""
        return f"{self.origin}: {key}found {self.found}, expected {self.expected}{hint}"


class ConfigurationError(FumaroleError):
    """The configuration cannot be used. `mistakes` has all of them: by line, then the variables, then the flags."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = sorted(mistakes, key=_reading_order)
        super().__init__("\n".join(map(str, self.mistakes)))


def _reading_order(mistake: Mistake) -> tuple[bool, int, bool]:
    return mistake.line is None, mistake.line or 0, mistake.origin.source.startswith("--")


@dataclass(slots=True)
class Report:
    """The mistakes found so far, and the source of each value."""

    origins: dict[KeyPath, Origin]
    mistakes: list[Mistake] = field(default_factory=list)

    def add(self, path: KeyPath, found: str, expected: str, suggestion: str | None = None) -> None:
        """Notes a mistake in the value at this path."""
        self.mistakes.append(Mistake(self.origin(path), key_text(path), found, expected, suggestion))

    def origin(self, path: KeyPath) -> Origin:
        """The source of the value, or of the nearest table around it."""
        while path not in self.origins:
            path = path[:-1]
        return self.origins[path]


def key_text(path: KeyPath) -> str:
    """A path as a person writes it: `users[0].publish.allow[1]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if _BARE_KEY.fullmatch(part) else repr(shortened(part)))
    return text


def shown(value: object) -> str:
    """A value in the form for a mistake: short, printable, and without credentials."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**LONGEST_SHOWN else "a huge number"
    if isinstance(value, float):
        return str(value)
    if isinstance(value, str):
        text = _URL_CREDENTIALS.sub("//…@", value)
        return "an empty text" if not text else repr(shortened(text))
    return kind(value)


def kind(value: object) -> str:
    """The kind of a value, without its contents."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "true or false"
    return "a number" if isinstance(value, int | float) else "a date or time"


def shortened(text: str) -> str:
    """At most `LONGEST_SHOWN` characters."""
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The nearest known word, if any is near."""
    by_folded = {candidate.lower(): candidate for candidate in known}
    found = get_close_matches(word[:LONGEST_SHOWN].lower(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None
