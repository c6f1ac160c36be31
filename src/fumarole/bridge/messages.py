"""A message on its way through the bridge: MsgPack towards ZeroMQ, a property list and a body towards AMQP (B1).

    {"payload": bin, "properties": {"content_type": "text/plain", …}, "headers": {…}}

Each key may be left out. What AMQP would close a channel for is refused here, so that one client's mistake is never
another client's lost message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import msgpack

from fumarole.bridge.errors import MalformedError
from fumarole.bridge.fields import DECIMAL, decode_properties, encode_properties, from_decimal, to_decimal

SMALL: Final = 64 * 1024
"""Bytes that properties and headers may have; a whole message within it is unpacked without a second look."""
KEYS: Final = frozenset({"payload", "properties", "headers"})
PLAIN: Final = b"\x00\x00"
"""The property list of a message without any."""
_EXPIRATION = re.compile(r"[0-9]{1,9}")
_COPIES = ("CC", "BCC")


@dataclass(frozen=True, slots=True)
class Message:
    """The argument types of the Python client."""

    key: str
    payload: bytes
    properties: dict[str, Any] = field(default_factory=dict)
    headers: dict[Any, Any] = field(default_factory=dict)


def unpack(part: bytes) -> tuple[bytes, dict[str, Any], dict[Any, Any]]:
    """Payload, properties and headers of a message in MsgPack. Raises MalformedError."""
    try:
        if len(part) > SMALL:
            _check_sizes(part)
        value = msgpack.unpackb(part, max_ext_len=SMALL)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise MalformedError(f"the message is not MsgPack: {_reason(error)}") from None
    if type(value) is not dict or not value.keys() <= KEYS:
        raise MalformedError("a message is a MsgPack map with payload, properties and headers, and nothing else")
    payload = value.get("payload", b"")
    if type(payload) is not bytes:
        raise MalformedError("payload is MsgPack bin")
    properties, headers = value.get("properties") or {}, value.get("headers") or {}
    if type(properties) is not dict or type(headers) is not dict:
        raise MalformedError("properties and headers are MsgPack maps")
    return payload, properties, headers


def _check_sizes(part: bytes) -> None:
    """A megabyte of empty arrays would be a hundred of objects: nothing but the payload is that long."""
    unpacker = msgpack.Unpacker(max_buffer_size=len(part))
    unpacker.feed(part)
    for _ in range(min(unpacker.read_map_header(), len(KEYS) + 1)):
        start = unpacker.tell()
        unpacker.skip()
        if unpacker.tell() - start > SMALL:
            raise MalformedError("a key of the message is too long")
        start = unpacker.tell()
        head = part[start]
        unpacker.skip()
        if unpacker.tell() - start > SMALL and head not in (0xC5, 0xC6):
            raise MalformedError(f"properties and headers have more than {SMALL} bytes")


def _reason(error: BaseException) -> str:
    return str(error)[:80] or type(error).__name__


def to_amqp(properties: Mapping[str, Any], headers: Mapping[Any, Any], user: str) -> bytes:
    """The property list, once it is sure that the broker takes it from this user."""
    if not properties and not headers:
        return PLAIN
    check_properties(properties, headers, user)
    return encode_properties(properties, headers)


def check_properties(properties: Mapping[str, Any], headers: Mapping[Any, Any], user: str) -> None:
    """Raises MalformedError for what RabbitMQ answers by closing the channel, or the whole connection."""
    if properties.get("delivery_mode", 1) not in (1, 2):
        raise MalformedError("delivery_mode is 1 (transient) or 2 (persistent)")
    expiration = properties.get("expiration")
    if expiration is not None and not (isinstance(expiration, str) and _EXPIRATION.fullmatch(expiration)):
        raise MalformedError("expiration is milliseconds as text: up to nine digits")
    if properties.get("user_id") not in (None, user):
        raise MalformedError("user_id is the name under which the bridge is known to the broker, or left out")
    for name in _COPIES:
        copies = headers.get(name, [])
        if type(copies) is not list or not all(isinstance(key, str) for key in copies):
            raise MalformedError(f"the header {name} is a list of routing keys")


def from_amqp(property_list: bytes, body: bytes) -> bytes:
    """The message in MsgPack. Raises MalformedError."""
    size = len(body)
    if size < 256:
        head = b"\x83\xa7payload\xc4" + bytes((size,))
    else:
        head = b"\x83\xa7payload\xc6" + size.to_bytes(4, "big")
    return head + body + (_tail(property_list) if len(property_list) <= 256 else _pack_tail(property_list))


def _pack_tail(property_list: bytes) -> bytes:
    properties, headers = decode_properties(property_list)
    # Two entries of a map, without the map's own head.
    return bytes(msgpack.packb({"properties": properties, "headers": headers})[1:])


_tail = lru_cache(1024)(_pack_tail)


def pack(payload: bytes, properties: Mapping[str, Any], headers: Mapping[Any, Any]) -> bytes:
    """A message in MsgPack, as a client sends it."""
    return bytes(msgpack.packb({"payload": payload, "properties": dict(properties), "headers": dict(headers)}))


def to_wire(value: Any) -> Any:
    """Python's times and decimals as MsgPack has them, wherever they are inside."""
    if isinstance(value, datetime):
        return msgpack.Timestamp(int(value.timestamp()), 0)
    if isinstance(value, Decimal):
        return from_decimal(value)
    if isinstance(value, Mapping):
        return {key: to_wire(item) for key, item in value.items()}
    return [to_wire(item) for item in value] if isinstance(value, list | tuple) else value


def from_wire(value: Any) -> Any:
    """The way back. A time beyond Python's years stays a `msgpack.Timestamp`."""
    if isinstance(value, msgpack.Timestamp):
        try:
            return datetime.fromtimestamp(value.seconds, UTC)
        except (OverflowError, ValueError, OSError):
            return value
    # An ExtType is a tuple too.
    if isinstance(value, msgpack.ExtType):
        return to_decimal(value) if value.code == DECIMAL and len(value.data) == 5 else value
    if isinstance(value, dict):
        return {key: from_wire(item) for key, item in value.items()}
    return [from_wire(item) for item in value] if isinstance(value, list) else value


def read(key: str, part: bytes) -> Message:
    """A message as the Python client hands it over."""
    payload, properties, headers = unpack(part)
    return Message(key, payload, from_wire(properties), from_wire(headers))
