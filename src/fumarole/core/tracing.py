"""The trace context of a message, as W3C writes it, and the spans that are made of it (O3).

    traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
                 |  trace                            span of the       flags; 01: it is sampled
                 version                             publisher

The header belongs to its publisher and leaves as it came. Only sampled messages become spans.
"""

import re
from typing import Final, NamedTuple

_FIELD: Final = re.compile(rb"\r\n[Tt]raceparent:[ \t]*([^\r\n]{1,512}?)[ \t]*(?=\r\n)")
_VALUE: Final = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL
)
LONGEST: Final = 512
SAMPLED: Final = 1
"""A bit of the flags."""


class TraceContext(NamedTuple):
    """The trace of a message, and the span in which it was published."""

    trace: bytes
    span: bytes


class Span(NamedTuple):
    """One step of a message through a node. Times are nanoseconds since 1970."""

    name: str
    is_taken_in: bool
    """The message comes in; False: it leaves."""
    trace: bytes
    span: bytes
    parent: bytes
    began: int
    ended: int
    attributes: tuple[tuple[str, str | int], ...]


def is_traceparent(text: str) -> bool:
    """Is it a value of the header as W3C has it?"""
    match = _VALUE.fullmatch(text.encode()) if text.isascii() and text.isprintable() else None
    return match is not None and not (match[1] == b"00" and match[5]) and len(text) <= LONGEST


def sampled(block: bytes) -> TraceContext | None:
    """The trace context in this header block. None: it has none, a broken one, or one that is not sampled."""
    fields: list[bytes] = _FIELD.findall(block)
    value = _VALUE.fullmatch(fields[-1]) if fields else None  # the last one counts, as of every header
    if value is None or (value[1] == b"00" and value[5]) or not int(value[4], 16) & SAMPLED:
        return None
    return TraceContext(bytes.fromhex(value[2].decode()), bytes.fromhex(value[3].decode()))
