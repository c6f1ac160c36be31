"""ZMTP, the wire protocol of ZeroMQ, as a ROUTER speaks it: versions 3.1, 3.0, 2.0 and 1.0.

    greeting     signature FF 00… 7F, version, mechanism     sent in steps, so that older peers understand it
    handshake    NULL: READY both ways; CURVE: see curve.py; before 3.0: one frame each, the identity
    traffic      frames: flags, length, body. Flag 1: more parts follow; 2: the length has 8 bytes; 4: a command

libzmq gathers the parts of a message without any bound before it gives the first one out, so a peer that sends parts
without end takes all memory. Here a part, a message and the number of its parts have limits (L2), and the connection
ends at the first byte beyond one of them.

`ServerProtocol` is pure and has the five verbs of all protocols here: `receive_data`, `receive_eof`, `events_received`,
`data_to_send`, `close_expected`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from fumarole.bridge.errors import MalformedError

MORE, LONG, COMMAND = 1, 2, 4
"""Flags of a frame."""
SIGNATURE: Final = b"\xff" + bytes(7) + b"\x01\x7f"
"""To a peer of version 1.0 this is a frame as well: an empty identity."""
VERSION: Final = (3, 1)
GREETING_SIZE: Final = 64
LARGEST_COMMAND: Final = 4 * 1024
LONGEST_IDENTITY: Final = 255
LONGEST_CONTEXT: Final = 16
"""The context of a PING, which its PONG repeats."""
PEERS: Final = frozenset({b"DEALER", b"REQ", b"ROUTER"})
"""Sockets that may connect to a ROUTER."""
OLD_PEERS: Final = frozenset({3, 5, 6})
"""The same as version 2.0 numbers them."""
ROUTER: Final = 6
ONE_PART: Final = 64
"""Bytes that a part takes beside its content, reckoned generously."""
PARTS_AT_ONCE: Final = 1_000
_SHORT: Final = 256
"""Frames from this size on are gathered on their own, without looking at their beginning again."""


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """The limits of one message."""

    part: int
    """Bytes of one part."""
    message: int
    """Bytes of all parts together."""
    parts: int


class Opened(NamedTuple):
    """The handshake is over. The identity is the peer's own, or empty."""

    identity: bytes


class Received(NamedTuple):
    """A whole message."""

    parts: list[bytes]


Event = Opened | Received


class Box(Protocol):
    """Encrypts parts and commands."""

    overhead: int
    """Bytes that a frame is longer than what it carries."""

    def seal(self, flags: int, body: bytes) -> bytes:
        """A part or command, encrypted."""

    def open(self, body: bytes) -> tuple[int, bytes]:
        """The way back: its flags, and the part or command. Raises MalformedError."""


class Mechanism(Protocol):
    """The security mechanism of a connection."""

    name: bytes

    @property
    def box(self) -> Box | None:
        """Encryption after the handshake; None: there is none."""

    def first_command(self) -> bytes | None:
        """The commands that the ROUTER sends first."""

    def receive_command(self, body: bytes) -> tuple[bytes | None, bytes | None]:
        """A command of the handshake: the answer to it, and the peer's metadata once the handshake is over.

        Raises MalformedError.
        """


class Refusal(MalformedError):
    """The peer is refused; `command` has the error for it."""

    def __init__(self, text: str, command: bytes) -> None:
        super().__init__(text)
        self.command = command


class NullMechanism:
    """No proof and no encryption: each end says READY with its metadata."""

    name = b"NULL"
    box = None

    def first_command(self) -> bytes | None:
        return ready_command()

    def receive_command(self, body: bytes) -> tuple[bytes | None, bytes | None]:
        name, content = split_command(body)
        if name != b"READY":
            raise MalformedError(f"{name[:20]!r} in place of READY")
        return None, content


def ready_command() -> bytes:
    """READY with the metadata of a ROUTER."""
    return b"\x05READY" + metadata((b"Socket-Type", b"ROUTER"), (b"Identity", b""))


def metadata(*properties: tuple[bytes, bytes]) -> bytes:
    """Names and values, as READY and INITIATE carry them."""
    return b"".join(b"%c%s%s%s" % (len(name), name, len(value).to_bytes(4, "big"), value) for name, value in properties)


