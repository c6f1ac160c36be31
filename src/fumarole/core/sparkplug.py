"""Sparkplug B payloads: the metrics of one message by name. Protocol Buffers, read by the standard library alone (P6).

    message Payload { uint64 timestamp = 1; repeated Metric metrics = 2; uint64 seq = 3; … }
    message Metric  { string name = 1; uint64 alias = 2; uint64 timestamp = 3; uint32 datatype = 4; … bool is_null = 7;
                      oneof value { uint32 int_value = 10; uint64 long_value = 11; float float_value = 12;
                                    double double_value = 13; bool boolean_value = 14; string string_value = 15; … } }

A message's own time is there under the name `timestamp`, milliseconds, unless a metric is called so. A metric that has
an alias and no name, as in data messages after a birth, is told by no message alone: it is left out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

_SIGNED: Final = {1: 8, 2: 16, 3: 32, 4: 64}
"""Data types that are whole numbers with a sign, sent as if they had none, and their bits."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def metrics(payload: bytes) -> dict[str, Any]:
    """The values of metrics that have a name. Raises ValueError where it is no such payload."""
    found: dict[str, Any] = {}
    time: int | None = None
    for number, value in _fields(payload):
        if number == 1 and isinstance(value, int):
            time = value
        elif number == 2 and isinstance(value, bytes):
            name, read = _metric(value)
            if name:
                found[name] = read
    return found if time is None else {"timestamp": time, **found}


def _metric(data: bytes) -> tuple[str, Any]:
    name, datatype, value, is_null = "", 0, None, False
    for number, read in _fields(data):
        if number == 1 and isinstance(read, bytes):
            name = read.decode()
        elif number == 4 and isinstance(read, int):
            datatype = read
        elif number == 7:
            is_null = bool(read)
        elif 10 <= number <= 15:
            value = _value(number, read)
    if is_null:
        return name, None
    if datatype in _SIGNED and isinstance(value, int):
        bits = _SIGNED[datatype]
        value &= (1 << bits) - 1
        value -= (value >> (bits - 1)) << bits
    return name, value


def _value(number: int, read: int | bytes) -> Any:
    if number in {10, 11} and isinstance(read, int):
        return read
    if number == 14 and isinstance(read, int):
        return bool(read)
    if number == 15 and isinstance(read, bytes):
        return read.decode()
    if isinstance(read, bytes) and len(read) == {12: 4, 13: 8}.get(number):
        (value,) = struct.unpack("<f" if number == 12 else "<d", read)
        return value
    raise ValueError("a value of another wire type")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers of fields and what they have: a whole number, or bytes (also of fixed numbers)."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise ValueError("a field without a number")
        if wire == _VARINT:
            read, at = _varint(data, at)
            yield number, read
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in {_FIXED64, _FIXED32}:
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError("an unknown wire type")
        if at + size > len(data):
            raise ValueError("it ends too early")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("it ends too early")
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number & (1 << 64) - 1, at
