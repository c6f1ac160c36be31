"""The NATS client protocol, both ends: lines of text, some followed by a payload whose size the line announced.

    client to server                                server to client
    CONNECT {"user": "lab", …}                      INFO {"max_payload": 1048576, …}
    PUB topic [reply] size␍␊payload                 MSG topic sid [reply] size␍␊payload
    HPUB topic [reply] headers total␍␊headers…      HMSG topic sid [reply] headers total␍␊headers…
    SUB pattern [group] sid                         +OK
    UNSUB sid [count]                               -ERR 'text'
    PING, PONG                                      PING, PONG

`ServerProtocol` hears clients, `ClientProtocol` hears a server. Both are pure and have the same five verbs:
`receive_data`, `receive_eof`, `events_received`, `data_to_send`, `close_expected`. What breaks the protocol becomes
an error in `data_to_send` and closes; everything else is an event, and its meaning is somebody else's matter.
"""

import json
import re
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from fumarole.core.limits import Limits

LINE_END = b"\r\n"
PING = b"PING\r\n"
PONG = b"PONG\r\n"
OK = b"+OK\r\n"


class Connect(NamedTuple):
    """The client says who it is and what it understands."""

    options: dict[str, Any]


class Publish(NamedTuple):
    topic: bytes
    reply: bytes
    headers: bytes
    payload: bytes


class Subscribe(NamedTuple):
    pattern: bytes
    group: bytes
    sid: bytes


class Unsubscribe(NamedTuple):
    sid: bytes
    after: int
    """In all so many messages, then no more; 0: at once."""


class Ping(NamedTuple):
    pass


class Pong(NamedTuple):
    pass


class Info(NamedTuple):
    """The server says who it is and what it allows."""

    options: dict[str, Any]


class Message(NamedTuple):
    topic: bytes
    sid: bytes
    reply: bytes
    headers: bytes
    payload: bytes


class Okay(NamedTuple):
    pass


class Refusal(NamedTuple):
    """-ERR: what the server did not like."""

    text: str


class End(NamedTuple):
    """The peer has sent all it ever will."""


Event = Connect | Publish | Subscribe | Unsubscribe | Ping | Pong | Info | Message | Okay | Refusal | End


class Fault(Exception):
    """The peer broke the protocol; the text is what it is told before it is cut off."""


UNKNOWN_OPERATION = "Unknown Protocol Operation"
_SIZE = re.compile(rb"[0-9]{1,9}")
_SPACES = re.compile(rb"[ \t]+")
SID_LIMIT = 64
JSON_DEPTH = 16


