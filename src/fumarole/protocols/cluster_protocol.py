"""What two nodes of a cluster say to each other.

A link is two connections, or lanes, from each node to each other: one for heartbeats alone, one for everything else. On
both there are two kinds of frame. Messages look like those that NATS clients get, with a key in place of the sid, so
that the same compiled loop writes and reads them; the rest is a size and a MsgPack array of that many bytes:

    MSG volcanoes.usa.atka default 4␍␊21.5␍␊              to the consumers without a group of the namespace `default`
    MSG volcanoes.usa.atka default␁analysts 4␍␊21.5␍␊     and to one member of the group `analysts`
    HMSG …                                              the same with headers, as NATS has them
    CTL 21␍␊…␍␊                                         one of the structures below

Nothing that a peer sends is trusted: sizes are bounded, before it has proved that it belongs here more tightly, and
what is not exactly one of these frames ends the connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from fumarole.core.errors import FumaroleError
from fumarole.protocols.stream import Data

PROTOCOL = 2
"""Nodes that speak another one are refused."""
STRANGER_BYTES = 16 * 1024
"""Of a frame of a peer that has not proved anything yet."""
LINE_BYTES = 16 * 1024 * 1024
"""Of the first line of a message: a topic, a reply topic, and the names of the groups it is for. Clients choose those,
so whatever fits the outbox of a link (its default is the same) has to be taken."""
MESSAGE_BYTES = 16 * 1024 * 1024
"""Of a message that a peer may forward: nodes may be started with another limit one after the other."""
CONTROL_BYTES = 4 * 1024 * 1024
SLICE = 500
"""Things in one control frame, where there are many to tell of."""
SLICE_BYTES = 256 * 1024
"""The same, in bytes: what comes after so many goes into the next."""
READING_TIMES = 4
"""A control frame may be so many times a payload: one with a reading has it as it came, as text and as MsgPack."""
MOST_ALIKE = 1_000_000
"""Consumers that are told of as one; of more, so many are told of."""
MOST_MICROSECONDS = 1 << 60
"""Hybrid times are below this: a few ten thousand years."""
EMPTY = b"$EMPTY"
"""How the empty topic is written."""

Thing = TypeVar("Thing")


class ClusterProtocolError(FumaroleError):
    """A peer said what cannot be; the text says what. `kind` is the same without what this peer said, `details`."""

    def __init__(self, kind: str, *details: object) -> None:
        super().__init__(kind % details)
        self.kind = kind
        self.details = details


class Frame(msgspec.Struct, array_like=True, tag_field="kind"):
    """A control frame."""


class Hello(Frame, tag="hello"):
    """Names the sender. The first frame, both ways."""

    protocol: int
    version: str
    cluster: str
    node: str
    incarnation: int
    """Another one each time that a node is started, or comes back from having been given up."""
    address: str
    """Where others reach it, as it says itself; empty: they cannot."""
    clients: tuple[str, ...]
    """Where NATS clients reach it."""
    lane: str
    nonce: bytes


class Proof(Frame, tag="proof"):
    """Proof that a node knows the secret of the cluster, and the other nodes that it knows."""

    digest: bytes
    peers: tuple[str, ...] = ()


class Refusal(Frame, tag="refusal"):
    """Why this connection is not wanted."""

    reason: str


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """So many consumers of the speaker are alike in all of this; 0: no more."""

    namespace: str
    pattern: str
    group: str
    count: Annotated[int, msgspec.Meta(ge=0, le=MOST_ALIKE)]
    query: str = ""
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    seat: Annotated[int, msgspec.Meta(ge=0, le=MOST_ALIKE)] = 0
    """The number of a member of a keyed group among those of the speaker (F8)."""


class Changes(Frame, tag="changes"):
    """What is new about the speaker's consumers. `ticket` is the number of the last change in it."""

    ticket: int
    entries: tuple[Entry, ...]


class Whole(Frame, tag="whole"):
    """With the changes so far, everything that the speaker has has been said."""

    ticket: int


class Known(Frame, tag="known"):
    """The listener has taken in all changes up to this ticket. Before the whole was said, there is no such answer."""

    ticket: int


class Mark(Frame, tag="mark"):
    """What follows was said at this time of the speaker's clock, or later."""

    time: float


class Beat(Frame, tag="beat"):
    """A sign of life, at this time of the speaker's clock."""

    time: float


class Echo(Frame, tag="echo"):
    """The answer to a beat: its time again."""

    time: float


