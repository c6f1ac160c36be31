"""MQTT 3.1.1 and 5.0, both ends: packets, each with its length near the front.

    client to server                             server to client
    CONNECT  client id, user, will               CONNACK  accepted, or why not
    PUBLISH  topic, QoS, payload                 PUBLISH  the same
    PUBACK, PUBREC, PUBREL, PUBCOMP              the same: what a PUBLISH of QoS 1 and 2 is answered with
    SUBSCRIBE, UNSUBSCRIBE  filters              SUBACK, UNSUBACK  a reason code for each
    PINGREQ                                      PINGRESP
    DISCONNECT, AUTH                             DISCONNECT, AUTH

The version is that of the CONNECT. A packet of version 5 has properties (protocols/mqtt_fields.py), and one that is
wrong is answered with a DISCONNECT and its reason code; in 3.1.1 the connection just ends.

`ServerProtocol` hears clients, `ClientProtocol` hears a server. Both are pure and have the five verbs of
protocols/stream.py. Topic aliases are resolved here: a `Publish` has its whole topic.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final

from fumarole.core.limits import DEFAULTS, Limits
from fumarole.protocols.mqtt_fields import LARGEST_VARIABLE, NONE, Fields, Packet, PacketFault, Properties, Property
from fumarole.protocols.mqtt_packets import (
    DUP,
    QOS_SHIFT,
    RETAIN,
    V3,
    V5,
    Acknowledged,
    Answer,
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    Event,
    Filter,
    Operation,
    Ping,
    Pong,
    Publish,
    Subscribe,
    Unsubscribe,
    Will,
    disconnect,
    refusal,
)
from fumarole.protocols.mqtt_reasons import RETURN_CODES, Reason
from fumarole.protocols.stream import StreamProtocol

STRANGER_LINES: Final = 4
"""A CONNECT may be so many control lines long: it may bring a will."""
LONGEST_LIST: Final = 128 * 1024
"""Bytes of a SUBSCRIBE or UNSUBSCRIBE: each of its filters is work."""
FILTERS_AT_ONCE: Final = 200
BESIDES_A_SENTENCE: Final = 16
"""Bytes of a packet with a reason string, at most, besides that and its reasons."""
LINES_OF_A_PUBLISH: Final = 17
"""What a PUBLISH may have besides its payload, in control lines: its topic and its properties."""

NO_ALIASES: Final[dict[int, str]] = {}
"""Of every connection that has none yet, and never written to."""

Readers = Mapping[int, tuple[int, Callable[[Any, Fields, int], Operation]]]


class Protocol(StreamProtocol[Operation]):
    """What both ends share: the fixed header, and the packets that both may send."""

    __slots__ = ("_reason", "alias_maximum", "aliases", "limits", "packet_limit", "version")

    _packets: ClassVar[Readers]
    """By type: the flags that the first byte must have (-1: any), and what reads the rest."""

    def __init__(self, limits: Limits = DEFAULTS) -> None:
        super().__init__()
        self.limits = limits
        self.version = 0
        """0: not known yet."""
        self.packet_limit = largest_packet(limits.payload, limits.control_line)
        """Bytes of a packet, its fixed header included."""
        self.alias_maximum = 0
        self.aliases: dict[int, str] = NO_ALIASES
        """Of the peer's, those that it has set."""
        self._reason = Reason.UNSPECIFIED
        """Why this end closes."""

    def _parse(self, events: list[Event]) -> int:
        """Up to and including a CONNECT: it says which version the rest is of."""
        data = bytes(self._pending)
        at, length = 0, len(data)
        self._needed = 1
        try:
            while length - at >= 2:
                body, size = _body(data, at, length)
                if body < 0:
                    self._needed = length - at + 1
                    return at
                first = data[at]
                self._check_size(first >> 4, body + size - at)
                end = body + size
                if end > length:
                    self._check_beginning(first)
                    self._needed = end - at
                    return at
                events += _in_parts(self._packet(first, Fields(data, body, end)))
                at = end
                if type(events[-1]) is Connect:
                    return at
        except PacketFault as fault:
            self._reason = fault.reason
            raise
        self._needed = 2
        return at

    def _check_size(self, packet: int, size: int) -> None:  # noqa: ARG002
        """Raises PacketFault for a packet that is too long, before it is there."""
        if size > self.packet_limit:
            raise PacketFault(Reason.TOO_LARGE, f"a packet has at most {self.packet_limit} bytes")

    def _check_beginning(self, first: int) -> None:
        """Raises PacketFault for a packet that cannot be right, whatever follows."""
        allowed = self._packets.get(first >> 4)
        if allowed is None or allowed[0] not in (-1, first & 0x0F):
            raise PacketFault(Reason.MALFORMED, f"no packet begins with {first:#04x} here")

    def _packet(self, first: int, fields: Fields) -> Operation:
        self._check_beginning(first)
        event = self._packets[first >> 4][1](self, fields, first)
        fields.finish()
        return event

    def _properties(self, fields: Fields, packet: Packet) -> Properties:
        return fields.properties(packet) if self.version == V5 else NONE

    def _publish(self, fields: Fields, first: int) -> Publish:
        qos = first >> QOS_SHIFT & 3
        if qos == 3:
            raise PacketFault(Reason.MALFORMED, "there is no QoS 3")
        if first & DUP and not qos:
            raise PacketFault(Reason.MALFORMED, "a PUBLISH of QoS 0 is never a duplicate")
        topic = fields.text()
        packet_id = fields.packet_id() if qos else 0
        given = self._properties(fields, Packet.PUBLISH)
        if given is not NONE:
            topic = self._resolve(topic, given)
        elif not topic:
            raise PacketFault(Reason.PROTOCOL_ERROR, "a PUBLISH has no topic")
        if "+" in topic or "#" in topic:
            raise PacketFault(Reason.TOPIC, "the topic of a PUBLISH has no wildcards")
        payload = fields.rest()
        return Publish(topic, payload, qos, bool(first & RETAIN), bool(first & DUP), packet_id, given)

    def _resolve(self, topic: str, given: Properties) -> str:
        """The topic of a PUBLISH that may have an alias."""
        alias = given.get(Property.TOPIC_ALIAS)
        if alias is not None:
            if not 1 <= alias <= self.alias_maximum:
                raise PacketFault(Reason.TOPIC_ALIAS, f"a topic alias is 1 to {self.alias_maximum} here, not {alias}")
            if topic:
                if not self.aliases:
                    self.aliases = {}
                self.aliases[alias] = topic
            else:
                topic = self.aliases.get(alias, "")
        if not topic:
            raise PacketFault(Reason.PROTOCOL_ERROR, "a PUBLISH has neither a topic nor an alias that was set")
        return topic

    def _answer(self, fields: Fields, first: int) -> Answer:
        packet = Packet(first >> 4)
        packet_id = fields.packet_id()
        reason, given = self._reason_and_properties(fields, packet)
        return Answer(packet, packet_id, reason, given)

    def _reason_and_properties(self, fields: Fields, packet: Packet) -> tuple[int, Properties]:
        """At the end of a packet; version 5 leaves both out where they say nothing."""
        if not fields or self.version != V5:
            return 0, NONE
        reason = fields.byte()
        return reason, fields.properties(packet) if fields else NONE

    def _disconnect(self, fields: Fields, _first: int) -> Disconnect:
        return Disconnect(*self._reason_and_properties(fields, Packet.DISCONNECT))

    def _auth(self, fields: Fields, _first: int) -> Auth:
        if self.version != V5:
            raise PacketFault(Reason.MALFORMED, "3.1.1 has no AUTH")
        return Auth(*self._reason_and_properties(fields, Packet.AUTH))

    def send(self, *packets: bytes) -> None:
        """Queues packets made by the functions below."""
        self._out.extend(packets)

    def _error(self, text: str) -> bytes:
        return disconnect(self._reason, text) if self.version == V5 else b""