class Protocol(ABC):
    """What both ends share: a buffer, lines, payloads, and the five verbs. The ends bring the operations."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._pending = bytearray()
        self._needed = 1
        """Nothing can be made of fewer pending bytes than this."""
        self._ended = False
        self._out: list[bytes] = []
        self._closing = False

    def receive_data(self, data: bytes) -> None:
        """Bytes from the peer, cut anywhere."""
        if not self._closing:
            self._pending += data

    def receive_eof(self) -> None:
        """The peer has closed its side."""
        self._ended = True

    def data_to_send(self) -> bytes:
        """Bytes for the peer."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def close_expected(self) -> bool:
        """After sending, the connection is over."""
        return self._closing

    def wanted(self) -> int:
        """How many more bytes the operation that is half received takes at least."""
        return max(self._needed - len(self._pending), 0) if self._pending else 0

    def reclaim(self) -> bytes:
        """Gives back what was received and not yet made into events: whole operations, and the beginning of one."""
        pending = bytes(self._pending)
        self._pending.clear()
        self._needed = 1
        return pending

    def events_received(self) -> list[Event]:
        """What the peer has said, up to and including a CONNECT: it may change what the rest means."""
        events: list[Event] = []
        if len(self._pending) >= self._needed and not self._closing:
            data = bytes(self._pending)
            try:
                end = self._parse(data, events)
                del self._pending[:end]
            except Fault as fault:
                self.fail(str(fault))
        if self._ended and not events and not self._closing:
            self._closing = True
            events.append(End())
        return events

    def fail(self, text: str) -> None:
        """Tells the peer why, and closes."""
        self._out.append(error(text))
        self._pending.clear()
        self._closing = True

    def _parse(self, data: bytes, events: list[Event]) -> int:
        """Fills `events`; the position up to which everything is done with."""
        at = 0
        self._needed = 1
        length = len(data)
        while at < length:
            end = data.find(b"\n", at)
            line_length = (length if end < 0 else end) - at
            if line_length > self.limits.control_line:
                raise Fault("Maximum Control Line Exceeded")
            if end < 0:
                self._needed = line_length + 1
                break
            line = data[at : end - 1] if data[end - 1 : end] == b"\r" else data[at:end]
            event, following = self._operation(line, data, end + 1)
            if following > length:
                self._needed = following - at
                break
            at = following
            events.append(event)
            if type(event) is Connect:
                break
        return at

    @abstractmethod
    def _operation(self, line: bytes, data: bytes, after: int) -> tuple[Event, int]:
        """The event of a line, and the position behind it and its payload. Past the data: that is not all there."""

    def _payload(self, data: bytes, after: int, headers: bytes, total: bytes) -> tuple[bytes, bytes, int]:
        """Headers, payload and the position behind them. Position past the data: not all there yet."""
        head, size = _size(headers), _size(total)
        if head > size:
            raise Fault("Parser Error: headers longer than the whole message")
        self._check_size(size)
        end = after + size
        if end + 2 > len(data):
            return b"", b"", end + 2
        if data[end : end + 2] != LINE_END:
            raise Fault(UNKNOWN_OPERATION)
        return data[after : after + head], data[after + head : end], end + 2

    def _check_size(self, size: int) -> None:
        if size > self.limits.payload:
            raise Fault("Maximum Payload Violation")


def _size(text: bytes) -> int:
    if not _SIZE.fullmatch(text):
        raise Fault("Parser Error: a size is one to nine digits")
    return int(text)


def _options(line: bytes) -> dict[str, Any]:
    """The JSON of a CONNECT or INFO. Depth is checked before parsing: nested brackets are cheap to send."""
    depth = deepest = 0
    for byte in line:
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    if deepest > JSON_DEPTH:
        raise Fault("Parser Error: options nested too deep")
    try:
        options = json.loads(line.decode())
    except ValueError:
        raise Fault("Parser Error: options are not JSON") from None
    if not isinstance(options, dict):
        raise Fault("Parser Error: options are not a JSON object")
    return options


def _words(line: bytes) -> list[bytes]:
    return _SPACES.split(line.strip(b" \t"))


class ServerProtocol(Protocol):
    """The server's end: hears CONNECT, PUB, HPUB, SUB, UNSUB, PING and PONG, in any case."""

    greeted = True
    """False: nothing but CONNECT, PING and PONG is heard yet (nobody unknown gets a payload buffer)."""

    def _operation(self, line: bytes, data: bytes, after: int) -> tuple[Event, int]:
        words = line.split(b" ")
        if len(words) == 3 and words[0] == b"PUB" and words[1] and words[2] and self.greeted and b"\t" not in line:
            _, payload, after = self._payload(data, after, b"0", words[2])
            return Publish(words[1], b"", b"", payload), after
        return self._any_operation(line, data, after)

    def _any_operation(self, line: bytes, data: bytes, after: int) -> tuple[Event, int]:
        verb, *words = _words(line)
        verb = verb.upper()
        if verb == b"PING" and not words:
            return Ping(), after
        if verb == b"PONG" and not words:
            return Pong(), after
        if verb == b"CONNECT":
            return Connect(_options(line.strip(b" \t")[len(verb) :])), after
        if verb not in (b"PUB", b"HPUB", b"SUB", b"UNSUB"):
            raise Fault(UNKNOWN_OPERATION)
        if not self.greeted:
            raise Fault("Authorization Violation")
        if verb == b"PUB" and len(words) in (2, 3):
            reply = words[1] if len(words) == 3 else b""
            _, payload, after = self._payload(data, after, b"0", words[-1])
            return Publish(words[0], reply, b"", payload), after
        if verb == b"HPUB" and len(words) in (3, 4):
            reply = words[1] if len(words) == 4 else b""
            headers, payload, after = self._payload(data, after, words[-2], words[-1])
            return Publish(words[0], reply, headers, payload), after
        if verb == b"SUB" and len(words) in (2, 3) and len(words[-1]) <= SID_LIMIT:
            return Subscribe(words[0], words[1] if len(words) == 3 else b"", words[-1]), after
        if verb == b"UNSUB" and len(words) in (1, 2) and len(words[0]) <= SID_LIMIT:
            return Unsubscribe(words[0], _size(words[1]) if len(words) == 2 else 0), after
        raise Fault(f"Parser Error: {verb.decode()} does not have the right number of words")


