"""The MsgPack stream: values one after another, no other framing (M1).

A value is measured before it is unpacked: how long it is, how deep, how many items it announces. So nothing is
trusted that has only been announced, and what is unpacked is known to be whole and within bounds.

    93 d9 24 <36 bytes> 80 cb <8 bytes>       ["2f1c…", {}, 21.5]

`Stream` is both ends, with the five verbs of protocols/stream.py. What the values mean is the session's and the
client's matter.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from fumarole.protocols.stream import End, Fault, StreamProtocol


class Value(NamedTuple):
    """One value, and the bytes that it was."""

    data: Any
    raw: bytes


Event = Value | End


class Bounds(NamedTuple):
    """What one value may be."""

    length: int = 256 * 1024
    depth: int = 8
    items: int = 4_096
    """In all its arrays and maps together, where a pair is two."""


INCOMPLETE = -1
AT_ONCE = 4_096
"""Bytes that are turned into values at once: the caller may have other clients to serve before the rest."""

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


class Ruler:
    """Finds where a value ends. Where the value is not whole yet, it goes on later from where it was.

    So a value that comes byte by byte is gone through once, not once for each byte.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self.begin()

    def begin(self) -> None:
        """With another value."""
        self._length = 0
        """Of the value so far: what was looked at, and what that announced."""
        self._items = 0
        self._open = [1]
        """How many values are still to come at each level, the innermost last."""
        self.needed = 1
        """Bytes of the value without which there is nothing to go on with."""

    def end(self, data: bytes | bytearray, start: int) -> int:
        """The position behind the value that begins here, or INCOMPLETE. Raises Fault at the first sign of one."""
        at, available = start + self._length, len(data)
        levels = self._open
        while levels:
            if not levels[-1]:
                levels.pop()
                continue
            if at >= available:
                return self._later(at, start, 1)
            width, length, items = _announced(data[at])
            if width:
                if at + 1 + width > available:
                    return self._later(at, start, 1 + width)
                counted = int.from_bytes(data[at + 1 : at + 1 + width])
                length, items = (counted, None) if items is None else (0, counted * items)
            levels[-1] -= 1
            at += 1 + width + length
            if at - start > self._bounds.length:
                raise Fault(f"a value longer than {self._bounds.length} bytes")
            if items is not None:
                self._add(items)
        if at > available:
            return self._later(at, start, 0)
        self.begin()
        return at

    def _add(self, items: int) -> None:
        self._items += items
        if self._items > self._bounds.items:
            raise Fault(f"arrays and maps of more than {self._bounds.items} items")
        self._open.append(items)
        if len(self._open) > self._bounds.depth + 1:
            raise Fault(f"values nested deeper than {self._bounds.depth}")

    def _later(self, at: int, start: int, more: int) -> int:
        self._length = at - start
        self.needed = self._length + more
        return INCOMPLETE


def measure(data: bytes | bytearray, at: int, bounds: Bounds) -> int:
    """The position behind the value that begins here, or INCOMPLETE. Raises Fault at the first sign of one."""
    return Ruler(bounds).end(data, at)


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


class Stream(StreamProtocol[Value]):
    """Bytes in, values out."""

    def __init__(self, bounds: Bounds = Bounds()) -> None:  # noqa: B008 (immutable)
        super().__init__()
        self._ruler = Ruler(bounds)

    def reclaim(self) -> bytes:
        self._ruler.begin()
        return super().reclaim()

    def _parse(self, events: list[Event]) -> int:
        """The first values that are whole."""
        data, at = self._pending, 0
        while at < AT_ONCE and len(data) - at >= self._ruler.needed:
            end = self._ruler.end(data, at)
            if end == INCOMPLETE:
                break
            raw = bytes(data[at:end])
            events.append(Value(unpack(raw), raw))
            at = end
        self._needed = self._ruler.needed
        return at

    def _error(self, text: str) -> bytes:
        return error(text)

    def send(self, value: Any) -> None:
        """Queues a value for the peer."""
        self._out.append(pack(value))


pack: Final = msgspec.msgpack.Encoder().encode
"""A value as MsgPack."""
_unpack: Final = msgspec.msgpack.Decoder().decode


def error(text: str) -> bytes:
    """What a peer is told that did something wrong."""
    return pack({"Error": text})


def unpack(raw: bytes) -> Any:
    """One whole value. Raises Fault where text is not UTF-8 or a map has a key that cannot be one."""
    try:
        return _unpack(raw)
    except (msgspec.DecodeError, ValueError) as error:
        raise Fault(f"not a value: {type(error).__name__}") from None