@lru_cache(16)
def largest_packet(payload: int, control_line: int) -> int:
    """Bytes of a PUBLISH at most. The same object for all connections."""
    return payload + LINES_OF_A_PUBLISH * control_line


def _in_parts(event: Operation) -> Sequence[Operation]:
    if not isinstance(event, Subscribe | Unsubscribe) or len(event.filters) <= FILTERS_AT_ONCE:
        return (event,)
    kind: Any = type(event)
    filters, number = event.filters, event.packet_id
    return [
        kind(number, filters[at : at + FILTERS_AT_ONCE], event.properties, at + FILTERS_AT_ONCE >= len(filters))
        for at in range(0, len(filters), FILTERS_AT_ONCE)
    ]


def _body(data: bytes, at: int, length: int) -> tuple[int, int]:
    """Where the packet's body begins, and its size; (-1, 0) where that is not there yet."""
    size = shift = 0
    for place in range(at + 1, min(at + 5, length)):
        byte = data[place]
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return place + 1, size
        shift += 7
    if length >= at + 5:
        raise PacketFault(Reason.MALFORMED, "the remaining length has more than four bytes")
    return -1, 0


class ServerProtocol(Protocol):
    """The server's end: hears what clients send."""

    __slots__ = ("connected", "greeted", "has_problem_information", "largest")

    def __init__(self, limits: Limits = DEFAULTS) -> None:
        super().__init__(limits)
        self.greeted = False
        """Has the client been let in? Until then it is refused by a CONNACK, and nothing else is sent."""
        self.connected = False
        """Has it sent its CONNECT?"""
        self.has_problem_information = True
        """May answers say in words what is wrong?"""
        self.largest = LARGEST_VARIABLE
        """Bytes of a packet that the client takes."""

    def _check_size(self, packet: int, size: int) -> None:
        limit = self.packet_limit
        if not self.greeted:  # a stranger gets no buffer
            limit = STRANGER_LINES * self.limits.control_line
        elif packet not in (Packet.PUBLISH, Packet.CONNECT):
            limit = min(limit, LONGEST_LIST)
        if size > limit:
            raise PacketFault(Reason.TOO_LARGE, f"a packet of this kind has at most {limit} bytes")

    def _check_beginning(self, first: int) -> None:
        if (first >> 4 == Packet.CONNECT) is self.connected:
            wrong = "a second CONNECT" if self.connected else "the first packet is no CONNECT"
            raise PacketFault(Reason.PROTOCOL_ERROR, wrong)
        super()._check_beginning(first)

    def _connect(self, fields: Fields, _first: int) -> Connect:
        self.connected = True
        if fields.binary() != b"MQTT":
            raise PacketFault(Reason.VERSION, "the protocol is not called MQTT")
        version = fields.byte()
        if version not in (V3, V5):
            self.version = V5 if version > V5 else V3
            raise PacketFault(Reason.VERSION, "the versions are 3.1.1 (4) and 5.0 (5)")
        self.version = version
        flags = fields.byte()
        keep_alive = fields.two()
        given = self._properties(fields, Packet.CONNECT)
        self.has_problem_information = bool(given.get(Property.REQUEST_PROBLEM_INFORMATION, 1))
        self.largest = given.get(Property.MAXIMUM_PACKET_SIZE, LARGEST_VARIABLE)
        if Property.AUTHENTICATION_DATA in given and Property.AUTHENTICATION_METHOD not in given:
            raise PacketFault(Reason.PROTOCOL_ERROR, "there is authentication data without a method")
        client_id = fields.text()
        will = self._will(fields, flags)
        has_user, has_password = flags & 0x80, flags & 0x40
        if flags & 0x01 or (has_password and not has_user and version == V3):
            raise PacketFault(Reason.MALFORMED, "the flags of CONNECT contradict each other")
        user = fields.text() if has_user else None
        password = fields.binary() if has_password else None
        return Connect(version, client_id, bool(flags & 0x02), keep_alive, user, password, will, given)

    def _will(self, fields: Fields, flags: int) -> Will | None:
        qos, retain = flags >> 3 & 3, bool(flags & 0x20)
        if not flags & 0x04:
            if qos or retain:
                raise PacketFault(Reason.MALFORMED, "the flags of a will are set, and there is none")
            return None
        if qos == 3:
            raise PacketFault(Reason.MALFORMED, "there is no QoS 3")
        given = self._properties(fields, Packet.WILL)
        topic = fields.text()
        if not topic or "+" in topic or "#" in topic:
            raise PacketFault(Reason.TOPIC, "the topic of a will is not empty and has no wildcards")
        return Will(topic, fields.binary(), qos, retain, given)

    def _publish(self, fields: Fields, first: int) -> Publish:
        event = super()._publish(fields, first)
        if Property.SUBSCRIPTION_IDENTIFIER in event.properties:
            raise PacketFault(Reason.PROTOCOL_ERROR, "a client sends no subscription identifier with a PUBLISH")
        return event

    def _subscribe(self, fields: Fields, _first: int) -> Subscribe:
        packet_id = fields.packet_id()
        given = self._properties(fields, Packet.SUBSCRIBE)
        filters = []
        while fields:
            text, options = fields.text(), fields.byte()
            filters.append(self._filter(text, options))
        if not filters:
            raise PacketFault(Reason.PROTOCOL_ERROR, "a SUBSCRIBE has no filters")
        return Subscribe(packet_id, tuple(filters), given)

    def _filter(self, text: str, options: int) -> Filter:
        if options & (0xC0 if self.version == V5 else 0xFC) or options & 3 == 3:
            raise PacketFault(Reason.MALFORMED, "reserved bits of a subscription are set, or its QoS is 3")
        handling = options >> 4 & 3
        if handling == 3:
            raise PacketFault(Reason.PROTOCOL_ERROR, "there is no retain handling 3")
        no_local = bool(options & 0x04)
        if no_local and text.startswith("$share/"):
            raise PacketFault(Reason.PROTOCOL_ERROR, "a shared subscription cannot be without local messages")
        return Filter(text, options & 3, no_local, bool(options & 0x08), handling)

    def _unsubscribe(self, fields: Fields, _first: int) -> Unsubscribe:
        packet_id = fields.packet_id()
        given = self._properties(fields, Packet.UNSUBSCRIBE)
        filters = []
        while fields:
            filters.append(fields.text())
        if not filters:
            raise PacketFault(Reason.PROTOCOL_ERROR, "an UNSUBSCRIBE has no filters")
        return Unsubscribe(packet_id, tuple(filters), given)

    def _ping(self, _fields: Fields, _first: int) -> Ping:
        return Ping()

    def _error(self, text: str) -> bytes:
        if self.greeted:
            return disconnect(self._reason, self.shown(text)) if self.version == V5 else b""
        if self.version == V5:
            return refusal(self._reason, self.shown(text))
        if self.version == V3 and self._reason in RETURN_CODES:
            return refusal(self._reason)
        return b""

    def refuse(self, reason: Reason, text: str) -> bytes:
        """What the client is told before it is cut off."""
        self._reason = reason
        return self._error(text)

    def shown(self, text: str, reasons: int = 1) -> str:
        """The sentence for a reason string of a packet with so many reasons.

        It is empty where the client does not want any, or takes no packet of that size.
        """
        has_room = BESIDES_A_SENTENCE + reasons + len(text.encode()) <= self.largest
        return text if self.has_problem_information and has_room else ""

    _packets: ClassVar[Readers] = {
        Packet.CONNECT: (0, _connect),
        Packet.PUBLISH: (-1, _publish),
        Packet.PUBACK: (0, Protocol._answer),
        Packet.PUBREC: (0, Protocol._answer),
        Packet.PUBREL: (2, Protocol._answer),
        Packet.PUBCOMP: (0, Protocol._answer),
        Packet.SUBSCRIBE: (2, _subscribe),
        Packet.UNSUBSCRIBE: (2, _unsubscribe),
        Packet.PINGREQ: (0, _ping),
        Packet.DISCONNECT: (0, Protocol._disconnect),
        Packet.AUTH: (0, Protocol._auth),
    }


