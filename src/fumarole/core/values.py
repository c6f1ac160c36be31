"""Valid values of metadata and readings, and the errors of invalid ones (M3, M10).

JSON and Python have more values than MsgPack, in which they are sent, where text is UTF-8 and whole numbers
have 64 bits. Each answer here is the end of a sentence about the value; empty: nothing is wrong.
"""

import math
from typing import Final

LOWEST_INTEGER: Final = -(2**63)
HIGHEST_INTEGER: Final = 2**64 - 1
ONLINE: Final = "_online"
"""The key of metadata that the server keeps: is the producer connected (F5)?"""


def wrong_value(value: object) -> str:
    """With what is under a key; None takes the key away."""
    if isinstance(value, str):
        return wrong_text(value)
    if isinstance(value, int | float):
        return wrong_number(value)
    return "" if value is None else "neither text, a number, a truth value nor nil"


def wrong_number(value: float) -> str:
    if isinstance(value, float):
        return "" if math.isfinite(value) else "not a finite number"
    if LOWEST_INTEGER <= value <= HIGHEST_INTEGER:
        return ""
    return f"too large: whole numbers are from {LOWEST_INTEGER} to {HIGHEST_INTEGER}"


def wrong_text(text: str) -> str:
    if text.isascii():
        return ""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "not text: it has half a surrogate pair"
    return ""
