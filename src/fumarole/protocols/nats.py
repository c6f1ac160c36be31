"""The NATS client protocol, both ends: lines of text, some followed by a payload whose size the line announced.

    client to server                                server to client
    CONNECT {"user": "lab", …}                      INFO {"max_payload": 1048576, …}
    PUB topic [reply] size␍␊payload                 MSG topic sid [reply] size␍␊payload
    HPUB topic [reply] headers total␍␊headers…      HMSG topic sid [reply] headers total␍␊headers…
    SUB pattern [group] sid                         +OK
    UNSUB sid [count]                               -ERR 'text'
    PING, PONG                                      PING, PONG

`ServerProtocol` hears clients, `ClientProtocol` hears a server. Both are pure and have the five verbs of
protocols/stream.py.
"""

import json
import re
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

from fumarole.core.limits import DEFAULTS, Limits
from fumarole.protocols.stream import End, Fault, StreamProtocol

LINE_END = b"\r\n"
PING = b"PING\r\n"
PONG = b"PONG\r\n"
OK = b"+OK\r\n"


class Connect(NamedTuple):
    """The client's name, credentials and options."""

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
    """The server's name, version, limits and options."""

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


Operation = Connect | Publish | Subscribe | Unsubscribe | Ping | Pong | Info | Message | Okay | Refusal
Event = Operation | End

LONGEST_SIZE = 9
"""Digits."""
MOST_AWAITED = 10**LONGEST_SIZE - 1
"""The largest count of an UNSUB."""
NOT_A_SIZE = "Parser Error: a size is one to nine digits"
NOT_A_COUNT = "Parser Error: the count of UNSUB is one to nine digits"
HEADERS_BEGIN = b"NATS/1.0"
NO_HEADERS = "Parser Error: headers begin with NATS/1.0"
UNKNOWN_OPERATION = "Unknown Protocol Operation"
LINE_TOO_LONG = "Maximum Control Line Exceeded"
CARRIAGE_RETURN = ord("\r")
_SPACES = re.compile(rb"[ \t]+")
SID_LIMIT = 64
JSON_DEPTH = 16


class Protocol(StreamProtocol[Operation]):
    """What both ends share: lines and payloads. The ends bring the operations."""

    _message: ClassVar[type[Publish | Message]]
    """The event of a line that announces a payload."""
    _message_form: ClassVar[re.Pattern[bytes]]
    """Such a line: H where headers come first, the event's words, the size of the headers, the size of all."""
    _headers_begin: ClassVar[bytes] = b""
    """What a block of headers must begin with. A client takes a server's as they are."""
    greeted = True
    """False: nothing but CONNECT, PING and PONG is heard yet (a stranger gets no payload buffer)."""

    def __init__(self, limits: Limits = DEFAULTS) -> None:
        super().__init__()
        self.limits = limits
        self.payload_limit = limits.payload

    def _parse(self, events: list[Event]) -> int:
        """Up to and including a CONNECT: it may change what the rest means."""
        data = bytes(self._pending)
        at = 0
        self._needed = 1
        length = len(data)
        limit = self.limits.control_line
        message_form = self._message_form.fullmatch
        while (end := data.find(b"\n", at)) >= 0:
            line = data[at : end - 1] if end > at and data[end - 1] == CARRIAGE_RETURN else data[at:end]
            if len(line) > limit:
                raise Fault(LINE_TOO_LONG)
            end += 1
            head = message_form(line) if self.greeted else None
            if head is None:
                events.append(self._line(line))
                at = end
                if type(events[-1]) is Connect:
                    return at
                continue
            _, *words, header_size, size = head.groups(b"")
            middle, last = end + int(header_size or 0), end + int(size)
            if middle > last:
                raise Fault("Parser Error: headers longer than the whole message")
            if last - end > self.payload_limit:
                raise Fault("Maximum Payload Violation")
            if last + 2 > length:
                self._needed = last + 2 - at
                return at
            if data[last : last + 2] != LINE_END:
                raise Fault(UNKNOWN_OPERATION)
            if header_size and not data.startswith(self._headers_begin, end, middle):
                raise Fault(NO_HEADERS)
            events.append(_new(self._message, (*words, data[end:middle], data[middle:last])))
            at = last + 2
        if length - at > limit + 1:  # the last of these may be half a line end
            raise Fault(LINE_TOO_LONG)
        self._needed = length - at + 1
        return at

    def _error(self, text: str) -> bytes:
        return error(text)

    @abstractmethod
    def _line(self, line: bytes) -> Operation:
        """What a line says that announces no payload. Raises Fault for all others."""


