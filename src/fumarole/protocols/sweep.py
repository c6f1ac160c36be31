"""The usual beginning of a buffer, all at once: many lines of one form, each with a payload.

Where each payload has no line end in it, lines and payloads take turns in what lies between the line ends:

    PUB a.b 4␍␊21.5␍␊PUB a.c 2␍␊20␍␊PI     lines:    PUB a.b 4, PUB a.c 2      and the rest, PI
                                           payloads: 21.5, 20

The lines are joined by a word that none of them can have, and split into words all at once:

    PUB a.b 4 ␍ PUB a.c 2                  verbs: PUB, PUB    topics: a.b, a.c    sizes: 4, 2    ends: ␍

So the interpreter takes a few steps for all of them together, instead of many for each. What is not of this form is
left to whoever looks at lines one by one, and nothing is made of it here that they would not.
"""

from typing import NamedTuple

LINE_END = b"\r\n"
END_OF_LINE = b" \r "
"""Where many lines are split into words at once: a word that no line has."""
LONGEST_SIZE = 9
"""Digits."""
SHORTEST_SWEEP = 256
"""Bytes. In fewer there are not enough messages to make it worth while."""


class Usual(NamedTuple):
    """The form that lines with a payload mostly have."""

    verb: bytes
    words: int
    """The size is the last."""
    longest_line: int
    largest_payload: int

    def is_size(self, text: bytes, size: int) -> bool:
        """Does the text say that a payload has this size, and may it?"""
        return text.isdigit() and len(text) <= LONGEST_SIZE and int(text) == size <= self.largest_payload


def sweep(data: bytes, usual: Usual) -> tuple[list[list[bytes]], list[bytes], int]:
    """Of the usual lines that it begins with the words between verb and size, by columns, their payloads, and how many
    bytes that was."""
    if len(data) < SHORTEST_SWEEP or not data.startswith(usual.verb):
        return [], [], 0
    parts = data.split(LINE_END)
    payloads = parts[1:-1:2]
    lines = parts[: 2 * len(payloads) : 2]
    columns = _columns(lines, payloads, usual)
    if columns is None:
        columns, payloads = _usual_beginning(lines, payloads, usual)
    if not payloads:
        return [], [], 0
    return columns, payloads, len(data) - len(LINE_END.join(parts[2 * len(payloads) :]))


def _columns(lines: list[bytes], payloads: list[bytes], usual: Usual) -> list[list[bytes]] | None:
    """None: something is not usual."""
    count, width = len(lines), usual.words + 1
    text = END_OF_LINE.join(lines)
    words = text.split(b" ")
    verbs, sizes, ends = words[::width], words[width - 2 :: width], words[width - 1 :: width]
    is_usual = (
        # All the ends are at the places of ends, so every line has as many words as it should.
        len(words) == count * width - 1
        and text.count(b"\r") == ends.count(b"\r") == count - 1
        and verbs.count(usual.verb) == count
        and not any(odd in text for odd in (b"\n", b"\t", b"  "))
        and (len(text) <= usual.longest_line or max(map(len, lines)) <= usual.longest_line)
        and all(usual.is_size(*pair) for pair in set(zip(sizes, map(len, payloads), strict=True)))
    )
    return [words[column::width] for column in range(1, width - 2)] if is_usual else None


def _usual_beginning(lines: list[bytes], payloads: list[bytes], usual: Usual) -> tuple[list[list[bytes]], list[bytes]]:
    """The columns of those before the first that is not usual, and their payloads: found by halving."""
    first, last = 0, len(lines) - 1
    while first < last:
        middle = (first + last + 1) // 2
        if _columns(lines[first:middle], payloads[first:middle], usual) is None:
            last = middle - 1
        else:
            first = middle
    return _columns(lines[:first], payloads[:first], usual) or [], payloads[:first]
