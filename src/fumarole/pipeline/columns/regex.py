"""RE2's expressions in the words of Java's, which is what Spark has.

Java means something else by `$`, `.`, `\\s`, `\\b`, `(?i)` and most classes, so nothing of the spelling is kept: the
tree of sets (`regex_tree`) is written out anew, with every set in full.

RE2 takes one step per character. Java tries one way to read the text after the other (`regex_ambiguity`). Most
expressions with many ways have a simpler form that is found in the same texts (`regex_simplify`); what still has too
many after that is refused.
"""

from __future__ import annotations

from collections.abc import Sequence as Parts
from functools import lru_cache

from fumarole.pipeline.columns.regex_ambiguity import check_ways
from fumarole.pipeline.columns.regex_simplify import simplified
from fumarole.pipeline.columns.regex_tree import (
    Characters,
    Choice,
    First,
    Node,
    Place,
    Ranges,
    Repeat,
    Sequence,
    parse,
)

_WORD = "[0-9A-Za-z_]"
_PLACES = {
    Place.BEGIN: r"\A",
    Place.END: r"\z",
    Place.LINE_BEGIN: r"(?:\A|(?<=\n))",
    Place.LINE_END: r"(?:\z|(?=\n))",
    Place.WORD_EDGE: f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))",
}
_NEVER = "(?!)"


@lru_cache(maxsize=256)
def java_regex(regex: str) -> str:
    """An expression for Java that is found in exactly the texts in which RE2 finds this one.

    Raises CannotTranslateError where there is none, or none that is sure to end in time.
    """
    tree = simplified(parse(regex))
    check_ways(tree)
    return _written(tree)


def java_literal(text: str) -> str:
    """An expression for Java that is found where this text is."""
    return "".join([_character(ord(character)) for character in text])


def java_in_order(parts: Parts[str], gap: str) -> str:
    """An expression for Java: these expressions one after the other, with a gap between any two.

    Each is of fixed length, and its characters are in the set of which gaps are made. Then the leftmost place for each
    is always good enough, and `(?>` keeps Java from trying another one.
    """
    if len(parts) == 1:
        return parts[0]
    first, *middle, last = parts
    places = [f"(?>{gap}*?{part})" for part in middle if part]
    return first + "".join(places) + (f"{gap}*{last}" if last else f"{gap}*+")


def _written(node: Node) -> str:
    match node:
        case Characters(ranges):
            return _set(ranges)
        case Place():
            return _PLACES[node]
        case Sequence(parts):
            return "".join([f"(?:{_written(part)})" if isinstance(part, Choice) else _written(part) for part in parts])
        case Choice(options):
            return "|".join(map(_written, options))
        case Repeat(inner, low, high):
            text = _written(inner) if isinstance(inner, Characters) else f"(?:{_written(inner)})"
            return text + _times(low, high)
        case First(gap, until):
            return f"(?>{_written(gap)}?{_written(until)})"


def _times(low: int, high: int | None) -> str:
    known = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    return known.get((low, high)) or f"{{{low},{'' if high is None else high}}}"


def _set(ranges: Ranges) -> str:
    if not ranges:
        return _NEVER
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _character(ranges[0][0])
    return "[" + "".join(_character(a) if a == b else f"{_character(a)}-{_character(b)}" for a, b in ranges) + "]"


def _character(code: int) -> str:
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\x{{{code:x}}}"