_new = tuple.__new__


def _count(text: bytes) -> int:
    """After how many messages an UNSUB ends the consumer. Raises Fault."""
    if not text.isdigit() or len(text) > LONGEST_SIZE:
        raise Fault(NOT_A_COUNT)
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
    words = line.split(b" ")
    return words if b"" not in words and b"\t" not in line else _SPACES.split(line.strip(b" \t"))


class ServerProtocol(Protocol):
    """The server's end: hears CONNECT, PUB, HPUB, SUB, UNSUB, PING and PONG, in any case."""

    _message = Publish
    _headers_begin = HEADERS_BEGIN
    _message_form = re.compile(
        rb"[ \t]*(?i:(H)?PUB)[ \t]+([^ \t]+)[ \t]+(?:([^ \t]+)[ \t]+)?(?(1)([0-9]{1,9})[ \t]+|)([0-9]{1,9})[ \t]*"
    )

    def _line(self, line: bytes) -> Operation:
        words = _words(line)
        verb = words.pop(0).upper()
        count = len(words)
        if verb == b"PING" and not words:
            return Ping()
        if verb == b"PONG" and not words:
            return Pong()
        if verb == b"CONNECT":
            return Connect(_options(line.strip(b" \t")[len(verb) :]))
        if verb not in (b"PUB", b"HPUB", b"SUB", b"UNSUB"):
            raise Fault(UNKNOWN_OPERATION)
        if not self.greeted:
            raise Fault("Authorization Violation")
        if verb == b"SUB" and count in (2, 3) and len(words[-1]) <= SID_LIMIT:
            return Subscribe(words[0], words[1] if count == 3 else b"", words[-1])
        if verb == b"UNSUB" and count in (1, 2) and len(words[0]) <= SID_LIMIT:
            return Unsubscribe(words[0], _count(words[1]) if count == 2 else 0)
        if (verb == b"PUB" and count in (2, 3)) or (verb == b"HPUB" and count in (3, 4)):
            raise Fault(NOT_A_SIZE)
        raise Fault(f"Parser Error: {verb.decode()} does not have the right number of words")


class ClientProtocol(Protocol):
    """The client's end: hears INFO, MSG, HMSG, PING, PONG, +OK and -ERR."""

    _message = Message
    _message_form = re.compile(rb"(H)?MSG ([^ ]*) ([^ ]*) (?:([^ ]*) )?(?(1)([0-9]{1,9}) |)([0-9]{1,9})")

    def __init__(self, limits: Limits = DEFAULTS) -> None:
        super().__init__(limits)
        self.payload_limit = 1 << 30  # a server may allow more than our own default

    def _line(self, line: bytes) -> Operation:
        verb = line.partition(b" ")[0]
        if verb == b"PING":
            return Ping()
        if verb == b"PONG":
            return Pong()
        if verb == b"+OK":
            return Okay()
        if verb == b"INFO":
            return Info(_options(line[len(verb) :]))
        if verb == b"-ERR":
            return Refusal(line[len(verb) :].decode("utf-8", "replace").strip(" '"))
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
    return sid.join(message_around_sid(topic, payload, reply, headers))


def message_around_sid(topic: bytes, payload: bytes, reply: bytes = b"", headers: bytes = b"") -> tuple[bytes, bytes]:
    """A message to many is the same but for the sid: what stands before it, and after it."""
    size = len(payload)
    if headers:
        before, after = b"HMSG ", b" %d %d\r\n%b%b\r\n" % (len(headers), len(headers) + size, headers, payload)
    else:
        before, after = b"MSG ", (_SIZE_LINES[size] if size < 1024 else b" %d\r\n" % size) + payload + LINE_END
    return before + topic + b" ", b" " + reply + after if reply else after


_SIZE_LINES = [b" %d\r\n" % size for size in range(1024)]


def subscribe(pattern: bytes, sid: bytes, group: bytes = b"") -> bytes:
    return b"SUB %b %b%b\r\n" % (pattern, group and group + b" ", sid)


def unsubscribe(sid: bytes, after: int = 0) -> bytes:
    return b"UNSUB %b %d\r\n" % (sid, after) if after else b"UNSUB %b\r\n" % sid
