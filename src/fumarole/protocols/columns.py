"""Messages as columns, laid out in memory as Arrow wants them, for readers of very many messages.

This is the definition, in plain Python; `fastpath/capture.pyx` fills the same columns without making an object of a
message, and `tests/fastpath/test_capture.py` holds the two equal. Three messages,

    topic a.b, payload 21.5          topic c, no payload          topic a.b, payload x, Producer: P, Unit: K

are these columns (offsets say where each text begins and ends; a bit says whether there is one):

    topics    offsets 0 3 4 7        bytes a.bca.b
    payloads  offsets 0 4 4 5        bytes 21.5x
    values    21.5 0 0               there: 100
    producers offsets 0 0 0 1        bytes p          there: 001
    headers   offsets 0 0 0 1        there: 001       names: Unit, each with one or more texts: K
"""

from __future__ import annotations

import math
import re
from array import array
from typing import NamedTuple

from fumarole.core import headers
from fumarole.protocols import nats

PRODUCER = "Producer"
METADATA = "Metadata"
EMPTY = b"$EMPTY"
"""How the empty topic is written (T9)."""
A_LITTLE = 1_000_000
"""Microseconds, of times in these."""
_NUMBER = re.compile(rb"[ \t\n\r]*(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)[ \t\n\r]*")


class Texts(NamedTuple):
    """A column of texts or bytes: offsets are 32 bits, one more than there are rows."""

    offsets: bytes
    data: bytes


class Columns(NamedTuple):
    """Messages in the order in which they came. What may be missing has a bit for each row, lowest first."""

    rows: int
    times: bytes
    """When each arrived, by the clock of its receiver (`time_after`): 64 bits."""
    topics: Texts
    payloads: Texts
    values: bytes
    """The payloads that are numbers, 64 bits each; 0 where one is not."""
    has_value: bytes
    producers: Texts
    has_producer: bytes
    header_offsets: bytes
    """For each message its first header, 32 bits."""
    has_headers: bytes
    header_names: Texts
    header_text_offsets: bytes
    """For each header its first text."""
    header_texts: Texts
    metadata: Texts
    """What readings said that is new about their producer: JSON."""
    metadata_rows: bytes
    """The rows that these came with, 32 bits each."""
    size: int
    """Bytes of all columns, about."""


def number(payload: bytes) -> float | None:
    """The finite number that a payload is, as JSON writes them; None: it is none."""
    found = _NUMBER.fullmatch(payload)
    if found is None:
        return None
    value = float(found[1])
    return value if math.isfinite(value) else None


class Said(NamedTuple):
    """What the headers of a message say."""

    producer: str | None
    metadata: str | None
    others: dict[str, list[str]]


def said(block: bytes) -> Said:
    """A header block taken apart: whose reading it is and what it brought, if it is one, and the rest."""
    others: dict[str, list[str]] = {}
    for name, value in headers.parse(block):
        others.setdefault(name, []).append(value)
    if PRODUCER not in others:
        return Said(None, None, others)
    producer = others.pop(PRODUCER)[-1].lower()
    metadata = others.pop(METADATA, [None])[-1]
    return Said(producer, metadata, others)


def time_after(latest: int, now: int, is_news: bool) -> int:
    """The time of a message that comes after one of that time.

    Many are received at once. What is new about a producer holds from its message on, and not for those before it: so
    that one gets a later time than they have, and those after it no earlier one. That they are ahead of the clock by as
    many microseconds does no harm; a clock that was set back is followed.
    """
    if latest - A_LITTLE < now <= latest:
        return latest + is_news
    return now


class _TextColumn:
    def __init__(self) -> None:
        self.offsets = array("i", [0])
        self.data = bytearray()

    def add(self, text: bytes) -> None:
        self.data += text
        self.offsets.append(len(self.data))

    def taken(self) -> Texts:
        return Texts(self.offsets.tobytes(), bytes(self.data))


