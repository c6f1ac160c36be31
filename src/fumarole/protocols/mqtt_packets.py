"""The packets of MQTT as events, and how each is written.

A packet is its type and flags, its length, and its fields (protocols/mqtt_fields.py). The functions write what an event
says; the two ends of protocols/mqtt.py read it.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from fumarole.protocols.mqtt_fields import (
    NONE,
    Packet,
    Properties,
    Property,
    binary,
    properties,
    text,
    two,
    variable,
)
from fumarole.protocols.mqtt_reasons import FAILURE, RETURN_CODES, Reason
from fumarole.protocols.stream import End

V3: Final = 4
"""The protocol level of 3.1.1."""
V5: Final = 5

PINGREQ: Final = b"\xc0\x00"
PINGRESP: Final = b"\xd0\x00"
RETAIN: Final = 0x01
DUP: Final = 0x08
QOS_SHIFT: Final = 1


class Will(NamedTuple):
    """What is published when the connection ends without a DISCONNECT."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: Properties


class Connect(NamedTuple):
    """The client's id, credentials, will and properties."""

    version: int
    client_id: str
    clean: bool
    keep_alive: int
    user: str | None
    password: bytes | None
    will: Will | None
    properties: Properties


class ConnAck(NamedTuple):
    """Reason, or return code of 3.1.1."""

    session_present: bool
    reason: int
    properties: Properties


class Publish(NamedTuple):
    topic: str
    payload: bytes
    qos: int
    retain: bool
    dup: bool
    packet_id: int
    """0 where there is none: QoS 0."""
    properties: Properties


class Answer(NamedTuple):
    """PUBACK, PUBREC, PUBREL or PUBCOMP."""

    packet: int
    packet_id: int
    reason: int
    properties: Properties


class Filter(NamedTuple):
    """What a client subscribes to, and how."""

    text: str
    qos: int
    no_local: bool = False
    as_published: bool = False
    """Messages keep the retain flag that they were published with."""
    handling: int = 0
    """Of retained messages: 0 they are sent, 1 only to a new subscription, 2 never."""


class Subscribe(NamedTuple):
    packet_id: int
    filters: tuple[Filter, ...]
    properties: Properties
    is_last: bool = True
    """A long list comes in parts, since each of its filters is work."""


class Unsubscribe(NamedTuple):
    packet_id: int
    filters: tuple[str, ...]
    properties: Properties
    is_last: bool = True
    """A long list comes in parts, since each of its filters is work."""


class Acknowledged(NamedTuple):
    """SUBACK or UNSUBACK."""

    packet: int
    packet_id: int
    reasons: tuple[int, ...]
    properties: Properties


class Ping(NamedTuple):
    pass


class Pong(NamedTuple):
    pass


class Disconnect(NamedTuple):
    reason: int
    properties: Properties


class Auth(NamedTuple):
    reason: int
    properties: Properties


Operation = (
    Connect | ConnAck | Publish | Answer | Subscribe | Unsubscribe | Acknowledged | Ping | Pong | Disconnect | Auth
)
Event = Operation | End


def packet(first: int, body: bytes) -> bytes:
    """A packet, its length put before its body."""
    return bytes((first,)) + variable(len(body)) + body


def connect(event: Connect) -> bytes:
    """A CONNECT, as clients send it."""
    flags = 0x02 if event.clean else 0
    body = text("MQTT") + bytes((event.version,))
    rest = text(event.client_id)
    if event.will is not None:
        flags |= 0x04 | event.will.qos << 3 | (0x20 if event.will.retain else 0)
        rest += properties(event.will.properties) if event.version == V5 else b""
        rest += text(event.will.topic) + binary(event.will.payload)
    if event.user is not None:
        flags |= 0x80
        rest += text(event.user)
    if event.password is not None:
        flags |= 0x40
        rest += binary(event.password)
    given = properties(event.properties) if event.version == V5 else b""
    return packet(Packet.CONNECT << 4, body + bytes((flags,)) + two(event.keep_alive) + given + rest)


def connack(version: int, values: Properties = NONE) -> bytes:
    """The client is let in. Session Present is always 0 (Q1)."""
    return packet(Packet.CONNACK << 4, b"\x00\x00" + (properties(values) if version == V5 else b""))


def refusal(reason: Reason, why: str | None = None) -> bytes:
    """A CONNACK that refuses: of version 5 with a sentence (or an empty one), of 3.1.1 where there is none."""
    if why is None:
        return bytes((Packet.CONNACK << 4, 2, 0, RETURN_CODES.get(reason, RETURN_CODES[Reason.NOT_AUTHORIZED])))
    return packet(Packet.CONNACK << 4, bytes((0, reason)) + properties(_sentence(why)))


def _sentence(why: str) -> Properties:
    return {Property.REASON_STRING: why} if why else NONE


def publish(event: Publish, version: int) -> bytes:
    first = Packet.PUBLISH << 4 | event.qos << QOS_SHIFT | (RETAIN if event.retain else 0) | (DUP if event.dup else 0)
    middle = two(event.packet_id) if event.qos else b""
    given = properties(event.properties) if version == V5 else b""
    return packet(first, text(event.topic) + middle + given + event.payload)


def answer(kind: Packet, packet_id: int, reason: int = 0, why: str = "") -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP. Of 3.1.1 there is no reason, and none is given."""
    first = kind << 4 | (2 if kind is Packet.PUBREL else 0)
    if not reason:
        return bytes((first, 2)) + two(packet_id)
    if not why:
        return bytes((first, 3)) + two(packet_id) + bytes((reason,))
    return packet(first, two(packet_id) + bytes((reason,)) + properties(_sentence(why)))


def acknowledged(kind: Packet, version: int, packet_id: int, reasons: Sequence[int], why: str = "") -> bytes:
    """SUBACK or UNSUBACK. 3.1.1 knows one failure, and an UNSUBACK without reasons."""
    if version == V5:
        return packet(kind << 4, two(packet_id) + properties(_sentence(why)) + bytes(reasons))
    if kind is Packet.UNSUBACK:
        return packet(kind << 4, two(packet_id))
    return packet(kind << 4, two(packet_id) + bytes([min(reason, FAILURE) for reason in reasons]))


def subscribe(event: Subscribe, version: int) -> bytes:
    given = properties(event.properties) if version == V5 else b""
    filters = b"".join(text(each.text) + bytes((_options(each),)) for each in event.filters)
    return packet(Packet.SUBSCRIBE << 4 | 2, two(event.packet_id) + given + filters)


def _options(each: Filter) -> int:
    return each.qos | (0x04 if each.no_local else 0) | (0x08 if each.as_published else 0) | each.handling << 4


def unsubscribe(event: Unsubscribe, version: int) -> bytes:
    given = properties(event.properties) if version == V5 else b""
    return packet(Packet.UNSUBSCRIBE << 4 | 2, two(event.packet_id) + given + b"".join(map(text, event.filters)))


def disconnect(reason: int = 0, why: str = "", values: Properties = NONE) -> bytes:
    """A DISCONNECT; with neither reason nor properties it is that of 3.1.1 too."""
    values = {**values, **_sentence(why)}
    if not reason and not values:
        return bytes((Packet.DISCONNECT << 4, 0))
    return packet(Packet.DISCONNECT << 4, bytes((reason,)) + (properties(values) if values else b""))


def auth(reason: int, values: Properties) -> bytes:
    return packet(Packet.AUTH << 4, bytes((reason,)) + properties(values))