class Rest(Frame, tag="rest"):
    """None of the speaker's members of this group has room: for so many seconds others should be chosen (G3)."""

    namespace: str
    group: str
    seconds: float


class Leaving(Frame, tag="leaving"):
    """The speaker is about to stop, and takes all its consumers back. A change like others, with its ticket."""

    ticket: int


class Counts(Frame, tag="counts"):
    """What the speaker has counted in a namespace: for workers, which are one node to clients."""

    namespace: str
    numbers: dict[str, int | dict[str, int]]


class Doors(Frame, tag="doors"):
    """Where NATS clients reach the speaker, now that they do."""

    clients: tuple[str, ...]


class Described(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a producer, and how new that is; None: it was forgotten (M7)."""

    identity: str
    version: int
    node: str
    metadata: dict[str, str | int | float | bool] | None
    said: dict[str, tuple[int, str]] = {}
    """Each key that was said lately, with a version of its own."""
    since: tuple[int, str] = (-1, "")
    """The version at which it was last forgotten."""
    silent: bool = False
    """It was forgotten for its silence, and not by a request."""
    online: bool = False
    """A connection of the speaker has spoken for it (F5)."""
    topic: str | None = None
    """Of its latest reading; None: its own."""
    moved: tuple[int, str] = (-1, "")
    """The time and the author of that change."""


class Producers(Frame, tag="producers"):
    """What producers of a namespace say of themselves (C6)."""

    namespace: str
    producers: tuple[Described, ...]


class Moved(Frame, tag="moved"):
    """The latest reading of this producer was on another topic than the one before (A3); None: on its own."""

    namespace: str
    identity: str
    topic: str | None
    moved: tuple[int, str]


class Heard(Frame, tag="heard"):
    """These producers have published to the speaker lately: no node is to forget them for their silence (M7)."""

    namespace: str
    identities: tuple[str, ...]


class Online(Frame, tag="online"):
    """Connections of the speaker have spoken for these producers; or none is left, and the grace is over (F5)."""

    namespace: str
    identities: tuple[str, ...]
    is_online: bool


class Spoken(Frame, tag="reading"):
    """A message that is a reading."""

    key: bytes
    topic: str
    reply: str
    headers: bytes
    payload: bytes
    producer: str
    metadata: dict[str, str | int | float | bool | None]
    value: int | float | str
    raw: bytes


class KeptMessage(msgspec.Struct, frozen=True, array_like=True):
    """The newest message of a topic: when, by hybrid time, and which node took it. Retained and empty: removed."""

    topic: str
    time: Annotated[int, msgspec.Meta(ge=0, le=MOST_MICROSECONDS)]
    node: str
    payload: bytes
    headers: bytes = b""


class RetainedMessages(Frame, tag="retained"):
    """What a namespace retains (F1)."""

    namespace: str
    messages: tuple[KeptMessage, ...]


class LastAsked(Frame, tag="last?"):
    """A consumer of the speaker wants the last values (F3). The answers have its token."""

    token: int
    namespace: str
    pattern: str
    query: str
    allow: tuple[str, ...] | None
    deny: tuple[str, ...]
    wanted: str


class LastAnswered(Frame, tag="last"):
    """Some of them. The first answer has none: what the speaker forwards from here on is for the consumer."""

    token: int
    messages: tuple[KeptMessage, ...] = ()
    is_all: bool = False


class ClaimedId(msgspec.Struct, frozen=True, array_like=True):
    """A connection of the speaker that has a client id, or wants it."""

    namespace: str
    client_id: str
    user: str | None
    time: Annotated[int, msgspec.Meta(ge=0, le=MOST_MICROSECONDS)]


class ClientsClaimed(Frame, tag="client?"):
    """Some of them (Q3). The answer has the token; 0: they have them already, and no answer is wanted."""

    token: int
    claims: tuple[ClaimedId, ...]


class ClientsAnswered(Frame, tag="client"):
    """What the speaker says of a claim: a `Verdict` of exchange/client_ids.py."""

    token: int
    verdict: int


AnyFrame = (
    Hello
    | Proof
    | Refusal
    | Changes
    | Whole
    | Known
    | Mark
    | Beat
    | Echo
    | Rest
    | Leaving
    | Counts
    | Doors
    | Producers
    | Moved
    | Heard
    | Online
    | Spoken
    | RetainedMessages
    | LastAsked
    | LastAnswered
    | ClientsClaimed
    | ClientsAnswered
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnyFrame)


class Forwarded(NamedTuple):
    """A message, to be delivered to consumers of this node."""

    topic: bytes
    key: bytes
    reply: bytes
    headers: bytes
    payload: bytes


Event = Forwarded | Frame


def frame(what: Frame) -> bytes:
    """A control frame on the wire."""
    body = _encoder.encode(what)
    return b"CTL %d\r\n%b\r\n" % (len(body), body)


def body(what: Frame) -> bytes:
    """Only what is said, for a proof to stand on."""
    return _encoder.encode(what)


def slices(things: Iterable[Thing]) -> Iterator[tuple[Thing, ...]]:
    """The things, in parts that each fit a control frame, however large some are."""
    part: list[Thing] = []
    size = 0
    for thing in things:
        part.append(thing)
        size += len(_encoder.encode(thing))
        if size >= SLICE_BYTES or len(part) >= SLICE:
            yield tuple(part)
            part, size = [], 0
    if part:
        yield tuple(part)


def message(topic: bytes, key: bytes, reply: bytes, headers: bytes, payload: bytes) -> bytes:
    """A message on the wire."""
    where = b"%b %b %b" % (topic or EMPTY, key, reply + b" " if reply else b"")
    if headers:
        return b"HMSG %b%d %d\r\n%b%b\r\n" % (where, len(headers), len(headers) + len(payload), headers, payload)
    return b"MSG %b%d\r\n%b\r\n" % (where, len(payload), payload)


class LinkProtocol:
    """One end of a lane: bytes in, events out."""

    def __init__(self, largest_payload: int) -> None:
        self.trusted = False
        """Has the peer proved that it belongs here?"""
        self._largest = largest_payload
        self._largest_control = max(CONTROL_BYTES, READING_TIMES * largest_payload)
        self._data = bytearray()
        self._wanted = 0

    def receive_data(self, data: Data) -> None:
        self._data += data

    def wanted(self) -> int:
        """How many more bytes the frame that is half received takes, as far as is known."""
        return self._wanted

    def reclaim(self) -> bytes:
        """What was received and is not yet an event, given back."""
        rest = bytes(self._data)
        self._data.clear()
        self._wanted = 0
        return rest

    def next_event(self) -> Event | None:
        """The next whole frame; None: it has not come yet. Raises ClusterProtocolError."""
        end = self._data.find(b"\n", 0, LINE_BYTES)
        self._wanted = 0
        if end < 0:
            if len(self._data) >= (LINE_BYTES if self.trusted else STRANGER_BYTES):
                raise ClusterProtocolError("a line without end")
            return None
        if end == 0 or self._data[end - 1] != 13:
            raise ClusterProtocolError("a line that does not end as lines do here")
        words = bytes(self._data[: end - 1]).split(b" ")
        sizes = self._sizes(words)
        total = end + 1 + sizes[-1] + 2
        if len(self._data) < total:
            self._wanted = total - len(self._data)
            return None
        whole = bytes(self._data[end + 1 : total])
        if whole[-2:] != b"\r\n":
            raise ClusterProtocolError("a frame that is longer than it said")
        del self._data[:total]
        return self._event(words, sizes, whole[:-2])

    def _sizes(self, words: list[bytes]) -> tuple[int, ...]:
        kind, count = words[0], len(words)
        if kind == b"CTL" and count == 2:
            return (_size(words[1], self._largest_control if self.trusted else STRANGER_BYTES),)
        if self.trusted and kind == b"MSG" and count in (4, 5):
            return (_size(words[-1], self._largest),)
        if self.trusted and kind == b"HMSG" and count in (5, 6):
            headers, total = _size(words[-2], self._largest), _size(words[-1], self._largest)
            if headers > total:
                raise ClusterProtocolError("headers longer than their message")
            return headers, total
        raise ClusterProtocolError("not a frame of this protocol")

    def _event(self, words: list[bytes], sizes: tuple[int, ...], body: bytes) -> Event:
        if words[0] == b"CTL":
            try:
                decoded: Any = _decoder.decode(body)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                raise ClusterProtocolError("a control frame that makes no sense") from None
            assert isinstance(decoded, Frame)
            return decoded
        topic = b"" if words[1] == EMPTY else words[1]
        headers = sizes[0] if words[0] == b"HMSG" else 0
        reply = words[3] if len(words) == 3 + len(sizes) + 1 else b""
        return Forwarded(topic, words[2], reply, body[:headers], body[headers:])


def _size(text: bytes, most: int) -> int:
    if not (text.isdigit() and len(text) <= 9 and int(text) <= most):
        raise ClusterProtocolError("a size that is none, or too large")
    return int(text)
