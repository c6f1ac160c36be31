"""Publications as MQTT says them: properties as headers, and back (Q5).

    property                    header
    Content Type                Content-Type: text/plain
    Message Expiry Interval     Mqtt-Expiry: 60          (seconds left)
    Correlation Data            Mqtt-Correlation: a2V5   (base64)
    Payload Format Indicator    Mqtt-Format: 1
    User Property               its own name and value
    Response Topic              (the reply topic)
    retain flag                 Retain: 1

The QoS of a PUBLISH is `Mqtt-Qos: 1`, so that subscribers on other nodes and behind other doors get it. What cannot be
a header, such as a user property with a line end in it, is `Mqtt-Property` with a JSON array: number, then values.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from copy import copy
from typing import Any, Final

from fumarole.core import headers
from fumarole.core.mqtt_topics import name_of
from fumarole.core.publication import Publication
from fumarole.core.topic import Grammar
from fumarole.exchange.expiry import EXPIRY, seconds_in
from fumarole.exchange.readings import Reading
from fumarole.protocols.mqtt_fields import (
    LONGEST_TEXT,
    Packet,
    Properties,
    Property,
    pairs,
    text,
    two,
    variable,
)
from fumarole.protocols.mqtt_packets import QOS_SHIFT, RETAIN, V5

QOS: Final = "Mqtt-Qos"
CORRELATION: Final = "Mqtt-Correlation"
FORMAT: Final = "Mqtt-Format"
CONTENT_TYPE: Final = "Content-Type"
ODD: Final = "Mqtt-Property"
RETAIN_HEADER: Final = "Retain"
LAST: Final = "Last"
OWN: Final = frozenset({QOS, EXPIRY, CORRELATION, FORMAT, CONTENT_TYPE, ODD, RETAIN_HEADER, LAST})
"""Headers that are no user properties."""
METADATA: Final = "Metadata"
PRODUCER: Final = b"\r\nProducer:"
PLAIN_BLOCKS: Final = tuple(headers.build([(QOS, str(qos))]) if qos else b"" for qos in range(3))
"""The block of a publication that has nothing but a QoS."""
RETAINED_BLOCK: Final = headers.build([(RETAIN_HEADER, "1")])
"""The same of one that is retained, and of QoS 0."""
_QOS_VALUES: Final = {"1": 1, "2": 2}
BESIDES: Final = 14
"""Bytes of a PUBLISH besides its fields, at most: type, two lengths, packet identifier, topic alias."""


def block_of(given: Properties, qos: int, retain: bool = False, more: tuple[tuple[str, str], ...] = ()) -> bytes:
    """The header block of a PUBLISH with these properties."""
    if not given and not more and not retain:
        return PLAIN_BLOCKS[qos]
    found: list[tuple[str, str]] = [(QOS, str(qos))] if qos else []
    if retain:
        found.append((RETAIN_HEADER, "1"))
    for number, value in given.items():
        if number == Property.CONTENT_TYPE:
            found.append(_header(CONTENT_TYPE, value, number))
        elif number == Property.MESSAGE_EXPIRY:
            found.append((EXPIRY, str(value)))
        elif number == Property.CORRELATION_DATA:
            found.append((CORRELATION, b64encode(value).decode()))
        elif number == Property.PAYLOAD_FORMAT:
            found.append((FORMAT, str(value)))
        elif number == Property.USER:
            found += [_user(name, each) for name, each in value]
    found += more
    return headers.build(found) if found else b""


def _header(name: str, value: str, number: int) -> tuple[str, str]:
    return (name, value) if _can_stand(value) else (ODD, json.dumps([number, value]))


def _user(name: str, value: str) -> tuple[str, str]:
    is_name = name and name not in OWN and name.strip() == name and not any(each in name for each in ":\r\n\0 ")
    if is_name and _can_stand(value):
        return name, value
    return ODD, json.dumps([Property.USER, name, value])


def _can_stand(value: str) -> bool:
    """Does it come out of a header as it was?"""
    return value.strip() == value and "\r" not in value and "\n" not in value


def properties_of(block: bytes) -> dict[int, Any]:
    """The properties that a header block is. What makes no sense as one is left out."""
    found: dict[int, Any] = {}
    users: list[tuple[str, str]] = []
    for name, value in headers.parse(block):
        if name == METADATA and PRODUCER in block:
            _take_metadata(value, users)
        elif name not in OWN:
            if _fits(name) and _fits(value):
                users.append((name, value))
        elif name == ODD:
            _take_odd(value, found, users)
        elif name == CONTENT_TYPE and _fits(value):
            found[Property.CONTENT_TYPE] = value
        elif name == EXPIRY and (seconds := seconds_in(value)) is not None:
            found[Property.MESSAGE_EXPIRY] = seconds
        elif name == FORMAT and value in ("0", "1"):
            found[Property.PAYLOAD_FORMAT] = int(value)
        elif name == CORRELATION:
            _take_correlation(value, found)
    if users:
        found[Property.USER] = users
    return found


def _fits(value: str) -> bool:
    """Can it be a text of MQTT?"""
    return "\0" not in value and (len(value) <= LONGEST_TEXT // 4 or len(value.encode()) <= LONGEST_TEXT)


def _take_odd(value: str, found: dict[int, Any], users: list[tuple[str, str]]) -> None:
    try:
        number, *values = json.loads(value)
    except (ValueError, TypeError, RecursionError):
        return
    if not all(isinstance(each, str) and _is_text(each) for each in values):
        return
    if number == Property.USER and len(values) == 2:
        users.append((values[0], values[1]))
    elif number == Property.CONTENT_TYPE and len(values) == 1:
        found[Property.CONTENT_TYPE] = values[0]


def _take_metadata(value: str, users: list[tuple[str, str]]) -> None:
    """What a reading brings, as user properties: the other way round it is metadata again (Q4)."""
    try:
        metadata = json.loads(value)
    except (ValueError, RecursionError):
        return
    said = {name for name, _ in users}
    if isinstance(metadata, dict):
        for name, each in metadata.items():
            text = each if isinstance(each, str) else "" if each is None else json.dumps(each)
            if name not in said and _is_text(name) and _is_text(text):
                users.append((name, text))


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return _fits(value)


def _take_correlation(value: str, found: dict[int, Any]) -> None:
    try:
        data = b64decode(value, validate=True)
    except ValueError:
        return
    if len(data) <= LONGEST_TEXT:
        found[Property.CORRELATION_DATA] = data


def reading_headers(reading: Reading) -> tuple[tuple[str, str], ...]:
    """What other doors say of a reading (M8)."""
    if not reading.metadata:
        return (("Producer", reading.producer),)
    return ("Producer", reading.producer), ("Metadata", json.dumps(dict(reading.metadata)))


MARK: Final = object()
"""Of what this door has made of a publication."""


class Form:
    """What this door has made of a publication."""

    __slots__ = ("_frames", "expiry", "is_expired", "payload", "properties", "qos", "retain", "topic")

    def __init__(self, publication: Publication, grammar: Grammar) -> None:
        name = name_of(publication.topic, grammar)
        self.topic = None if name is None else text(name)
        """None: it cannot be said here."""
        self.payload = publication.payload
        block = publication.headers
        if not block and publication.reading is not None:
            block = headers.build(reading_headers(publication.reading))
        self.qos = _QOS_VALUES.get(headers.last(block, QOS) or "", 0) if block else 0
        self.retain = bool(block) and headers.last(block, RETAIN_HEADER) == "1"
        given: dict[int, Any] = properties_of(block) if block and block not in PLAIN_BLOCKS else {}
        self.expiry: int | None = given.pop(Property.MESSAGE_EXPIRY, None)
        """Seconds left."""
        self.is_expired = publication.age is not None and self.expiry == 0
        if self.expiry is not None:
            given = {Property.MESSAGE_EXPIRY: self.expiry, **given}  # the first, so that `after` finds it
        if publication.reply:
            reply = name_of(publication.reply, grammar)
            if reply is not None:
                given[Property.RESPONSE_TOPIC] = reply
        self.properties = pairs(given)
        self._frames: dict[int, bytes] = {}

    def after(self, seconds: float) -> Form | None:
        """The same, when it has waited so long; None: it has expired."""
        if self.expiry is None:
            return self
        left = self.expiry - int(seconds)
        if left <= 0:
            return None
        later = copy(self)
        later.expiry, later._frames = left, {}
        given = pairs({Property.MESSAGE_EXPIRY: left})
        later.properties = given + self.properties[len(given) :]
        return later

    def size(self, version: int, identifiers: bytes) -> int:
        """Bytes of a frame, at most."""
        assert self.topic is not None
        size = BESIDES + len(self.topic) + len(self.payload)
        return size + len(identifiers) + len(self.properties) if version == V5 else size

    def plain(self, version: int, retain: bool) -> bytes:
        """The frame of QoS 0 without subscription identifiers: the same for every subscriber."""
        key = version << 1 | retain
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = self.frame(version, 0, 0, retain, b"")
        return frame

    def frame(
        self, version: int, qos: int, packet_id: int, retain: bool, identifiers: bytes, topic: bytes = b""
    ) -> bytes:
        """`topic`: what stands in its place, if anything does."""
        topic = topic or self.topic or b""
        middle = two(packet_id) if qos else b""
        if version == V5:
            middle += variable(len(identifiers) + len(self.properties)) + identifiers + self.properties
        size = len(topic) + len(middle) + len(self.payload)
        first = Packet.PUBLISH << 4 | qos << QOS_SHIFT | (RETAIN if retain else 0)
        return b"".join((bytes((first,)), variable(size), topic, middle, self.payload))


def form_of(publication: Publication, grammar: Grammar) -> Form:
    """Made for the first subscriber, and kept with the publication."""
    kept = publication.form
    if kept is None or kept[0] is not MARK:
        kept = publication.form = MARK, Form(publication, grammar)
    form: Form = kept[1]
    return form


def alias_property(alias: int) -> bytes:
    """A topic alias, as a property."""
    return pairs({Property.TOPIC_ALIAS: alias})


def identifiers(numbers: list[int]) -> bytes:
    """Subscription identifiers, as properties."""
    return pairs({Property.SUBSCRIPTION_IDENTIFIER: numbers}) if numbers else b""
