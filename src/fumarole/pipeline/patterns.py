"""Patterns for an archive, which does not know by which grammar topics were published (T1, T2)."""

from __future__ import annotations

import re

from fumarole.core.errors import PatternError
from fumarole.core.topic import CHANNEL, STRICT, Grammar, parse_pattern


def grammar_of(pattern: str) -> Grammar:
    """The one by which it is a pattern, the usual one first. Raises PatternError, as live, where it is none."""
    try:
        parse_pattern(pattern, STRICT)
    except PatternError as error:
        try:
            parse_pattern(pattern, CHANNEL)
        except PatternError:
            raise error from None
        return CHANNEL
    return STRICT


def literal_start(pattern: str) -> str:
    """How every topic begins that the pattern matches: all before its first wildcard."""
    return re.split(r"[*>]", pattern, maxsplit=1)[0]
