"""The MsgPack stream: values one after another, no other framing (M1).

A value is measured before it is unpacked: how long it is, how deep, how many items it announces. So nothing is
trusted that has only been announced, and what is unpacked is known to be whole and within bounds.

    93 d9 24 <36 bytes> 80 cb <8 bytes>       ["2f1c…", {}, 21.5]

`Stream` is both ends; what the values mean is the session's and the client's matter. It has the five verbs of every
protocol here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgpack

from fumarole.core.errors import FumaroleError


class Value(NamedTuple):
    """One value, and the bytes that it was."""

    data: Any
    raw: bytes


class End(NamedTuple):
    """The peer has sent all it ever will."""


Event = Value | End


class Fault(FumaroleError):
    """The peer sent what is not MsgPack, or more of it than is allowed."""


class Bounds(NamedTuple):
    """What one value may be."""

    length: int = 256 * 1024
    depth: int = 8
    items: int = 4_096
    """In one array, or pairs in one map."""


INCOMPLETE = -1

# What follows the first byte: how many bytes are fixed, how many say a length, and what that length counts.
_FIXED = {
    0xC0: 0,
    0xC2: 0,
    0xC3: 0,
    0xCA: 4,
    0xCB: 8,
    0xCC: 1,
    0xCD: 2,
    0xCE: 4,
    0xCF: 8,
    0xD0: 1,
    0xD1: 2,
    0xD2: 4,
    0xD3: 8,
}
_BYTES = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_ARRAYS = {0xDC: 2, 0xDD: 4}
_MAPS = {0xDE: 2, 0xDF: 4}
_EXTENSIONS = {*range(0xC7, 0xCA), *range(0xD4, 0xD9)}


def measure(data: bytes | bytearray, at: int, bounds: Bounds) -> int:
    """The position behind the value that begins here, or INCOMPLETE. Raises Fault at the first sign of one."""
    start, end = at, len(data)
    open_items = [1]
    """How many values are still to come at each level, the innermost last."""
    while open_items:
        if not open_items[-1]:
            open_items.pop()
            continue
        open_items[-1] -= 1
        if at >= end:
            return INCOMPLETE
        first = data[at]
        width, length, items = _announced(first)
        if width:
            if at + 1 + width > end:
                return INCOMPLETE
            counted = int.from_bytes(data[at + 1 : at + 1 + width])
            length, items = (counted, None) if items is None else (0, counted * items)
        at += 1 + width + length
        if at - start > bounds.length:
            raise Fault(f"a value longer than {bounds.length} bytes")
        if items is not None:
            if items > 2 * bounds.items:
                raise Fault(f"an array or map of more than {bounds.items} items")
            open_items.append(items)
            if len(open_items) > bounds.depth + 1:
                raise Fault(f"values nested deeper than {bounds.depth}")
    return at if at <= end else INCOMPLETE


def _announced(first: int) -> tuple[int, int, int | None]:
    """Of a first byte: the bytes of its length field, the bytes that follow anyway, the items (None: it has none).

    With a length field, items are those for each that is counted.
    """
    if first < 0x80 or first >= 0xE0:
        return 0, 0, None
    if first < 0x90:
        return 0, 0, 2 * (first & 0x0F)
    if first < 0xA0:
        return 0, 0, first & 0x0F
    if first < 0xC0:
        return 0, first & 0x1F, None
    if first in _FIXED:
        return 0, _FIXED[first], None
    if first in _BYTES:
        return _BYTES[first], 0, None
    if first in _ARRAYS:
        return _ARRAYS[first], 0, 1
    if first in _MAPS:
        return _MAPS[first], 0, 2
    raise Fault("an extension type" if first in _EXTENSIONS else "a byte that begins no MsgPack value")


class Stream:
    """Bytes in, values out."""

    def __init__(self, bounds: Bounds = Bounds()) -> None:  # noqa: B008 (immutable)
        self._bounds = bounds
        self._pending = bytearray()
        self._out: list[bytes] = []
        self._ended = False
        self._closing = False
        self.fault = ""
        """Why the stream is over, if that is the peer's fault."""

    def receive_data(self, data: bytes) -> None:
        """Bytes from the peer, cut anywhere."""
        if not self._closing:
            self._pending += data

    def receive_eof(self) -> None:
        """The peer has closed its side."""
        self._ended = True

    def events_received(self) -> list[Event]:
        """The values that are whole."""
        events: list[Event] = []
        data, at = bytes(self._pending), 0
        try:
            while at < len(data) and (end := measure(data, at, self._bounds)) != INCOMPLETE:
                raw = data[at:end]
                events.append(Value(unpack(raw), raw))
                at = end
        except Fault as fault:
            self.fault = str(fault)
            self._closing = True
            at = len(data)
        del self._pending[:at]
        if self._ended and not events and not self._closing:
            self._closing = True
            events.append(End())
        return events

    def put_back(self, events: list[Event]) -> None:
        """These are to be heard again later."""
        self._pending[:0] = b"".join(event.raw for event in events if isinstance(event, Value))

    def send(self, value: Any) -> None:
        """Queues a value for the peer."""
        self._out.append(pack(value))

    def data_to_send(self) -> bytes:
        """Bytes for the peer."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def close_expected(self) -> bool:
        """After sending, the connection is over."""
        return self._closing


def pack(value: Any) -> bytes:
    """A value as MsgPack."""
    packed: bytes = msgpack.packb(value)
    return packed


def unpack(raw: bytes) -> Any:
    """One whole value. Raises Fault where text is not UTF-8 or a map has a key that cannot be one."""
    try:
        return msgpack.unpackb(raw, strict_map_key=False)
    except (ValueError, TypeError) as error:
        raise Fault(f"not a value: {type(error).__name__}") from None
