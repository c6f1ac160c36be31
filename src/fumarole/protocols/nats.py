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
from itertools import chain, repeat
from typing import Any, NamedTuple

from fumarole.core.limits import Limits
from fumarole.protocols.sweep import LINE_END, LONGEST_SIZE, Usual, sweep

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


class Publishes(NamedTuple):
    """Many in a row that have neither reply nor headers: most of what a busy publisher sends."""

    topics: list[bytes]
    payloads: list[bytes]


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


Event = Connect | Publish | Publishes | Subscribe | Unsubscribe | Ping | Pong | Info | Message | Okay | Refusal | End


class Fault(Exception):
    """The peer broke the protocol; the text is what it is told before it is cut off."""


MOST_AWAITED = 10**LONGEST_SIZE - 1
"""The largest count of an UNSUB."""
UNKNOWN_OPERATION = "Unknown Protocol Operation"
LINE_TOO_LONG = "Maximum Control Line Exceeded"
CARRIAGE_RETURN = ord("\r")
_SPACES = re.compile(rb"[ \t]+")
SID_LIMIT = 64
JSON_DEPTH = 16


class Protocol(ABC):
    """What both ends share: a buffer, lines, payloads, and the five verbs. The ends bring the operations."""

    _usual_form: tuple[bytes, int]
    """Of the form that lines with a payload mostly have: the verb, and how many words it has."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.payload_limit = limits.payload
        self._heads: dict[bytes, Head] = {}
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
        at = self._sweep(data, events)
        self._needed = 1
        length = len(data)
        limit = self.limits.control_line
        while (end := data.find(b"\n", at)) >= 0:
            line = data[at : end - 1] if end > at and data[end - 1] == CARRIAGE_RETURN else data[at:end]
            if len(line) > limit:
                raise Fault(LINE_TOO_LONG)
            end += 1
            said = self._heads.get(line) or self._first_seen(line)
            if not isinstance(said, Head):
                events.append(said)
                at = end
                if type(said) is Connect:
                    return at
                continue
            kind, words, headers, total = said
            middle, last = end + headers, end + total
            if last + 2 > length:
                self._needed = last + 2 - at
                return at
            if data[last : last + 2] != LINE_END:
                raise Fault(UNKNOWN_OPERATION)
            if headers:
                words = (*words[:-1], data[end:middle])
            self._add(kind, words, data[middle:last], events)
            at = last + 2
        if length - at > limit + 1:  # the last of these may be half a line end
            raise Fault(LINE_TOO_LONG)
        self._needed = length - at + 1
        return at

    def _sweep(self, data: bytes, events: list[Event]) -> int:
        """The usual beginning of a buffer, all at once; where it gets unusual, the loop above goes on."""
        if not self._may_sweep():
            return 0
        usual = Usual(*self._usual_form, self.limits.control_line, self.payload_limit)
        columns, payloads, used = sweep(data, usual)
        if payloads:
            self._usual(columns, payloads, events)
        return used

    def _may_sweep(self) -> bool:
        """Is anything but control lines heard yet?"""
        return True

    def _keep(self, line: bytes, head: "Head") -> None:
        if len(self._heads) >= HEADS_KEPT:
            self._heads.clear()
        if len(line) <= LONGEST_HEAD_KEPT:
            self._heads[line] = head

    def _first_seen(self, line: bytes) -> "Event | Head":
        """What a line says. One that announces a payload is remembered: it will come again and again."""
        said = self._line(line)
        if isinstance(said, Head):
            if said.headers > said.total:
                raise Fault("Parser Error: headers longer than the whole message")
            if said.total > self.payload_limit:
                raise Fault("Maximum Payload Violation")
            self._keep(line, said)
        return said

    def _add(
        self, kind: "type[Publish | Message]", words: tuple[bytes, ...], payload: bytes, events: list[Event]
    ) -> None:
        events.append(_new(kind, (*words, payload)))

    @abstractmethod
    def _usual(self, columns: list[list[bytes]], payloads: list[bytes], events: list[Event]) -> None:
        """Adds the events of many usual lines: the words between verb and size, by columns, and the payloads."""

    @abstractmethod
    def _line(self, line: bytes) -> "Event | Head":
        """What a line says."""


class Head(NamedTuple):
    """A line that announces a payload: the event it will be, what that has before its payload, the sizes to come."""

    kind: type[Publish] | type[Message]
    words: tuple[bytes, ...]
    headers: int
    total: int


_new = tuple.__new__
HEADS_KEPT = 2_048
LONGEST_HEAD_KEPT = 256
"""Every connection has heads of its own, and there may be very many connections."""


def _is_size(text: bytes) -> bool:
    """Of bytes: ASCII digits, and nothing else that int() would take."""
    return text.isdigit() and len(text) <= LONGEST_SIZE


def _size(text: bytes) -> int:
    if not _is_size(text):
        raise Fault("Parser Error: a size is one to nine digits")
    return int(text)


def _count(text: bytes) -> int:
    """How many messages are left to an UNSUB. What is not one to nine digits is none, as it is to nats-server."""
    return int(text) if _is_size(text) else 0


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

    _usual_form = b"PUB", 3
    greeted = True
    """False: nothing but CONNECT, PING and PONG is heard yet (nobody unknown gets a payload buffer)."""

    def _add(
        self, kind: type[Publish] | type[Message], words: tuple[bytes, ...], payload: bytes, events: list[Event]
    ) -> None:
        topic, reply, headers = words
        if reply or headers:
            events.append(_new(kind, (*words, payload)))
        elif events and type(events[-1]) is Publishes:
            events[-1].topics.append(topic)
            events[-1].payloads.append(payload)
        else:
            events.append(Publishes([topic], [payload]))

    def _usual(self, columns: list[list[bytes]], payloads: list[bytes], events: list[Event]) -> None:
        (topics,) = columns
        events.append(Publishes(topics, payloads))

    def _may_sweep(self) -> bool:
        return self.greeted

    def _line(self, line: bytes) -> Event | Head:
        words = _words(line)
        verb = words.pop(0).upper()
        count = len(words)
        if verb == b"PUB" and count in (2, 3) and self.greeted:
            return Head(Publish, (words[0], words[1] if count == 3 else b"", b""), 0, _size(words[-1]))
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
        if verb == b"HPUB" and count in (3, 4):
            reply = words[1] if count == 4 else b""
            return Head(Publish, (words[0], reply, b""), _size(words[-2]), _size(words[-1]))
        if verb == b"SUB" and count in (2, 3) and len(words[-1]) <= SID_LIMIT:
            return Subscribe(words[0], words[1] if count == 3 else b"", words[-1])
        if verb == b"UNSUB" and count in (1, 2) and len(words[0]) <= SID_LIMIT:
            return Unsubscribe(words[0], _count(words[1]) if count == 2 else 0)
        raise Fault(f"Parser Error: {verb.decode()} does not have the right number of words")


class ClientProtocol(Protocol):
    """The client's end: hears INFO, MSG, HMSG, PING, PONG, +OK and -ERR."""

    _usual_form = b"MSG", 4

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.payload_limit = 1 << 30  # a server may allow more than our own default

    def _usual(self, columns: list[list[bytes]], payloads: list[bytes], events: list[Event]) -> None:
        words = zip(*columns, repeat(b""), repeat(b""), payloads, strict=False)
        events.extend(map(_new, repeat(Message), words))

    def _line(self, line: bytes) -> Event | Head:
        words = line.split(b" ")
        verb = words[0]
        count = len(words)
        if verb == b"MSG" and count in (4, 5):
            reply = words[3] if count == 5 else b""
            return Head(Message, (words[1], words[2], reply, b""), 0, _size(words[-1]))
        if verb == b"HMSG" and count in (5, 6):
            reply = words[3] if count == 6 else b""
            return Head(Message, (words[1], words[2], reply, b""), _size(words[-2]), _size(words[-1]))
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


