"""WebSocket, the server's end (RFC 6455): the handshake, and frames of bytes.

What is spoken inside is a stream of bytes (NATS, MQTT), so messages and fragments have no meaning here: what the frames
carry is passed on as it comes, also of a frame whose end has not come yet. A frame may announce any length; nothing is
kept of it.

    frames = Frames()
    frames.take(b"\\x82\\x84mask…")    what the frames carry
    frames.controls                   pings and the end, in their order

The compiled form of `Frames` is fastpath/websocket.pyx, with the same attributes and the same faults.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Final, Protocol

from fumarole.protocols.http import Head
from fumarole.protocols.stream import Data, Fault

GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
VERSION: Final = "13"
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
LAST: Final = 0x80
MASKED: Final = 0x80
LONGEST_CONTROL: Final = 125
LONGEST_HEAD: Final = 14
NORMAL: Final = 1000
GOING_AWAY: Final = 1001
PROTOCOL_ERROR: Final = 1002
UNSUPPORTED: Final = 1003
CODES: Final = frozenset({1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014})
MOST_CONTROLS: Final = 64
"""Pings in what was received at once; beyond, only the last is answered (RFC 6455, 5.5.3)."""


class FrameFault(Fault):
    """A frame that breaks the protocol; the code is what the peer is told."""

    def __init__(self, text: str, code: int = PROTOCOL_ERROR) -> None:
        super().__init__(text)
        self.code = code


def accept(head: Head, subprotocol: str = "") -> list[tuple[str, str]] | str:
    """The fields of the answer 101; text: why it is no upgrade."""
    fields = head.fields
    connection = {word.strip().lower() for word in fields.get("connection", "").split(",")}
    if head.method != "GET" or head.is_old or "upgrade" not in connection:
        return "this is spoken over WebSocket: GET with Connection: Upgrade"
    if fields.get("upgrade", "").lower() != "websocket":
        return "this is spoken over WebSocket: Upgrade: websocket is missing"
    if fields.get("sec-websocket-version") != VERSION:
        return f"the version of WebSocket that is spoken here is {VERSION}"
    key = fields.get("sec-websocket-key", "")
    try:
        is_key = len(base64.b64decode(key, validate=True)) == 16
    except (binascii.Error, ValueError):
        is_key = False
    if not is_key:
        return "Sec-WebSocket-Key is 16 bytes in base64"
    said = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", answer_to(key))]
    offered = [each.strip() for each in fields.get("sec-websocket-protocol", "").split(",")]
    if subprotocol and subprotocol in offered:
        said.append(("Sec-WebSocket-Protocol", subprotocol))
    return said


def answer_to(key: str) -> str:
    """What proves that the key was understood."""
    return base64.b64encode(hashlib.sha1(key.encode("ascii") + GUID, usedforsecurity=False).digest()).decode()


def unmask(data: Data, key: bytes, offset: int = 0) -> bytes:
    """The bytes of a masked frame from this offset on, as they were meant."""
    length = len(data)
    at = offset & 3
    mask = (key[at:] + key[:at]) * (length // 4 + 1)
    return (int.from_bytes(data, "big") ^ int.from_bytes(mask[:length], "big")).to_bytes(length, "big")


class FrameReader(Protocol):
    """`Frames`, in either form."""

    controls: list[tuple[int, bytes]]

    def take(self, data: Data) -> bytes: ...


class Frames:
    """Frames of a client, cut anywhere."""

    def __init__(self) -> None:
        self.controls: list[tuple[int, bytes]] = []
        """Control frames of the last `take`: opcode and content."""
        self._head = b""
        """The beginning of a frame whose head, or, of a control frame, whose content is not complete."""
        self._left = 0
        """Bytes of the current data frame that have not come yet."""
        self._key = b""
        self._offset = 0
        self._is_fragmented = False
        self._ended = False

    def take(self, data: Data) -> bytes:
        """What the frames carry. Raises FrameFault; what came before the fault is lost with the connection."""
        self.controls = []
        given = self._head + bytes(data) if self._head else bytes(data)
        self._head = b""
        parts: list[bytes] = []
        at, length = 0, len(given)
        while at < length and not self._ended:
            if self._left:
                size = min(self._left, length - at)
                parts.append(unmask(given[at : at + size], self._key, self._offset))
                self._left -= size
                self._offset += size
                at += size
                continue
            head = self._parse_head(given, at)
            if head is None:
                self._head = given[at:]
                break
            at = head
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _parse_head(self, given: bytes, at: int) -> int | None:
        """Past the head of the frame that begins here, and past all of a control frame; None: it is not complete."""
        if len(given) - at < 2:
            return None
        first, second = given[at], given[at + 1]
        opcode, size = first & 0x0F, second & 0x7F
        self._check(first, second, opcode, size)
        wide = {126: 2, 127: 8}.get(size, 0)
        content = at + 2 + wide + 4
        if len(given) < content:
            return None
        if wide:
            size = int.from_bytes(given[at + 2 : at + 2 + wide], "big")
            if size >= 1 << 63:
                raise FrameFault("a length has 63 bits")
        key = given[content - 4 : content]
        if opcode >= CLOSE:
            if len(given) < content + size:
                return None
            self._control(opcode, unmask(given[content : content + size], key))
            return content + size
        self._is_fragmented = not first & LAST
        self._left, self._key, self._offset = size, key, 0
        return content

    def _check(self, first: int, second: int, opcode: int, size: int) -> None:
        if first & 0x70:
            raise FrameFault("no extension was agreed on")
        if not second & MASKED:
            raise FrameFault("frames of a client are masked")
        if opcode >= CLOSE:
            if opcode > PONG:
                raise FrameFault("an unknown kind of frame")
            if not first & LAST or size > LONGEST_CONTROL:
                raise FrameFault("a control frame is whole and has at most 125 bytes")
        elif opcode == TEXT:
            raise FrameFault("text is not understood here, only bytes", UNSUPPORTED)
        elif opcode > BINARY:
            raise FrameFault("an unknown kind of frame")
        elif (opcode == CONTINUATION) is not self._is_fragmented:
            raise FrameFault("fragments of a message follow one another")

    def _control(self, opcode: int, content: bytes) -> None:
        if opcode == CLOSE:
            check_close(content)
            self._ended = True
        if opcode != PONG:
            if len(self.controls) >= MOST_CONTROLS:
                self.controls.pop(0)
            self.controls.append((opcode, content))


def check_close(content: bytes) -> None:
    """What a close frame says: nothing, or a code and a reason in UTF-8. Raises FrameFault."""
    if not content:
        return
    code = int.from_bytes(content[:2], "big")
    if len(content) == 1 or not (code in CODES or 3000 <= code < 5000):
        raise FrameFault("a close frame begins with a code")
    try:
        content[2:].decode()
    except UnicodeDecodeError:
        raise FrameFault("the reason of a close is UTF-8", 1007) from None


def frame(opcode: int, content: bytes) -> bytes:
    """One whole frame of a server."""
    size = len(content)
    if size < 126:
        return bytes((LAST | opcode, size)) + content
    if size < 1 << 16:
        return bytes((LAST | opcode, 126)) + size.to_bytes(2, "big") + content
    return bytes((LAST | opcode, 127)) + size.to_bytes(8, "big") + content


def close_frame(code: int, reason: str = "") -> bytes:
    """The last frame."""
    return frame(CLOSE, code.to_bytes(2, "big") + reason.encode()[: LONGEST_CONTROL - 2])