class Gathered:
    """Columns in the making."""

    def __init__(self) -> None:
        self._latest = 0
        """The time of the row before."""
        self._clear()

    def _clear(self) -> None:
        self.rows = 0
        self._times = array("q")
        self._topics = _TextColumn()
        self._payloads = _TextColumn()
        self._values = array("d")
        self._has_value: list[bool] = []
        self._producers = _TextColumn()
        self._has_producer: list[bool] = []
        self._header_offsets = array("i", [0])
        self._has_headers: list[bool] = []
        self._names = _TextColumn()
        self._text_offsets = array("i", [0])
        self._texts = _TextColumn()
        self._metadata = _TextColumn()
        self._metadata_rows = array("i")

    @property
    def size(self) -> int:
        """Bytes, about: what grows with the messages, and a fixed amount for each."""
        data = (self._topics, self._payloads, self._producers, self._names, self._texts, self._metadata)
        return self.rows * ROW_BYTES + sum(len(column.data) for column in data)

    def add(self, message: nats.Message, now: int) -> None:
        """One more message."""
        topic = message.topic
        self._topics.add(b"" if topic == EMPTY else topic.decode("utf-8", "replace").encode())
        self._payloads.add(message.payload)
        value = number(message.payload)
        self._values.append(0.0 if value is None else value)
        self._has_value.append(value is not None)
        producer, metadata, others = said(message.headers) if message.headers else Said(None, None, {})
        self._producers.add(b"" if producer is None else producer.encode())
        self._has_producer.append(producer is not None)
        self._latest = time_after(self._latest, now, metadata is not None)
        self._times.append(self._latest)
        if metadata is not None:
            self._metadata.add(metadata.encode())
            self._metadata_rows.append(self.rows)
        for name, texts in others.items():
            self._names.add(name.encode())
            for text in texts:
                self._texts.add(text.encode())
            self._text_offsets.append(len(self._texts.offsets) - 1)
        self._header_offsets.append(len(self._names.offsets) - 1)
        self._has_headers.append(bool(others))
        self.rows += 1

    def take(self) -> Columns:
        """All that was gathered; from here on it gathers anew."""
        columns = Columns(
            self.rows,
            self._times.tobytes(),
            self._topics.taken(),
            self._payloads.taken(),
            self._values.tobytes(),
            _bits(self._has_value),
            self._producers.taken(),
            _bits(self._has_producer),
            self._header_offsets.tobytes(),
            _bits(self._has_headers),
            self._names.taken(),
            self._text_offsets.tobytes(),
            self._texts.taken(),
            self._metadata.taken(),
            self._metadata_rows.tobytes(),
            self.size,
        )
        self._clear()
        return columns


ROW_BYTES = 40
"""What a message takes besides its texts: time, value, offsets and bits."""


def _bits(flags: list[bool]) -> bytes:
    packed = bytearray((len(flags) + 7) // 8)
    for at, flag in enumerate(flags):
        packed[at >> 3] |= flag << (at & 7)
    return bytes(packed)


class Sieve:
    """Stands before a connection's protocol and takes the messages of a subscription, or two, out, into columns."""

    def __init__(self, protocol: nats.ClientProtocol, sid: bytes, also: bytes | None = None) -> None:
        self._gathered = Gathered()
        self._protocol = protocol
        self._sids = {sid, also}

    @property
    def rows(self) -> int:
        """Messages that wait to be taken."""
        return self._gathered.rows

    @property
    def size(self) -> int:
        """Their bytes, about."""
        return self._gathered.size

    def receive_data(self, data: bytes, now: int) -> list[nats.Event]:
        """Bytes from the server, cut anywhere, and when they came. What else they say, in order."""
        self._protocol.receive_data(data)
        others = []
        for event in self._protocol.events_received():
            if type(event) is nats.Message and event.sid in self._sids:
                self._gathered.add(event, now)
            else:
                others.append(event)
        return others

    def reclaim(self) -> bytes:
        """Gives back what was received and not yet made into anything: the beginning of an operation."""
        return self._protocol.reclaim()

    def take(self) -> Columns:
        """What was gathered."""
        return self._gathered.take()