def read_metadata(data: bytes) -> dict[bytes, bytes]:
    """The way back; names in lower case. Raises MalformedError."""
    found, at = {}, 0
    while at < len(data):
        name = data[at + 1 : at + 1 + data[at]]
        at += 1 + len(name)
        size = int.from_bytes(data[at : at + 4], "big")
        value = data[at + 4 : at + 4 + size]
        if not name or len(value) != size or len(data) < at + 4:
            raise MalformedError("metadata that ends too early")
        found[name.lower()] = value
        at += 4 + size
    return found


def split_command(body: bytes) -> tuple[bytes, bytes]:
    """The name of a command, and what follows it. Raises MalformedError."""
    if not body or len(body) < 1 + body[0]:
        raise MalformedError("a command without a name")
    return body[1 : 1 + body[0]], body[1 + body[0] :]


def encode_frame(flags: int, body: bytes) -> bytes:
    """A frame of version 2.0 and later."""
    size = len(body)
    if size > 255:
        return b"%c%s%s" % (flags | LONG, size.to_bytes(8, "big"), body)
    return b"%c%c%s" % (flags, size, body)


def encode_old_frame(flags: int, body: bytes) -> bytes:
    """A frame of version 1.0: the length counts the flags too."""
    size = len(body) + 1
    if size > 254:
        return b"\xff%s%c%s" % (size.to_bytes(8, "big"), flags, body)
    return b"%c%c%s" % (size, flags, body)