def messages(topics: list[bytes], sid: bytes, payloads: list[bytes]) -> bytes:
    """Many messages to one subscription, one after another."""
    sizes = list(map(len, payloads))
    after_topic = {size: b" %b %d\r\n" % (sid, size) for size in set(sizes)}
    return b"".join(
        chain.from_iterable(
            zip(repeat(b"MSG "), topics, map(after_topic.__getitem__, sizes), payloads, repeat(LINE_END), strict=False)
        )
    )


def cut(frames: bytes) -> list[bytes]:
    """What `messages` has put together, each again by itself."""
    each: list[bytes] = []
    at = 0
    while at < len(frames):
        line_end = frames.index(b"\n", at)
        size = int(frames[frames.rindex(b" ", at, line_end) : line_end])
        end = line_end + 1 + size + len(LINE_END)
        each.append(frames[at:end])
        at = end
    return each


_SIZE_LINES = [b" %d\r\n" % size for size in range(1024)]


def subscribe(pattern: bytes, sid: bytes, group: bytes = b"") -> bytes:
    return b"SUB %b %b%b\r\n" % (pattern, group and group + b" ", sid)


def unsubscribe(sid: bytes, after: int = 0) -> bytes:
    return b"UNSUB %b %d\r\n" % (sid, after) if after else b"UNSUB %b\r\n" % sid
