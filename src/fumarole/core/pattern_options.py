"""Options as leading words of a pattern (F9), for protocols that have no other place for them.

    $LAST.volcanoes.>              what is known now, then what comes
    $EVERY.500ms.volcanoes.>       of each topic the newest, at most once in half a second
    $LAST.$EVERY.1s.volcanoes.>    both, in any order

A pattern of options alone continues with `>` (T6). A `.` at the end is followed by the empty topic.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fumarole.core.errors import PatternError
from fumarole.core.periods import PeriodError, parse_every
from fumarole.core.topic import Grammar, Pattern, parse_pattern

LAST: Final = "$LAST"
EVERY: Final = "$EVERY"


class Options(NamedTuple):
    """The options of a consumer besides its pattern."""

    last: bool = False
    """True when the last values come first (F3)."""
    every: float | None = None
    """Seconds in which at most one message of a topic comes (F4); 0: only while it is behind; None: every message."""

    def __bool__(self) -> bool:
        return self.last or self.every is not None


NONE: Final = Options()


def split_options(pattern: str, separator: str = ".") -> tuple[Options, str]:
    """The options of a pattern, and the pattern without them. Raises PatternError, with the position of the fault."""
    if not pattern.startswith("$"):
        return NONE, pattern
    options, at, found = NONE, 0, ""
    while at < len(pattern):
        word, found, _ = pattern[at:].partition(separator)
        following = at + len(word) + len(found)
        if word == LAST:
            if options.last:
                raise PatternError(f"`{LAST}` a second time", at)
            options = options._replace(last=True)
        elif word == EVERY:
            if options.every is not None:
                raise PatternError(f"`{EVERY}` a second time", at)
            text, found, _ = pattern[following:].partition(separator)
            options = options._replace(every=_period(text, following))
            following += len(text) + len(found)
        else:
            return options, pattern[at:]
        at = following
    return options, "" if found else ">"


def parse_with_options(text: str, grammar: Grammar) -> tuple[Options, str, Pattern]:
    """The options of a pattern, the pattern without them, and that parsed. Raises PatternError."""
    options, rest = split_options(text)
    try:
        return options, rest, parse_pattern(rest, grammar)
    except PatternError as error:
        if not options:
            raise
        raise PatternError(error.fault, len(text) - len(rest) + error.position) from None


def _period(text: str, at: int) -> float:
    if not text:
        raise PatternError(f"`{EVERY}` without a period: {EVERY}.500ms or {EVERY}.1s, then the pattern", at)
    try:
        return parse_every(text)
    except PeriodError as error:
        raise PatternError(str(error), at) from None
