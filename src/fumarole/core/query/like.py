"""LIKE: patterns whose cost grows with the text, also for hostile ones.

`%` cuts a pattern into parts of fixed length. The first part stands at the text's start, the last at its end, and the
others between them in order: the leftmost place for each is always good enough, so no part is looked for twice.

A part with `_` in it could still be tried at each place of the text and fail at its end each time: `a_a_a_b` among
very many `a`. Where part and text are long, all places are tried at once: a number has a bit for each of them, and
every character of the part takes away the bits of those where it does not stand.

    part   a_b              text   abacab
    `a` stands at           bits 0, 2, 4
    `b` stands at 1, 5      two before: bit 3
    both                    none: it is not in there
"""

import re
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from typing import Final

SHORT: Final = 32_768
"""Characters of the part times those of the text up to which trying one place after another is the fastest way."""

Find = Callable[[str, int, int], int]
"""The leftmost place of a part between two places of a text; -1: there is none."""


def like_test(pattern: str) -> Callable[[str], bool]:
    """True when the whole text is like the pattern."""
    first, *middle = parts = pattern.split("%")
    if "_" not in pattern and len(parts) == 2:
        before, after, shortest = first, parts[1], len(pattern) - 1
        return lambda text: len(text) >= shortest and text.startswith(before) and text.endswith(after)
    if not middle:
        whole = _form(pattern).fullmatch
        return lambda text: whole(text) is not None
    last = middle.pop()
    begins, ends = _stands(first), _stands(last)
    finds = [(_find(part), len(part)) for part in middle]

    def holds(text: str) -> bool:
        start, end = len(first), len(text) - len(last)
        if start > end or not begins(text, 0) or not ends(text, end):
            return False
        for find, length in finds:
            start = find(text, start, end)
            if start < 0:
                return False
            start += length
        return True

    return holds


def _stands(part: str) -> Callable[[str, int], bool]:
    """True when the part stands at this place of the text."""
    if "_" not in part:
        return lambda text, at: text.startswith(part, at)
    match = _form(part).match
    return lambda text, at: match(text, at) is not None


def _form(part: str) -> re.Pattern[str]:
    return re.compile("".join(["." if c == "_" else re.escape(c) for c in part]), re.DOTALL)


def _find(part: str) -> Find:
    if "_" not in part:
        return lambda text, start, end: text.find(part, start, end)
    search, length = _form(part).search, len(part)
    fixed = [(at, character) for at, character in enumerate(part) if character != "_"]

    def one_by_one(text: str, start: int, end: int) -> int:
        found = search(text, start, end)
        return -1 if found is None else found.start()

    def all_at_once(text: str, start: int, end: int) -> int:
        if length * (end - start) <= SHORT:
            return one_by_one(text, start, end)
        places_of = _places(text)
        places = _bits(start, end - length + 1)
        for at, character in fixed:
            places &= places_of[character] >> at
            if not places:
                break
        return (places & -places).bit_length() - 1

    return all_at_once


def _bits(start: int, end: int) -> int:
    return (1 << end) - (1 << start) if start < end else 0


class _Places(dict[str, int]):
    """The places of a character in a text: bit 0 for the first place, and so on."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._size = len(text) // 8 + 1
        self._numbers: defaultdict[str, list[int]] = defaultdict(list)
        for number, character in enumerate(text):
            self._numbers[character].append(number)

    def __missing__(self, character: str) -> int:
        bits = bytearray(self._size)
        for number in self._numbers.get(character, ()):
            bits[number >> 3] |= 1 << (number & 7)
        self[character] = places = int.from_bytes(bits, "little")
        return places


@lru_cache(maxsize=1)
def _places(text: str) -> _Places:
    """Kept until the next text, because many patterns may test the same text."""
    return _Places(text)
