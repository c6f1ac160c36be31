"""An RE2 expression as a tree of sets of characters, with everything that is only spelling gone.

    (?i)^[a-c][0-9]{2}$    ->    Sequence(begin, {A-C a-c}, Repeat({0-9}, 2, 2), end)

Which characters a class, an escape or a letter without regard to case stands for is asked of RE2 itself, by letting it
loose on a text of all characters. So nothing about Unicode is known here, and nothing can differ.

Greedy or not, captured or not: it makes no difference to whether there is a match, and is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache

import re2  # type: ignore[import-untyped]

Ranges = tuple[tuple[int, int], ...]
"""First and last code point of each run, in order."""


class Place(Enum):
    """What holds between two characters."""

    BEGIN = "begin of the text"
    END = "end of the text"
    LINE_BEGIN = "begin of a line"
    LINE_END = "end of a line"
    WORD_EDGE = "edge of a word"


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other; of no parts: the empty text."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of them."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """At least `low` times, at most `high`; None: without end."""

    node: Node
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class First:
    """A repetition of a set up to the first place where what follows it stands: no other place need be tried."""

    gap: Repeat
    until: Sequence


Node = Characters | Place | Sequence | Choice | Repeat | First
EMPTY = Sequence(())


class CannotTranslateError(ValueError):
    """An expression that only RE2 understands."""


SURROGATES = (0xD800, 0xDFFF)


@cache
def _every_character() -> bytes:
    low, high = SURROGATES
    return "".join(map(chr, [*range(low), *range(high + 1, 0x110000)])).encode()


@lru_cache(maxsize=1024)
def characters(token: str, ignore_case: bool) -> Ranges:
    """The characters that this piece of an expression stands for, as RE2 has it."""
    found = re2.compile(f"(?s{'i' if ignore_case else ''})(?:{token})+").finditer(_every_character())
    ranges: list[tuple[int, int]] = []
    for match in found:
        run = match.group()
        first, last = ord(run[:4].decode(errors="ignore")[0]), ord(run[-4:].decode(errors="ignore")[-1])
        # A run that goes on over the gap of the surrogates is two: half a pair is no character.
        if first < SURROGATES[0] and last > SURROGATES[1]:
            ranges += [(first, SURROGATES[0] - 1), (SURROGATES[1] + 1, last)]
        else:
            ranges.append((first, last))
    return tuple(ranges)


def parse(regex: str) -> Node:
    """The tree of an expression that RE2 accepts. Raises CannotTranslateError."""
    return _Parser(regex).parse()


_CLASS = re.compile(r"\[\^?\]?(?:\[:\^?\w+:\]|\\[pP]\{[^}]*\}|\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPE = re.compile(
    r"\\(?:[pP](?:\{[^}]*\}|.)|x(?:\{[0-9A-Fa-f]+\}|[0-9A-Fa-f]{2})|[0-7]{1,3}|.)",
    re.DOTALL,
)
_GROUP = re.compile(r"\((?:\?P?<[^>]+>|\?(?P<flags>[imsU]*(?:-[imsU]+)?)(?P<end>[:)]))?")
_COUNT = re.compile(r"\{(?P<low>\d+)(?P<to>,(?P<high>\d*))?\}")
_PLACES = {r"\A": Place.BEGIN, r"\z": Place.END, r"\b": Place.WORD_EDGE}
_BYTES_ONLY = {
    r"\C": "is one byte, and Spark knows only characters",
    r"\B": "is found by RE2 inside of a character too, between its bytes, and Spark knows only characters",
}


class _Parser:
    """Recursive descent over an expression that is known to be one."""

    def __init__(self, regex: str) -> None:
        self._regex = regex
        self._at = 0
        self._flags: frozenset[str] = frozenset()

    def parse(self) -> Node:
        node = self._choice()
        assert self._at == len(self._regex), self._regex
        return node

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._regex, self._at)
        if found:
            self._at = found.end()
        return found

    def _next(self) -> str:
        return self._regex[self._at : self._at + 1]

    def _choice(self) -> Node:
        options = [self._sequence()]
        while self._next() == "|":
            self._at += 1
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._next() not in {"", "|", ")"}:
            parts += self._pieces()
            if parts:  # flags and `\Q\E` are no pieces: what is repeated after them stands before them
                parts[-1] = self._repeated(parts[-1])
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repeated(self, node: Node) -> Node:
        while True:
            sign = self._next()
            if sign and sign in "*+?":
                self._at += 1
                node = Repeat(node, int(sign == "+"), 1 if sign == "?" else None)
            elif sign == "{" and (count := self._take(_COUNT)):
                low = int(count["low"])
                high = low if count["to"] is None else int(count["high"]) if count["high"] else None
                node = Repeat(node, low, high)
            else:
                return node
            if self._next() == "?":
                self._at += 1  # not greedy

    def _pieces(self) -> Iterator[Node]:
        """The next thing to be repeated; of quoted text, each character, since a repetition is of the last."""
        sign = self._next()
        if sign == "(":
            yield from self._group()
        elif sign == "[":
            yield self._set(self._required(_CLASS))
        elif self._regex.startswith(r"\Q", self._at):
            yield from self._quoted()
        elif sign == "\\":
            yield self._escape(self._required(_ESCAPE))
        else:
            self._at += 1
            yield self._sign(sign)

    def _required(self, pattern: re.Pattern[str]) -> str:
        found = self._take(pattern)
        assert found, self._regex
        return found[0]

    def _sign(self, sign: str) -> Node:
        lines = "m" in self._flags
        if sign == "^":
            return Place.LINE_BEGIN if lines else Place.BEGIN
        if sign == "$":
            return Place.LINE_END if lines else Place.END
        if sign == ".":
            return self._set("." if "s" in self._flags else r"[^\n]")
        return self._literal(sign)

    def _literal(self, character: str) -> Node:
        if "i" in self._flags:
            return self._set(rf"\x{{{ord(character):x}}}")
        return Characters(((ord(character), ord(character)),))

    def _set(self, token: str) -> Node:
        return Characters(characters(token, "i" in self._flags))

    def _escape(self, token: str) -> Node:
        if token in _BYTES_ONLY:
            raise CannotTranslateError(f"`{token}` {_BYTES_ONLY[token]}")
        return _PLACES.get(token) or self._set(token)

    def _quoted(self) -> Iterator[Node]:
        end = self._regex.find(r"\E", self._at)
        text = self._regex[self._at + 2 : end if end >= 0 else None]
        self._at = end + 2 if end >= 0 else len(self._regex)
        yield from map(self._literal, text)

    def _group(self) -> Iterator[Node]:
        start = self._take(_GROUP)
        assert start, self._regex
        before = self._flags
        if start["flags"] is not None:
            on, _, off = start["flags"].partition("-")
            self._flags = (self._flags | set(on)) - set(off)
        if start["end"] == ")":
            return  # the flags hold for the rest of the group around it
        node = self._choice()
        self._at += 1
        self._flags = before
        yield node


def length(node: Node) -> int | None:
    """How many characters it has, where all its texts have as many."""
    match node:
        case Characters():
            return 1
        case Place():
            return 0
        case Sequence(parts):
            lengths = [length(part) for part in parts]
            return None if None in lengths else sum(filter(None, lengths))
        case Choice(options):
            lengths = [length(option) for option in options]
            return lengths[0] if len(set(lengths)) == 1 else None
        case Repeat(inner, low, high):
            once = length(inner)
            return once * low if once is not None and low == high else None
        case First():
            return None


def nullable(node: Node) -> bool:
    """Can it be the empty text?"""
    match node:
        case Characters():
            return False
        case Place():
            return True
        case Sequence(parts):
            return all(map(nullable, parts))
        case Choice(options):
            return any(map(nullable, options))
        case Repeat(inner, low, _):
            return low == 0 or nullable(inner)
        case First():
            return False


def has_places(node: Node) -> bool:
    """Is a condition on the place in it?"""
    match node:
        case Place():
            return True
        case Sequence(parts) | Choice(parts):
            return any(map(has_places, parts))
        case Repeat(inner, _, _):
            return has_places(inner)
        case First(_, until):
            return has_places(until)
        case Characters():
            return False