class ClientProtocol(Protocol):
    """The client's end: hears what a server sends."""

    __slots__ = ()

    def __init__(self, version: int, limits: Limits = DEFAULTS) -> None:
        super().__init__(limits)
        self.version = version
        self.packet_limit = LARGEST_VARIABLE

    def _connack(self, fields: Fields, _first: int) -> ConnAck:
        flags, reason = fields.byte(), fields.byte()
        if flags > 1:
            raise PacketFault(Reason.MALFORMED, "reserved bits of a CONNACK are set")
        return ConnAck(bool(flags), reason, self._properties(fields, Packet.CONNACK))

    def _acknowledged(self, fields: Fields, first: int) -> Acknowledged:
        packet = Packet(first >> 4)
        packet_id = fields.packet_id()
        given = self._properties(fields, packet)
        return Acknowledged(packet, packet_id, tuple(fields.rest()), given)

    def _pong(self, _fields: Fields, _first: int) -> Pong:
        return Pong()

    _packets: ClassVar[Readers] = {
        Packet.CONNACK: (0, _connack),
        Packet.PUBLISH: (-1, Protocol._publish),
        Packet.PUBACK: (0, Protocol._answer),
        Packet.PUBREC: (0, Protocol._answer),
        Packet.PUBREL: (2, Protocol._answer),
        Packet.PUBCOMP: (0, Protocol._answer),
        Packet.SUBACK: (0, _acknowledged),
        Packet.UNSUBACK: (0, _acknowledged),
        Packet.PINGRESP: (0, _pong),
        Packet.DISCONNECT: (0, Protocol._disconnect),
        Packet.AUTH: (0, Protocol._auth),
    }
