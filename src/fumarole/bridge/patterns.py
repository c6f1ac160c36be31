"""Patterns of the AMQP dialect beside each other, and beside native ones.

`covers` answers whether a client may ask for a pattern where only some are allowed. `native` gives the native patterns
under which everything arrives that an AMQP pattern wants, and little more: what `#` means in the middle no native
pattern says, so the rest is left to `core.topic.matches`.

    a.#      a, a.>          a.*.b     a.*.b
    #        >               a.#.c     a, a.>      (and then: does a.#.c match?)
"""

from __future__ import annotations

from collections.abc import Iterable

from fumarole.core.topic import MANY, ONE, Pattern, Word, parse_amqp


def covers(wide: str, narrow: str) -> bool:
    """True when `wide` certainly matches every key that `narrow` matches. In doubt, False."""
    ours, theirs = _settled(parse_amqp(wide)), _settled(parse_amqp(narrow))
    reached = _skipping(ours, {0})
    for word in theirs:
        following = set()
        for at in reached:
            if at == len(ours):
                continue
            if ours[at] is MANY:
                following.add(at)
            elif word is not MANY and (ours[at] is ONE or ours[at] == word):
                following.add(at + 1)
        reached = _skipping(ours, following)
    return len(ours) in reached


def _settled(pattern: Pattern) -> Pattern:
    """The same with `#` behind the `*` that it stands among, and once: `#.*.#` is `*.#`."""
    words: list[Word] = []
    many = False
    for word in pattern:
        if word is MANY:
            many = True
            continue
        if many and word is not ONE:
            words.append(MANY)
            many = False
        words.append(word)
    return (*words, MANY) if many else tuple(words)


def _skipping(pattern: Pattern, reached: set[int]) -> set[int]:
    """A `#` may stand for nothing."""
    for at in sorted(reached):
        while at < len(pattern) and pattern[at] is MANY:
            at += 1
            reached.add(at)
    return reached


def native(pattern: str) -> list[str]:
    """Native patterns, none of which match the same topic, that together match all that this AMQP pattern does."""
    words = pattern.split(".")
    if "#" not in words:
        return [pattern]
    before = ".".join(words[: words.index("#")])
    return [before, f"{before}.>"] if before else [">"]


def all_native(patterns: Iterable[str]) -> list[str]:
    """The same for several, each once."""
    found = dict.fromkeys(each for pattern in patterns for each in native(pattern))
    return [">"] if ">" in found else list(found)
