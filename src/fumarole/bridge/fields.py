"""The 14 basic properties of an AMQP message, and its header table, as bytes.

The library has such a codec too. This one exists because that one narrows every float to 32 bits, takes timestamps
past 2106 for milliseconds, shortens long names, and ends the connection where a stranger's text is not UTF-8. Here
every value comes back as it was, and what cannot be read is one message's fault.

    MsgPack                   AMQP                     back
    nil, bool, float          V, t, d                  the same; no NaN, no infinity
    int                       l, 64 bits               the same; narrower ones arrive as ints
    str                       S, long string           the same; one that is not UTF-8 becomes bin
    bin                       x, byte array            the same
    array, map                A, F (table)             the same
    Timestamp (extension -1)  T, whole seconds         the same
    extension 1, five bytes   D, decimal               the same: scale, then a signed 32-bit number

Where narrower types must come back as they were, `decode_properties(…, exact=True)` gives them as `Typed`, which
`encode_properties` takes as well.

In a header block the first two bytes say which properties follow, in the order of `PROPERTIES`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from msgpack import ExtType, Timestamp

from fumarole.bridge.errors import MalformedError

DEEPEST: Final = 16
"""Tables and arrays inside each other."""
DECIMAL: Final = 1
"""The MsgPack extension that a decimal is."""
SHORT: Final = 255

PROPERTIES: Final[Mapping[str, tuple[int, str]]] = {
    "content_type": (15, "text"),
    "content_encoding": (14, "text"),
    "headers": (13, "table"),
    "delivery_mode": (12, "octet"),
    "priority": (11, "octet"),
    "correlation_id": (10, "text"),
    "reply_to": (9, "text"),
    "expiration": (8, "text"),
    "message_id": (7, "text"),
    "timestamp": (6, "time"),
    "type": (5, "text"),
    "user_id": (4, "text"),
    "app_id": (3, "text"),
    "cluster_id": (2, "text"),
}
"""Each of the 14: the bit that says it is there, and what kind it is."""

_UINT32 = struct.Struct(">I")
_INT64 = struct.Struct(">q")
_DOUBLE = struct.Struct(">d")
_DECIMAL = struct.Struct(">Bi")

Fields = dict[str, Any]


class Typed(NamedTuple):
    """A value of a type of AMQP that MsgPack does not have: the letter of the type, and the value."""

    kind: bytes
    value: Any


def encode_properties(properties: Mapping[str, Any], headers: Mapping[Any, Any]) -> bytes:
    """The property list of a content header: flags, then values."""
    if not properties and not headers:
        return b"\x00\x00"
    unknown = [name for name in properties if name not in PROPERTIES or name == "headers"]
    if unknown:
        raise MalformedError(f"{_shown(unknown[0])} is no property; there are {', '.join(PROPERTIES)}")
    flags, parts = 0, []
    for name, (bit, kind) in PROPERTIES.items():
        value = headers if kind == "table" else properties.get(name)
        if value is None or (kind == "table" and not headers):
            continue
        flags |= 1 << bit
        parts.append(encode_table(headers) if kind == "table" else _encode_property(name, kind, value))
    return flags.to_bytes(2, "big") + b"".join(parts)


def _encode_property(name: str, kind: str, value: Any) -> bytes:
    if kind == "text":
        return _short(value, name)
    if kind == "octet":
        if type(value) is not int or not 0 <= value <= 255:
            raise MalformedError(f"{name} is a whole number from 0 to 255, not {_shown(value)}")
        return bytes((value,))
    seconds = value.seconds if isinstance(value, Timestamp) else value
    if type(seconds) is not int or not -(1 << 63) <= seconds < 1 << 63:
        raise MalformedError(f"{name} is a MsgPack timestamp or whole seconds, not {_shown(value)}")
    return _INT64.pack(seconds)


def encode_table(table: Mapping[Any, Any], depth: int = 1) -> bytes:
    """A field table with its length in front."""
    _check_depth(depth)
    parts: list[bytes] = []
    for key, value in table.items():
        parts += (_short(key, "the name of a header"), _encode_value(value, depth))
    body = b"".join(parts)
    return _UINT32.pack(len(body)) + body


def _encode_value(value: Any, depth: int) -> bytes:
    encoder = _ENCODERS.get(type(value))
    if encoder is None:
        raise MalformedError(f"a header cannot be {_shown(value)}: AMQP has no such type")
    return encoder(value, depth)


def _encode_int(value: int, _: int) -> bytes:
    if not -(1 << 63) <= value < 1 << 63:
        raise MalformedError(f"{value} does not fit into the 64 bits of an AMQP integer")
    return b"l" + _INT64.pack(value)


def _encode_float(value: float, _: int) -> bytes:
    if not math.isfinite(value):
        # RabbitMQ cannot read it, and closes the connection of all clients.
        raise MalformedError(f"a header cannot be {value}: brokers do not take it")
    return b"d" + _DOUBLE.pack(value)


def _encode_array(value: list[Any], depth: int) -> bytes:
    _check_depth(depth + 1)
    body = b"".join([_encode_value(item, depth + 1) for item in value])
    return b"A" + _UINT32.pack(len(body)) + body


def _encode_extension(value: ExtType, _: int) -> bytes:
    if value.code != DECIMAL or len(value.data) != _DECIMAL.size:
        raise MalformedError(f"MsgPack extension {value.code} of {len(value.data)} bytes has no meaning here")
    return b"D" + bytes(value.data)


def _encode_typed(value: Typed, _: int) -> bytes:
    layout = _FIXED.get(value.kind)
    if layout is None:
        return _long(value.kind, value.value)
    try:
        return value.kind + layout.pack(value.value)
    except (struct.error, OverflowError):
        raise MalformedError(f"{_shown(value.value)} does not fit into AMQP's type {value.kind.decode()}") from None


def _long(kind: bytes, data: bytes) -> bytes:
    return kind + _UINT32.pack(len(data)) + data


_ENCODERS: Final[dict[type, Callable[[Any, int], bytes]]] = {
    type(None): lambda _, __: b"V",
    bool: lambda value, _: b"t\x01" if value else b"t\x00",
    int: _encode_int,
    float: _encode_float,
    str: lambda value, _: _long(b"S", value.encode()),
    bytes: lambda value, _: _long(b"x", value),
    list: _encode_array,
    dict: lambda value, depth: b"F" + encode_table(value, depth + 1),
    Timestamp: lambda value, _: b"T" + _INT64.pack(value.seconds),
    ExtType: _encode_extension,
    Typed: _encode_typed,
}


def _short(value: Any, what: str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    if not isinstance(data, bytes):
        raise MalformedError(f"{what} is text, not {_shown(value)}")
    if len(data) > SHORT:
        raise MalformedError(f"{what} has {len(data)} bytes; AMQP takes at most {SHORT}")
    return bytes((len(data),)) + data


def _check_depth(depth: int) -> None:
    if depth > DEEPEST:
        raise MalformedError(f"headers are nested deeper than {DEEPEST}")


def _shown(value: object) -> str:
    if isinstance(value, str | bytes):
        return repr(value[:40])
    return repr(value) if isinstance(value, int | float) and abs(value) < 1e20 else f"a {type(value).__name__}"


def decode_properties(data: bytes, exact: bool = False) -> tuple[Fields, Fields]:
    """Properties and headers of a property list. Raises MalformedError."""
    flags = int.from_bytes(data[:2], "big")
    properties: Fields = {}
    headers: Fields = {}
    at = 2
    if not flags:
        return properties, headers
    try:
        for name, (bit, kind) in PROPERTIES.items():
            if not flags & 1 << bit:
                continue
            if kind == "text":
                end = at + 1 + data[at]
                properties[name] = _text(_slice(data, at + 1, end))
                at = end
            elif kind == "octet":
                properties[name] = data[at]
                at += 1
            elif kind == "time":
                properties[name] = Timestamp(_INT64.unpack_from(data, at)[0], 0)
                at += 8
            else:
                headers, at = _decode_table(data, at, 1, exact)
    except (struct.error, IndexError) as error:
        raise MalformedError(f"the properties end too early: {error}") from None
    return properties, headers


def _slice(data: bytes, start: int, end: int) -> bytes:
    if end > len(data):
        raise IndexError("a length beyond the end")
    return data[start:end]


def _text(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _decode_table(data: bytes, at: int, depth: int, exact: bool) -> tuple[Fields, int]:
    _check_depth(depth)
    end = at + 4 + _UINT32.unpack_from(data, at)[0]
    _slice(data, at, end)
    at += 4
    table: Fields = {}
    while at < end:
        after = at + 1 + data[at]
        name: Any = _text(_slice(data, at + 1, after))
        table[name], at = _decode_value(data, after, depth, exact)
    return table, at


def _decode_value(data: bytes, at: int, depth: int, exact: bool) -> tuple[Any, int]:
    kind, at = data[at : at + 1], at + 1
    fixed = _FIXED.get(kind)
    if fixed is not None:
        value = fixed.unpack_from(data, at)[0]
        return Typed(kind, value) if exact and kind not in b"lLd" else value, at + fixed.size
    if kind in b"Sx" and kind:
        end = at + 4 + _UINT32.unpack_from(data, at)[0]
        content = _slice(data, at + 4, end)
        if kind == b"x":
            return content, end
        text = _text(content)
        return Typed(kind, text) if exact and isinstance(text, bytes) else text, end
    if kind == b"V":
        return None, at
    if kind == b"t":
        return data[at] != 0, at + 1
    if kind == b"T":
        return Timestamp(_INT64.unpack_from(data, at)[0], 0), at + 8
    if kind == b"D":
        return ExtType(DECIMAL, _slice(data, at, at + _DECIMAL.size)), at + _DECIMAL.size
    if kind == b"F":
        return _decode_table(data, at, depth + 1, exact)
    if kind == b"A":
        return _decode_array(data, at, depth + 1, exact)
    raise MalformedError(f"{kind!r} is no type of AMQP")


def _decode_array(data: bytes, at: int, depth: int, exact: bool) -> tuple[list[Any], int]:
    _check_depth(depth)
    end = at + 4 + _UINT32.unpack_from(data, at)[0]
    _slice(data, at, end)
    at += 4
    values = []
    while at < end:
        value, at = _decode_value(data, at, depth, exact)
        values.append(value)
    return values, at


_FIXED: Final = {
    b"b": struct.Struct(">b"),
    b"B": struct.Struct(">B"),
    b"s": struct.Struct(">h"),
    b"u": struct.Struct(">H"),
    b"I": struct.Struct(">i"),
    b"i": struct.Struct(">I"),
    b"l": _INT64,
    b"L": _INT64,
    b"f": struct.Struct(">f"),
    b"d": _DOUBLE,
}


def from_decimal(value: Decimal) -> ExtType:
    """A decimal as the extension that stands for it."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise MalformedError(f"{value} is no number of AMQP")
    number = int("".join(map(str, digits))) * 10 ** max(exponent, 0) * (-1 if sign else 1)
    try:
        return ExtType(DECIMAL, _DECIMAL.pack(max(-exponent, 0), number))
    except struct.error:
        raise MalformedError(f"{value} does not fit: an AMQP decimal has 32 bits and up to 255 places") from None


def to_decimal(value: ExtType) -> Decimal:
    """The decimal that an extension stands for."""
    scale, number = _DECIMAL.unpack(value.data)
    return Decimal(number).scaleb(-scale)
