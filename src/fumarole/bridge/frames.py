"""AMQP frames for the busy way, as bytes: publishing in batches, and deliveries without surprises.

A frame is a type, a channel, a length, that many bytes, and 0xCE. A message is three kinds of them: a method (publish
or deliver), a content header (size and properties), and bodies.

`publication` makes the frames of one message. `Deliveries` stands between the socket and the library: it passes every
frame on, but wraps the property list of each content header, as it is, into a header table with one entry. So the
library has nothing to misread in what strangers wrote; `fields` reads it later, for one message at a time. A delivery
whose key is not even text is left out, with its content, and counted.
"""

from __future__ import annotations

import struct
from typing import Final

METHOD, HEADER, BODY = 1, 2, 3
END: Final = b"\xce"
RAW: Final = "raw"
"""The entry that a wrapped property list is."""
_HEAD = struct.Struct(">BHI")
_CONTENT = struct.Struct(">HHQ")
_PUBLISH: Final = struct.pack(">HHH", 60, 40, 0)
_DELIVER: Final = struct.pack(">HH", 60, 60)
_WRAPPED_FLAGS: Final = b"\x20\x00"


def publication(channel: int, exchange: bytes, key: bytes, property_list: bytes, body: bytes, frame_max: int) -> bytes:
    """The frames of a message to an exchange."""
    method = b"%s%c%s%c%s\x00" % (_PUBLISH, len(exchange), exchange, len(key), key)
    size = len(body)
    header = _CONTENT.pack(60, 0, size) + property_list
    frames = [
        _HEAD.pack(METHOD, channel, len(method)),
        method,
        END,
        _HEAD.pack(HEADER, channel, len(header)),
        header,
        END,
    ]
    room = frame_max - _HEAD.size - len(END)
    for at in range(0, size, room):
        chunk = body if size <= room else body[at : at + room]
        frames += (_HEAD.pack(BODY, channel, len(chunk)), chunk, END)
    return b"".join(frames)


class Deliveries:
    """Bytes from the broker in, bytes for the library out."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._skipping: dict[int, int] = {}
        """Channels whose next content is left out: bytes of it that are still to come, -1 before its header."""
        self.left_out = 0
        """Deliveries whose key was not UTF-8."""

    def receive_data(self, data: bytes) -> bytes:
        """The complete frames for the library."""
        buffer = self._buffer
        buffer += data
        out = []
        at, end = 0, len(buffer)
        while end - at >= _HEAD.size:
            kind, channel, size = _HEAD.unpack_from(buffer, at)
            after = at + _HEAD.size + size + len(END)
            if after > end:
                break
            frame = bytes(buffer[at:after])
            at = after
            if kind == HEADER:
                frame = self._wrap(channel, frame)
            elif kind == METHOD and frame.startswith(_DELIVER, _HEAD.size) and not _has_text(frame):
                self._skipping[channel] = -1
                self.left_out += 1
                frame = b""
            elif kind == BODY and channel in self._skipping:
                self._skip(channel, size)
                frame = b""
            out.append(frame)
        del buffer[:at]
        return b"".join(out)

    def _wrap(self, channel: int, frame: bytes) -> bytes:
        content = frame[_HEAD.size : _HEAD.size + _CONTENT.size]
        if channel in self._skipping:
            self._skipping[channel] = _CONTENT.unpack(content)[2]
            self._skip(channel, 0)
            return b""
        properties = frame[_HEAD.size + _CONTENT.size : -1]
        entry = b"\x03raw" + b"x" + len(properties).to_bytes(4, "big") + properties
        payload = content + _WRAPPED_FLAGS + len(entry).to_bytes(4, "big") + entry
        return _HEAD.pack(HEADER, channel, len(payload)) + payload + END

    def _skip(self, channel: int, size: int) -> None:
        self._skipping[channel] -= size
        if self._skipping[channel] <= 0:
            del self._skipping[channel]


def _has_text(frame: bytes) -> bool:
    """True when the consumer tag, the exchange and the key of a delivery are UTF-8. Between them are numbers."""
    try:
        at = _HEAD.size + len(_DELIVER)
        at += 1 + frame[at]  # our own tag
        at += 9  # delivery tag, redelivered
        frame[at + 1 : at + 1 + frame[at]].decode()
        at += 1 + frame[at]
        frame[at + 1 : at + 1 + frame[at]].decode()
    except UnicodeDecodeError:
        return False
    return True