class ClientProtocol(Protocol):
    """The client's end: hears INFO, MSG, HMSG, PING, PONG, +OK and -ERR."""

    def _check_size(self, size: int) -> None:
        pass  # a server may allow more than our own default

    def _operation(self, line: bytes, data: bytes, after: int) -> tuple[Event, int]:
        words = line.split(b" ")
        verb = words[0]
        count = len(words)
        if verb == b"MSG" and count in (4, 5):
            _, payload, after = self._payload(data, after, b"0", words[-1])
            return Message(words[1], words[2], words[3] if count == 5 else b"", b"", payload), after
        if verb == b"HMSG" and count in (5, 6):
            headers, payload, after = self._payload(data, after, words[-2], words[-1])
            return Message(words[1], words[2], words[3] if count == 6 else b"", headers, payload), after
        if verb == b"PING":
            return Ping(), after
        if verb == b"PONG":
            return Pong(), after
        if verb == b"+OK":
            return Okay(), after
        if verb == b"INFO":
            return Info(_options(line[len(verb) :])), after
        if verb == b"-ERR":
            return Refusal(line[len(verb) :].decode("utf-8", "replace").strip(" '")), after
        raise Fault(UNKNOWN_OPERATION)

    def send(self, *frames: bytes) -> None:
        """Queues frames made by the functions below."""
        self._out.extend(frames)


def info(options: dict[str, Any]) -> bytes:
    return b"INFO " + _json(options) + LINE_END


def connect(options: dict[str, Any]) -> bytes:
    return b"CONNECT " + _json(options) + LINE_END


def _json(options: dict[str, Any]) -> bytes:
    return json.dumps(options, separators=(",", ":")).encode()


def error(text: str) -> bytes:
    return b"-ERR '" + text.encode("ascii", "replace") + b"'\r\n"


def publish(topic: bytes, payload: bytes, reply: bytes = b"", headers: bytes = b"") -> bytes:
    if headers:
        total = len(headers) + len(payload)
        return b"HPUB %b %b%d %d\r\n%b%b\r\n" % (topic, reply and reply + b" ", len(headers), total, headers, payload)
    return b"PUB %b %b%d\r\n%b\r\n" % (topic, reply and reply + b" ", len(payload), payload)


def message(topic: bytes, sid: bytes, payload: bytes, reply: bytes = b"", headers: bytes = b"") -> bytes:
    if headers:
        total = len(headers) + len(payload)
        words = (topic, sid, reply and reply + b" ", len(headers), total, headers, payload)
        return b"HMSG %b %b %b%d %d\r\n%b%b\r\n" % words
    return b"MSG %b %b %b%d\r\n%b\r\n" % (topic, sid, reply and reply + b" ", len(payload), payload)


def subscribe(pattern: bytes, sid: bytes, group: bytes = b"") -> bytes:
    return b"SUB %b %b%b\r\n" % (pattern, group and group + b" ", sid)


def unsubscribe(sid: bytes, after: int = 0) -> bytes:
    return b"UNSUB %b %d\r\n" % (sid, after) if after else b"UNSUB %b\r\n" % sid