class ServerProtocol:
    """One peer of a ROUTER."""

    def __init__(self, limits: MessageLimits, mechanism: Mechanism) -> None:
        self.limits = limits
        self.fault = ""
        """The reason for which the connection ends, where the peer caused it."""
        self.heartbeats = False
        """True when the peer answers PING."""
        self.opened = False
        self._mechanism = mechanism
        self._box: Box | None = None
        self._encode = encode_frame
        self._most = LARGEST_COMMAND
        """The largest frame just now."""
        self._buffer = b""
        self._at = 0
        self._long = bytearray()
        """The received part of a long frame."""
        self._missing = 0
        """Bytes of it that are still to come."""
        self._long_flags = 0
        self._parts: list[bytes] = []
        self._size = 0
        """Bytes of the parts."""
        self._events: list[Event] = []
        self._step: Callable[[], bool] = self._greet
        """Goes on with what is there; False: there is too little of it."""
        self._out: list[bytes] = [SIGNATURE]
        self._said = 0
        """The sent part of the greeting: 0 the signature, 1 the version, 2 all of it."""
        self._pong: bytes | None = None
        """The context of the last PING that is not answered yet."""
        self._ended = False
        self._closing = False
        self.unfinished = False
        """True when there may be more events without more bytes."""

    # The five verbs.

    def receive_data(self, data: bytes) -> None:
        """Bytes from the peer, cut anywhere."""
        if self._closing:
            return
        if self._missing:
            self._long += data[: self._missing]
            taken = min(self._missing, len(data))
            self._missing -= taken
            data = data[taken:]
        if self._at < len(self._buffer):
            self._buffer = self._buffer[self._at :] + data
        else:
            self._buffer = data
        self._at = 0

    def receive_eof(self) -> None:
        """The peer has closed its side: a message that is not whole is none."""
        self._ended = True

    def events_received(self, most: int = 1_000) -> list[Event]:
        """The received events, in order, about so many at most. `unfinished` is true when there are more."""
        events: list[Event] = []
        self._events, self.unfinished = events, False
        try:
            while not self._closing and self._step():
                if len(events) >= most:
                    self.unfinished = True
                    break
        except MalformedError as error:
            self.fault = str(error)
            self.abandon()
            if isinstance(error, Refusal):
                self._out.append(encode_frame(COMMAND, error.command))
        if self._ended and not self.unfinished:
            self.abandon()
        return events

    def data_to_send(self) -> bytes:
        """Everything that is due to the peer."""
        if self._pong is not None:
            # Only the last one: a peer that sends PINGs without end and reads nothing costs one answer.
            self._command(b"\x04PONG" + self._pong)
            self._pong = None
        out, self._out = self._out, []
        return b"".join(out)

    def close_expected(self) -> bool:
        """True when the connection is over once everything has been sent."""
        return self._closing

    def abandon(self) -> None:
        """It is over; what has come and was not asked for is forgotten."""
        self._closing, self.unfinished = True, False
        self._buffer, self._parts, self._long = b"", [], bytearray()
        self._at = self._size = self._missing = 0

    @property
    def held(self) -> int:
        """Bytes of memory that a message takes which is not whole yet."""
        return len(self._buffer) - self._at + len(self._long) + self._size + ONE_PART * len(self._parts)

    # What the ROUTER says.

    def send_message(self, parts: tuple[bytes, ...]) -> None:
        """Makes it ready for `data_to_send`."""
        encode, flags = self._encode if self._box is None else self._encode_sealed, MORE
        last = len(parts) - 1
        for at, part in enumerate(parts):
            if at == last:
                flags = 0
            self._out.append(encode(flags, part))

    def ping(self) -> None:
        """Sends a PING. Only where `heartbeats` is true."""
        self._command(b"\x04PING\x00\x00")

    def _command(self, body: bytes) -> None:
        self._out.append((encode_frame if self._box is None else self._encode_sealed)(COMMAND, body))

    def _encode_sealed(self, flags: int, body: bytes) -> bytes:
        assert self._box is not None
        return encode_frame(0, self._box.seal(flags, body))

    # The greeting.

    def _greet(self) -> bool:
        """Each end waits for as much of the other's greeting as it needs to know what to say next."""
        seen = self._buffer[self._at :]
        if not seen:
            return False
        if seen[0] != 0xFF or (len(seen) > 9 and not seen[9] & 1):
            self._encode = encode_old_frame
            return self._turn_to(self._read_identity)
        if len(seen) < 10:
            return False
        if self._said == 0:
            self._out.append(bytes(VERSION[:1]))
            self._said = 1
        if len(seen) < 11:
            return False
        if seen[10] < 3:
            return self._greet_version_2(seen)
        if self._said == 1:
            name = self._mechanism.name.ljust(20, b"\0")
            as_server = b"\x01" if self._mechanism.name != b"NULL" else b"\x00"
            self._out.append(bytes(VERSION[1:]) + name + as_server + bytes(31))
            self._said = 2
        if len(seen) < GREETING_SIZE:
            return False
        if seen[12:32].rstrip(b"\0") != self._mechanism.name:
            raise MalformedError(f"mechanism {seen[12:32].rstrip(bytes(1))!r} in place of {self._mechanism.name!r}")
        self._at += GREETING_SIZE
        self.heartbeats = (seen[10], seen[11]) >= (3, 1)
        if (command := self._mechanism.first_command()) is not None:
            self._out.append(encode_frame(COMMAND, command))
        return self._turn_to(self._shake_hands)

    def _greet_version_2(self, seen: bytes) -> bool:
        if self._said == 1:
            self._out.append(bytes((ROUTER,)) + encode_frame(0, b""))
            self._said = 2
        if len(seen) < 12:
            return False
        if seen[11] not in OLD_PEERS:
            raise MalformedError(f"a socket of type {seen[11]}")
        self._at += 12
        return self._turn_to(self._read_identity)

    def _turn_to(self, step: Callable[[], bool]) -> bool:
        self._step = step
        return True

    # The handshake.

    def _shake_hands(self) -> bool:
        frame = self._next_frame()
        if frame is None:
            return False
        flags, body = frame
        if flags & ~LONG != COMMAND:
            raise MalformedError("a message before the handshake is over")
        answer, found = self._mechanism.receive_command(body)
        if answer is not None:
            self._out.append(encode_frame(COMMAND, answer))
        if found is None:
            return True
        properties = read_metadata(found)
        if properties.get(b"socket-type") not in PEERS:
            raise MalformedError(f"a socket of type {properties.get(b'socket-type', b'')[:20]!r}")
        self._box = self._mechanism.box
        self._opened(properties.get(b"identity", b""))
        return True

    def _opened(self, identity: bytes) -> None:
        if len(identity) > LONGEST_IDENTITY or identity.startswith(b"\0"):
            raise MalformedError("an identity has at most 255 bytes, and none that is zero at its start")
        self.opened = True
        self._most = self.limits.part + (0 if self._box is None else self._box.overhead)
        self._events.append(Opened(identity))
        plain = self._encode is encode_frame and self._box is None
        self._step = self._plain_message if plain else self._message

    def _read_identity(self) -> bool:
        """Versions before 3.0 have no mechanism; where one is required they are refused."""
        if self._mechanism.name != b"NULL":
            raise MalformedError(f"a version of ZMTP without {self._mechanism.name!r}")
        frame = self._next_frame()
        if frame is None:
            return False
        flags, identity = frame
        if flags & ~LONG:
            raise MalformedError("an identity of several parts")
        self._opened(identity)
        return True

    # Frames.

    def _next_frame(self) -> tuple[int, bytes] | None:
        """Flags and body of the next whole frame. None: it is not there yet."""
        if self._long or self._missing:
            if self._missing:
                return None
            body, self._long = bytes(self._long), bytearray()
            return self._long_flags, body
        head = self._head() if self._encode is encode_frame else self._old_head()
        if head is None:
            return None
        flags, start, size = head
        if size > self._most:
            raise MalformedError(f"a part of {size} bytes; {self.limits.part} are allowed")
        end = start + size
        if end > len(self._buffer):
            if size >= _SHORT:
                self._long += self._buffer[start:]
                self._missing = end - len(self._buffer)
                self._long_flags = flags
                self._at = len(self._buffer)
            return None
        self._at = end
        return flags, self._buffer[start:end]

    def _head(self) -> tuple[int, int, int] | None:
        buffer, at = self._buffer, self._at
        there = len(buffer) - at
        if there < 2:
            return None
        flags = buffer[at]
        if flags > 7 or flags & (COMMAND | MORE) == COMMAND | MORE:
            raise MalformedError(f"a frame with the flags {flags:#04x}")
        if not flags & LONG:
            return flags, at + 2, buffer[at + 1]
        return None if there < 9 else (flags, at + 9, int.from_bytes(buffer[at + 1 : at + 9], "big"))

    def _old_head(self) -> tuple[int, int, int] | None:
        buffer, at = self._buffer, self._at
        there = len(buffer) - at
        if there < 2:
            return None
        size = buffer[at]
        if size < 255:
            start = at + 1
        elif there < 10:
            return None
        else:
            start, size = at + 9, int.from_bytes(buffer[at + 1 : at + 9], "big")
        if not size or buffer[start] > MORE:
            raise MalformedError("what is no frame of ZMTP 1.0")
        return buffer[start], start + 1, size - 1

    # Traffic.

    def _message(self) -> bool:
        """The next frame of any kind."""
        frame = self._next_frame()
        if frame is None:
            return False
        flags, body = frame
        if self._box is not None:
            flags, body = self._box.open(body)
        if flags & COMMAND:
            self._receive_command(body)
        else:
            self._part(flags, body)
        return True

    def _plain_message(self) -> bool:
        """Frames as they mostly are: short parts without encryption. At most one message; what is not so goes on."""
        if self._long:
            return self._message()
        buffer, at, parts, size = self._buffer, self._at, self._parts, self._size
        there = len(buffer)
        most = min(self.limits.parts + 1, len(parts) + PARTS_AT_ONCE)
        while there - at > 1 and len(parts) < most:
            flags = buffer[at]
            start = at + 2
            end = start + buffer[at + 1]
            if flags > MORE or end > there:
                break
            parts.append(buffer[start:end])
            size += end - start
            at = end
            if not flags:
                self._at, self._size = at, size
                self._whole()
                return True
        self._at, self._size = at, size
        self._check_limits()
        return self._message()

    def _part(self, flags: int, body: bytes) -> None:
        self._parts.append(body)
        self._size += len(body)
        if flags & MORE:
            self._check_limits()
        else:
            self._whole()

    def _check_limits(self) -> None:
        if self._size > self.limits.message:
            raise MalformedError(f"a message of more than {self.limits.message} bytes")
        if len(self._parts) > self.limits.parts:
            raise MalformedError(f"a message of more than {self.limits.parts} parts")

    def _whole(self) -> None:
        self._check_limits()
        self._events.append(Received(self._parts))
        self._parts, self._size = [], 0

    def _receive_command(self, body: bytes) -> None:
        """PING and PONG. What other sockets say, and what later versions may say, is passed over."""
        name, content = split_command(body)
        if name == b"PING":
            self._pong = content[2 : 2 + LONGEST_CONTEXT]
