"""How long a message is of use (Q5): its header `Mqtt-Expiry` has the seconds that were left when it was taken.

Mqtt-Expiry: 60     taken 12.5 s ago: 48 are left
                    taken 60 s ago: it has expired, and is not delivered as a last value any more
"""

from __future__ import annotations

from typing import Final

from fumarole.core import headers

EXPIRY: Final = "Mqtt-Expiry"
LARGEST: Final = 0xFFFF_FFFF
_LINE: Final = b"\r\nMqtt-Expiry:"


def seconds_in(value: str) -> int | None:
    """The number that the header has; None: that is none."""
    if not (value.isascii() and value.isdigit() and len(value) <= len(str(LARGEST))):
        return None
    number = int(value)
    return number if number <= LARGEST else None


def seconds_of(block: bytes) -> int | None:
    """What a header block says; None: its message does not expire."""
    if _LINE not in block:
        return None
    value = headers.last(block, EXPIRY)
    return None if value is None else seconds_in(value)


def has_expired(block: bytes, age: float) -> bool:
    """Is a message that was taken so many seconds ago of no more use?"""
    seconds = seconds_of(block)
    return seconds is not None and age >= seconds


def with_seconds_left(block: bytes, age: float) -> bytes:
    """The block as it is after so many seconds."""
    seconds = seconds_of(block)
    return block if seconds is None else headers.added(block, EXPIRY, str(max(seconds - int(age), 0)))
