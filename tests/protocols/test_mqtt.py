"""MQTT at the level of bytes: each packet and each property of both versions, and what is wrong by the table."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.limits import Limits
from fumarole.protocols import mqtt_packets as packets
from fumarole.protocols.mqtt import ClientProtocol, Protocol, ServerProtocol
from fumarole.protocols.mqtt_fields import (
    ALLOWED,
    MOST_PROPERTIES,
    NONE,
    Kind,
    Packet,
    Property,
    binary,
    text,
    two,
    variable,
)
from fumarole.protocols.mqtt_fields import properties as written
from fumarole.protocols.mqtt_packets import (
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
    Ping,
    Pong,
    Publish,
    Subscribe,
    Unsubscribe,
    Will,
    packet,
)
from fumarole.protocols.mqtt_reasons import Reason
from fumarole.protocols.stream import End

LIMITS = Limits(control_line=128, payload=1000)
PLAIN_CONNECT = {
    version: packets.connect(Connect(version, "c", True, 60, None, None, None, NONE)) for version in (V3, V5)
}
VERSIONS = (V3, V5)


def server(version: int, limits: Limits = LIMITS, is_let_in: bool = True) -> ServerProtocol:
    """A server's end that has had its CONNECT."""
    protocol = ServerProtocol(limits)
    protocol.receive_data(PLAIN_CONNECT[version])
    (event,) = protocol.events_received()
    assert isinstance(event, Connect)
    protocol.greeted = is_let_in
    protocol.alias_maximum = 3
    return protocol


def heard(protocol: Protocol, *pieces: bytes) -> list[Event]:
    events: list[Event] = []
    for piece in pieces:
        protocol.receive_data(piece)
        while more := protocol.events_received():
            events += more
    return events


def check_heard(protocols: Sequence[Protocol], data: bytes, expected: list[Event], behind: bytes, last: Event) -> None:
    """Whole, byte by byte, and with something behind it."""
    whole, by_byte, trailing = protocols
    assert heard(whole, data) == expected
    assert heard(by_byte, *(bytes([byte]) for byte in data)) == expected
    assert heard(trailing, data + behind + behind[:1]) == [*expected, last]


# Both versions from the bytes of the specification.

FROM_CLIENTS: list[tuple[str, int, bytes, Event]] = [
    ("publish, QoS 0", V3, b"\x30\x07\x00\x03a/b21", Publish("a/b", b"21", 0, False, False, 0, NONE)),
    ("publish, empty payload", V3, b"\x31\x05\x00\x03a/b", Publish("a/b", b"", 0, True, False, 0, NONE)),
    ("publish, QoS 1", V3, b"\x32\x09\x00\x03a/b\x00\x0a21", Publish("a/b", b"21", 1, False, False, 10, NONE)),
    ("publish, QoS 2 again", V3, b"\x3c\x07\x00\x03a/b\x00\x0a", Publish("a/b", b"", 2, False, True, 10, NONE)),
    ("publish, version 5", V5, b"\x30\x08\x00\x03a/b\x0021", Publish("a/b", b"21", 0, False, False, 0, NONE)),
    (
        "publish with an expiry",
        V5,
        b"\x30\x0b\x00\x03a/b\x05\x02\x00\x00\x00\x3c",
        Publish("a/b", b"", 0, False, False, 0, {Property.MESSAGE_EXPIRY: 60}),
    ),
    ("puback", V3, b"\x40\x02\x00\x0a", Answer(Packet.PUBACK, 10, 0, NONE)),
    ("puback with a reason", V5, b"\x40\x03\x00\x0a\x10", Answer(Packet.PUBACK, 10, 0x10, NONE)),
    ("puback with no properties", V5, b"\x40\x04\x00\x0a\x10\x00", Answer(Packet.PUBACK, 10, 0x10, NONE)),
    ("pubrec", V3, b"\x50\x02\x00\x0a", Answer(Packet.PUBREC, 10, 0, NONE)),
    ("pubrel", V3, b"\x62\x02\x00\x0a", Answer(Packet.PUBREL, 10, 0, NONE)),
    ("pubrel with a reason", V5, b"\x62\x03\x00\x0a\x92", Answer(Packet.PUBREL, 10, 0x92, NONE)),
    ("pubcomp", V3, b"\x70\x02\x00\x0a", Answer(Packet.PUBCOMP, 10, 0, NONE)),
    ("subscribe", V3, b"\x82\x08\x00\x0a\x00\x03a/+\x01", Subscribe(10, (Filter("a/+", 1),), NONE)),
    (
        "subscribe, two filters",
        V3,
        b"\x82\x0c\x00\x0a\x00\x01a\x00\x00\x03b/#\x02",
        Subscribe(10, (Filter("a", 0), Filter("b/#", 2)), NONE),
    ),
    (
        "subscribe with all options and an identifier",
        V5,
        b"\x82\x0a\x00\x0a\x03\x0b\x80\x01\x00\x01a\x2d",
        Subscribe(10, (Filter("a", 1, True, True, 2),), {Property.SUBSCRIPTION_IDENTIFIER: [128]}),
    ),
    ("unsubscribe", V3, b"\xa2\x07\x00\x0a\x00\x03a/+", Unsubscribe(10, ("a/+",), NONE)),
    ("unsubscribe, version 5", V5, b"\xa2\x06\x00\x0a\x00\x00\x01a", Unsubscribe(10, ("a",), NONE)),
    ("ping", V3, b"\xc0\x00", Ping()),
    ("disconnect", V3, b"\xe0\x00", Disconnect(0, NONE)),
    ("disconnect, version 5", V5, b"\xe0\x00", Disconnect(0, NONE)),
    ("disconnect with will", V5, b"\xe0\x01\x04", Disconnect(4, NONE)),
    (
        "disconnect with an expiry",
        V5,
        b"\xe0\x07\x00\x05\x11\x00\x00\x00\x05",
        Disconnect(0, {Property.SESSION_EXPIRY: 5}),
    ),
    ("auth", V5, b"\xf0\x06\x18\x04\x15\x00\x01x", Auth(0x18, {Property.AUTHENTICATION_METHOD: "x"})),
    ("auth without anything", V5, b"\xf0\x00", Auth(0, NONE)),
]


@pytest.mark.parametrize(
    ("version", "data", "expected"), [row[1:] for row in FROM_CLIENTS], ids=[row[0] for row in FROM_CLIENTS]
)
def test_clients(version: int, data: bytes, expected: Event) -> None:
    check_heard([server(version) for _ in range(3)], data, [expected], packets.PINGREQ, Ping())


CONNECTS: list[tuple[str, bytes, Connect]] = [
    ("3.1.1", b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01c", Connect(V3, "c", True, 60, None, None, None, NONE)),
    (
        "no client id",
        b"\x10\x0c\x00\x04MQTT\x04\x00\x00\x00\x00\x00",
        Connect(V3, "", False, 0, None, None, None, NONE),
    ),
    (
        "user, password and will",
        b"\x10\x19\x00\x04MQTT\x04\xee\x00\x0a\x00\x01c\x00\x01t\x00\x01w\x00\x01u\x00\x01p",
        Connect(V3, "c", True, 10, "u", b"p", Will("t", b"w", 1, True, NONE), NONE),
    ),
    ("5.0", b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x01c", Connect(V5, "c", True, 60, None, None, None, NONE)),
    (
        "5.0 with a password alone",
        b"\x10\x11\x00\x04MQTT\x05\x42\x00\x3c\x00\x00\x01c\x00\x01p",
        Connect(V5, "c", True, 60, None, b"p", None, NONE),
    ),
    (
        "5.0 with properties, its own and the will's",
        b"\x10\x1f\x00\x04MQTT\x05\x06\x00\x3c\x05\x11\x00\x00\x00\x05\x00\x01c\x05\x18\x00\x00\x00\x02\x00\x01t\x00\x01w",
        Connect(
            V5,
            "c",
            True,
            60,
            None,
            None,
            Will("t", b"w", 0, False, {Property.WILL_DELAY: 2}),
            {Property.SESSION_EXPIRY: 5},
        ),
    ),
]


@pytest.mark.parametrize(("data", "expected"), [row[1:] for row in CONNECTS], ids=[row[0] for row in CONNECTS])
def test_connect(data: bytes, expected: Connect) -> None:
    check_heard([ServerProtocol(LIMITS) for _ in range(3)], data, [expected], packets.PINGREQ, Ping())
    assert packets.connect(expected) == data


# Every property as the specification writes it: its number, and how its value stands there.

PROPERTIES: dict[Property, tuple[bytes, object]] = {
    Property.PAYLOAD_FORMAT: (b"\x01\x01", 1),
    Property.MESSAGE_EXPIRY: (b"\x02\x00\x00\x00\x3c", 60),
    Property.CONTENT_TYPE: (b"\x03\x00\x01t", "t"),
    Property.RESPONSE_TOPIC: (b"\x08\x00\x03a/b", "a/b"),
    Property.CORRELATION_DATA: (b"\x09\x00\x02\x00\xff", b"\x00\xff"),
    Property.SUBSCRIPTION_IDENTIFIER: (b"\x0b\xff\xff\xff\x7f", [268_435_455]),
    Property.SESSION_EXPIRY: (b"\x11\xff\xff\xff\xff", 4_294_967_295),
    Property.ASSIGNED_CLIENT_ID: (b"\x12\x00\x01c", "c"),
    Property.SERVER_KEEP_ALIVE: (b"\x13\x01\x00", 256),
    Property.AUTHENTICATION_METHOD: (b"\x15\x00\x01m", "m"),
    Property.AUTHENTICATION_DATA: (b"\x16\x00\x01\xfe", b"\xfe"),
    Property.REQUEST_PROBLEM_INFORMATION: (b"\x17\x00", 0),
    Property.WILL_DELAY: (b"\x18\x00\x00\x00\x05", 5),
    Property.REQUEST_RESPONSE_INFORMATION: (b"\x19\x01", 1),
    Property.RESPONSE_INFORMATION: (b"\x1a\x00\x01i", "i"),
    Property.SERVER_REFERENCE: (b"\x1c\x00\x01s", "s"),
    Property.REASON_STRING: (b"\x1f\x00\x02\xc3\xbc", "ü"),
    Property.RECEIVE_MAXIMUM: (b"\x21\x00\x0a", 10),
    Property.TOPIC_ALIAS_MAXIMUM: (b"\x22\x00\x40", 64),
    Property.TOPIC_ALIAS: (b"\x23\x00\x01", 1),
    Property.MAXIMUM_QOS: (b"\x24\x01", 1),
    Property.RETAIN_AVAILABLE: (b"\x25\x01", 1),
    Property.USER: (b"\x26\x00\x01k\x00\x01v\x26\x00\x01k\x00\x00", [("k", "v"), ("k", "")]),
    Property.MAXIMUM_PACKET_SIZE: (b"\x27\x00\x10\x00\x00", 1_048_576),
    Property.WILDCARD_AVAILABLE: (b"\x28\x01", 1),
    Property.IDENTIFIERS_AVAILABLE: (b"\x29\x00", 0),
    Property.SHARED_AVAILABLE: (b"\x2a\x01", 1),
}


def test_every_property_as_the_specification_writes_it() -> None:
    """Written and read by its own bytes, in a packet where it has a place."""
    assert set(PROPERTIES) == set(Property)
    for number, (raw, value) in PROPERTIES.items():
        given: dict[int, object] = {number: value}
        assert written(given) == bytes([len(raw)]) + raw, number
        _, places = ALLOWED[number]
        body = bytes([len(raw)]) + raw
        if Packet.CONNECT in places:
            data = packet(0x10, text("MQTT") + b"\x05\x02\x00\x00" + body + b"\x00\x01c")
            if number == Property.AUTHENTICATION_DATA:
                continue
            event: Event = Connect(V5, "c", True, 0, None, None, None, given)
            check_heard([ServerProtocol(LIMITS) for _ in range(3)], data, [event], packets.PINGREQ, Ping())
        elif Packet.WILL in places and Packet.PUBLISH not in places:
            data = packet(0x10, text("MQTT") + b"\x05\x06\x00\x00\x00\x00\x01c" + body + b"\x00\x01t\x00\x00")
            event = Connect(V5, "c", True, 0, None, None, Will("t", b"", 0, False, given), NONE)
            check_heard([ServerProtocol(LIMITS) for _ in range(3)], data, [event], packets.PINGREQ, Ping())
        elif Packet.SUBSCRIBE in places:
            data = packet(0x82, b"\x00\x0a" + body + b"\x00\x01t\x00")
            event = Subscribe(10, (Filter("t", 0),), given)
            check_heard([server(V5) for _ in range(3)], data, [event], packets.PINGREQ, Ping())
        elif Packet.PUBLISH in places:
            data = packet(0x30, b"\x00\x01t" + body)
            check_heard(
                [server(V5) for _ in range(3)],
                data,
                [Publish("t", b"", 0, False, False, 0, given)],
                packets.PINGREQ,
                Ping(),
            )
        else:
            data = packet(0x20, b"\x00\x00" + body)
            check_heard([ClientProtocol(V5) for _ in range(3)], data, [ConnAck(False, 0, given)], b"\xd0\x00", Pong())


# What the server says, from the bytes of the specification, and by the functions that write it.

FROM_SERVERS: list[tuple[str, int, bytes, bytes, Event]] = [
    ("connack", V3, packets.connack(V3), b"\x20\x02\x00\x00", ConnAck(False, 0, NONE)),
    ("connack, version 5", V5, packets.connack(V5), b"\x20\x03\x00\x00\x00", ConnAck(False, 0, NONE)),
    ("refused: version", V3, packets.refusal(Reason.VERSION), b"\x20\x02\x00\x01", ConnAck(False, 1, NONE)),
    ("refused: client id", V3, packets.refusal(Reason.CLIENT_ID), b"\x20\x02\x00\x02", ConnAck(False, 2, NONE)),
    ("refused: busy", V3, packets.refusal(Reason.BUSY), b"\x20\x02\x00\x03", ConnAck(False, 3, NONE)),
    ("refused: login", V3, packets.refusal(Reason.BAD_LOGIN), b"\x20\x02\x00\x04", ConnAck(False, 4, NONE)),
    ("refused: rights", V3, packets.refusal(Reason.NOT_AUTHORIZED), b"\x20\x02\x00\x05", ConnAck(False, 5, NONE)),
    (
        "refused with words",
        V5,
        packets.refusal(Reason.BAD_LOGIN, "no"),
        b"\x20\x08\x00\x86\x05\x1f\x00\x02no",
        ConnAck(False, 0x86, {Property.REASON_STRING: "no"}),
    ),
    (
        "publish",
        V3,
        packets.publish(Publish("a/b", b"21", 1, True, False, 10, NONE), V3),
        b"\x33\x09\x00\x03a/b\x00\x0a21",
        Publish("a/b", b"21", 1, True, False, 10, NONE),
    ),
    (
        "publish with an identifier",
        V5,
        packets.publish(Publish("a", b"", 2, False, False, 10, {Property.SUBSCRIPTION_IDENTIFIER: [1, 200]}), V5),
        b"\x34\x0b\x00\x01a\x00\x0a\x05\x0b\x01\x0b\xc8\x01",
        Publish("a", b"", 2, False, False, 10, {Property.SUBSCRIPTION_IDENTIFIER: [1, 200]}),
    ),
    ("puback", V3, packets.answer(Packet.PUBACK, 10), b"\x40\x02\x00\x0a", Answer(Packet.PUBACK, 10, 0, NONE)),
    (
        "puback: no match",
        V5,
        packets.answer(Packet.PUBACK, 10, 0x10),
        b"\x40\x03\x00\x0a\x10",
        Answer(Packet.PUBACK, 10, 0x10, NONE),
    ),
    ("pubrec", V3, packets.answer(Packet.PUBREC, 10), b"\x50\x02\x00\x0a", Answer(Packet.PUBREC, 10, 0, NONE)),
    ("pubrel", V3, packets.answer(Packet.PUBREL, 10), b"\x62\x02\x00\x0a", Answer(Packet.PUBREL, 10, 0, NONE)),
    ("pubcomp", V3, packets.answer(Packet.PUBCOMP, 10), b"\x70\x02\x00\x0a", Answer(Packet.PUBCOMP, 10, 0, NONE)),
    (
        "suback",
        V3,
        packets.acknowledged(Packet.SUBACK, V3, 10, [0, 2, 0x87]),
        b"\x90\x05\x00\x0a\x00\x02\x80",
        Acknowledged(Packet.SUBACK, 10, (0, 2, 0x80), NONE),
    ),
    (
        "suback, version 5",
        V5,
        packets.acknowledged(Packet.SUBACK, V5, 10, [1, 0x87]),
        b"\x90\x05\x00\x0a\x00\x01\x87",
        Acknowledged(Packet.SUBACK, 10, (1, 0x87), NONE),
    ),
    (
        "unsuback",
        V3,
        packets.acknowledged(Packet.UNSUBACK, V3, 10, [0, 0x11]),
        b"\xb0\x02\x00\x0a",
        Acknowledged(Packet.UNSUBACK, 10, (), NONE),
    ),
    (
        "unsuback, version 5",
        V5,
        packets.acknowledged(Packet.UNSUBACK, V5, 10, [0, 0x11]),
        b"\xb0\x05\x00\x0a\x00\x00\x11",
        Acknowledged(Packet.UNSUBACK, 10, (0, 0x11), NONE),
    ),
    ("pingresp", V3, packets.PINGRESP, b"\xd0\x00", Pong()),
    ("disconnect", V5, packets.disconnect(0x8E), b"\xe0\x01\x8e", Disconnect(0x8E, NONE)),
    (
        "auth",
        V5,
        packets.auth(0x18, {Property.AUTHENTICATION_METHOD: "m"}),
        b"\xf0\x06\x18\x04\x15\x00\x01m",
        Auth(0x18, {Property.AUTHENTICATION_METHOD: "m"}),
    ),
]


@pytest.mark.parametrize(
    ("version", "made", "data", "event"), [row[1:] for row in FROM_SERVERS], ids=[row[0] for row in FROM_SERVERS]
)
def test_what_a_server_says(version: int, made: bytes, data: bytes, event: Event) -> None:
    assert made == data
    check_heard([ClientProtocol(version) for _ in range(3)], data, [event], packets.PINGRESP, Pong())


SOME: dict[Kind, object] = {
    Kind.BYTE: 1,
    Kind.FLAG: 1,
    Kind.TWO: 300,
    Kind.TWO_NOT_ZERO: 300,
    Kind.FOUR: 70_000,
    Kind.FOUR_NOT_ZERO: 70_000,
    Kind.VARIABLE: [16_384],
    Kind.TEXT: "ü",
    Kind.BINARY: b"\x00\xff",
    Kind.PAIR: [("a", "1"), ("a", "2"), ("", "")],
}


def _of_clients(kind: Packet, given: dict[int, object]) -> tuple[bytes, Event]:
    """A packet of a client with these properties."""
    if kind is Packet.PUBLISH:
        publish = Publish("t", b"p", 1, False, False, 7, given)
        return packets.publish(publish, V5), publish
    if kind is Packet.SUBSCRIBE:
        subscribe = Subscribe(7, (Filter("t", 1),), given)
        return packets.subscribe(subscribe, V5), subscribe
    if kind is Packet.UNSUBSCRIBE:
        unsubscribe = Unsubscribe(7, ("t",), given)
        return packets.unsubscribe(unsubscribe, V5), unsubscribe
    if kind in (Packet.PUBACK, Packet.PUBREC, Packet.PUBREL, Packet.PUBCOMP):
        first = kind << 4 | (2 if kind is Packet.PUBREL else 0)
        return packet(first, two(7) + b"\x80" + written(given)), Answer(kind, 7, 0x80, given)
    if kind is Packet.AUTH:
        return packets.auth(0x18, given), Auth(0x18, given)
    assert kind is Packet.DISCONNECT
    return packets.disconnect(0x80, values=given), Disconnect(0x80, given)


FROM_A_CLIENT = (
    Packet.PUBLISH,
    Packet.SUBSCRIBE,
    Packet.UNSUBSCRIBE,
    Packet.PUBACK,
    Packet.PUBREC,
    Packet.PUBREL,
    Packet.PUBCOMP,
    Packet.AUTH,
    Packet.DISCONNECT,
)
EVERY_PROPERTY = [(number, kind) for number in Property for kind in (*FROM_A_CLIENT, Packet.CONNECT, Packet.WILL)]


@pytest.mark.parametrize(("number", "kind"), EVERY_PROPERTY, ids=[f"{n.name} in {k.name}" for n, k in EVERY_PROPERTY])
def test_every_property_in_every_packet(number: Property, kind: Packet) -> None:
    """It is heard where it has a place, once; elsewhere, and twice, it is a protocol error."""
    how, places = ALLOWED[number]
    value = 2 if number == Property.TOPIC_ALIAS else SOME[how]
    given: dict[int, object] = {number: value}
    twice = variable(2 * (len(written(given)) - 1)) + 2 * written(given)[1:]
    if kind in (Packet.CONNECT, Packet.WILL):
        will = Will("t", b"", 0, False, given if kind is Packet.WILL else NONE)
        event: Event = Connect(V5, "c", True, 0, None, None, will, given if kind is Packet.CONNECT else NONE)
        data = packets.connect(event)  # type: ignore[arg-type]
        protocols = [ServerProtocol(LIMITS) for _ in range(4)]
    else:
        data, event = _of_clients(kind, given)
        protocols = [server(V5) for _ in range(4)]
    has_place = kind in places and (number, kind) != (Property.SUBSCRIPTION_IDENTIFIER, Packet.PUBLISH)
    is_incomplete = (number, kind) == (Property.AUTHENTICATION_DATA, Packet.CONNECT)
    if has_place and not is_incomplete:
        check_heard(protocols[:3], data, [event], packets.PINGREQ, Ping())
        once = written(given)
        body = data[2:].replace(once, twice)
        expected: list[Event] | None = [] if how is not Kind.PAIR else None
        again = heard(protocols[3], packet(data[0], body))
        assert (again == expected) if expected is not None else len(again) == 1
    else:
        assert heard(protocols[0], data) == []
        assert reason_of(protocols[0]) == Reason.PROTOCOL_ERROR


def reason_of(protocol: ServerProtocol) -> int | None:
    """The reason code that the client is told."""
    assert protocol.close_expected()
    said = protocol.data_to_send()
    if not said:
        return None
    (event,) = heard(ClientProtocol(protocol.version), said)
    assert isinstance(event, ConnAck | Disconnect)
    return event.reason


P = b"\x00\x01t"
"""A topic of one letter."""
MALFORMED: list[tuple[str, bytes, Reason]] = [
    ("remaining length of five bytes", b"\x30\xff\xff\xff\xff\x01", Reason.MALFORMED),
    ("too long", b"\x30\xff\xff\x7f", Reason.TOO_LARGE),
    ("a list that is too long", b"\x82\x81\x80\x08", Reason.TOO_LARGE),
    ("packet type 0", b"\x00\x00", Reason.MALFORMED),
    ("a server's packet", b"\x20\x02\x00\x00", Reason.MALFORMED),
    ("pingresp", b"\xd0\x00", Reason.MALFORMED),
    ("a second connect", PLAIN_CONNECT[V5], Reason.PROTOCOL_ERROR),
    ("flags of subscribe", b"\x80\x07\x00\x0a\x00" + P + b"\x00", Reason.MALFORMED),
    ("flags of unsubscribe", b"\xa0\x06\x00\x0a\x00" + P, Reason.MALFORMED),
    ("flags of pubrel", b"\x60\x02\x00\x0a", Reason.MALFORMED),
    ("flags of puback", b"\x41\x02\x00\x0a", Reason.MALFORMED),
    ("flags of ping", b"\xc1\x00", Reason.MALFORMED),
    ("flags of disconnect", b"\xe1\x00", Reason.MALFORMED),
    ("ping with a body", b"\xc0\x01\x00", Reason.MALFORMED),
    ("QoS 3", b"\x36\x06" + P + b"\x00\x01\x00", Reason.MALFORMED),
    ("duplicate of QoS 0", b"\x38\x04" + P + b"\x00", Reason.MALFORMED),
    ("packet id 0", b"\x32\x06" + P + b"\x00\x00\x00", Reason.PROTOCOL_ERROR),
    ("no packet id", b"\x32\x03" + P, Reason.MALFORMED),
    ("subscribe with packet id 0", b"\x82\x07\x00\x00\x00" + P + b"\x00", Reason.PROTOCOL_ERROR),
    ("puback with packet id 0", b"\x40\x02\x00\x00", Reason.PROTOCOL_ERROR),
    ("puback without packet id", b"\x40\x00", Reason.MALFORMED),
    ("puback with a tail", b"\x40\x05\x00\x01\x00\x00\x00", Reason.MALFORMED),
    ("no topic", b"\x30\x00", Reason.MALFORMED),
    ("empty topic without alias", b"\x30\x03\x00\x00\x00", Reason.PROTOCOL_ERROR),
    ("topic longer than the packet", b"\x30\x03\x00\x05t", Reason.MALFORMED),
    ("topic is not UTF-8", b"\x30\x04\x00\x01\xff\x00", Reason.MALFORMED),
    ("topic with half a surrogate pair", b"\x30\x06\x00\x03\xed\xa0\x80\x00", Reason.MALFORMED),
    ("topic in an overlong form", b"\x30\x05\x00\x02\xc0\xaf\x00", Reason.MALFORMED),
    ("topic with U+0000", b"\x30\x05\x00\x02a\x00\x00", Reason.MALFORMED),
    ("topic with +", b"\x30\x06\x00\x03a/+\x00", Reason.TOPIC),
    ("topic with #", b"\x30\x04\x00\x01#\x00", Reason.TOPIC),
    ("properties longer than the packet", b"\x30\x05" + P + b"\x05\x23", Reason.MALFORMED),
    ("a property longer than the properties", b"\x30\x06" + P + b"\x02\x23\x00", Reason.MALFORMED),
    ("property length of five bytes", b"\x30\x08" + P + b"\xff\xff\xff\xff\x01", Reason.MALFORMED),
    ("an unknown property", b"\x30\x06" + P + b"\x02\x7f\x00", Reason.MALFORMED),
    ("a response topic with +", b"\x30\x0a" + P + b"\x06\x08\x00\x03a/+", Reason.PROTOCOL_ERROR),
    ("a response topic with #", b"\x30\x08" + P + b"\x04\x08\x00\x01#", Reason.PROTOCOL_ERROR),
    ("payload format 2", b"\x30\x06" + P + b"\x02\x01\x02", Reason.PROTOCOL_ERROR),
    ("alias 0", b"\x30\x07" + P + b"\x03\x23\x00\x00", Reason.TOPIC_ALIAS),
    ("alias above the maximum", b"\x30\x07" + P + b"\x03\x23\x00\x04", Reason.TOPIC_ALIAS),
    ("alias that was never set", b"\x30\x06\x00\x00\x03\x23\x00\x01", Reason.PROTOCOL_ERROR),
    ("subscription identifier from a client", b"\x30\x06" + P + b"\x02\x0b\x01", Reason.PROTOCOL_ERROR),
    ("subscription identifier 0", b"\x82\x09\x00\x0a\x02\x0b\x00" + P + b"\x00", Reason.PROTOCOL_ERROR),
    ("no filters", b"\x82\x03\x00\x0a\x00", Reason.PROTOCOL_ERROR),
    ("a filter without options", b"\x82\x06\x00\x0a\x00" + P, Reason.MALFORMED),
    ("reserved bits of options", b"\x82\x07\x00\x0a\x00" + P + b"\x40", Reason.MALFORMED),
    ("QoS 3 in options", b"\x82\x07\x00\x0a\x00" + P + b"\x03", Reason.MALFORMED),
    ("retain handling 3", b"\x82\x07\x00\x0a\x00" + P + b"\x30", Reason.PROTOCOL_ERROR),
    ("no local on a shared subscription", b"\x82\x10\x00\x0a\x00\x00\x0a$share/g/t\x04", Reason.PROTOCOL_ERROR),
    ("nothing to unsubscribe", b"\xa2\x03\x00\x0a\x00", Reason.PROTOCOL_ERROR),
    ("a filter that is not UTF-8", b"\xa2\x06\x00\x0a\x00\x00\x01\xff", Reason.MALFORMED),
]


@pytest.mark.parametrize(("data", "reason"), [row[1:] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
def test_malformed(data: bytes, reason: Reason) -> None:
    """Told by version 5, and closed; what stands behind is not heard."""
    for pieces in ([data], [data + packets.PINGREQ], [bytes([byte]) for byte in data]):
        protocol = server(V5)
        assert heard(protocol, *pieces) == []
        assert reason_of(protocol) == reason
        assert heard(protocol, packets.PINGREQ) == []
        assert protocol.data_to_send() == b""


OF_3_1_1: list[tuple[str, bytes]] = [
    ("QoS 3", b"\x36\x05" + P + b"\x00\x01"),
    ("packet id 0", b"\x32\x05" + P + b"\x00\x00"),
    ("topic with +", b"\x30\x05\x00\x03a/+"),
    ("empty topic", b"\x30\x02\x00\x00"),
    ("options of version 5", b"\x82\x06\x00\x0a" + P + b"\x04"),
    ("puback with a reason", b"\x40\x03\x00\x0a\x10"),
    ("disconnect with a reason", b"\xe0\x01\x00"),
    ("auth", b"\xf0\x00"),
    ("no filters", b"\x82\x02\x00\x0a"),
    ("a second connect", PLAIN_CONNECT[V3]),
]


@pytest.mark.parametrize("data", [row[1] for row in OF_3_1_1], ids=[row[0] for row in OF_3_1_1])
def test_malformed_3_1_1(data: bytes) -> None:
    """3.1.1 closes without a word."""
    protocol = server(V3)
    assert heard(protocol, data) == []
    assert reason_of(protocol) is None


C = b"\x00\x01c"
WRONG_CONNECTS: list[tuple[str, bytes, bytes | int | None]] = [
    ("no connect at all", packets.PINGREQ, None),
    ("HTTP", b"GET / HTTP/1.1\r\n\r\n", None),
    ("another protocol", packet(0x10, text("MQIsdp") + b"\x03\x02\x00\x00" + C), None),
    ("version 3", packet(0x10, text("MQTT") + b"\x03\x02\x00\x00" + C), b"\x20\x02\x00\x01"),
    ("version 6", packet(0x10, text("MQTT") + b"\x06\x02\x00\x00\x00" + C), Reason.VERSION),
    ("flags of the first byte", packet(0x11, text("MQTT") + b"\x04\x02\x00\x00" + C), None),
    ("the reserved flag", packet(0x10, text("MQTT") + b"\x05\x03\x00\x00\x00" + C), Reason.MALFORMED),
    ("a will's QoS without a will", packet(0x10, text("MQTT") + b"\x05\x0a\x00\x00\x00" + C), Reason.MALFORMED),
    (
        "a will of QoS 3",
        packet(0x10, text("MQTT") + b"\x05\x1e\x00\x00\x00" + C + b"\x00" + P + b"\x00\x00"),
        Reason.MALFORMED,
    ),
    (
        "a will with wildcards",
        packet(0x10, text("MQTT") + b"\x05\x06\x00\x00\x00" + C + b"\x00\x00\x01#\x00\x00"),
        Reason.TOPIC,
    ),
    ("a password without a user", packet(0x10, text("MQTT") + b"\x04\x42\x00\x00" + C + binary(b"p")), None),
    ("no room for the client id", packet(0x10, text("MQTT") + b"\x05\x02\x00\x00\x00\x00\x05c"), Reason.MALFORMED),
    ("something behind it", packet(0x10, text("MQTT") + b"\x05\x02\x00\x00\x00" + C + b"x"), Reason.MALFORMED),
    ("a will that is too large", packet(0x10, text("MQTT") + b"\x05\x06\x00\x00\x00" + C + bytes(600)), None),
    (
        "authentication data without a method",
        packet(0x10, text("MQTT") + b"\x05\x02\x00\x00\x04\x16\x00\x01x" + C),
        Reason.PROTOCOL_ERROR,
    ),
    (
        "receive maximum 0",
        packet(0x10, text("MQTT") + b"\x05\x02\x00\x00\x03\x21\x00\x00" + C),
        Reason.PROTOCOL_ERROR,
    ),
]


@pytest.mark.parametrize(("data", "told"), [row[1:] for row in WRONG_CONNECTS], ids=[row[0] for row in WRONG_CONNECTS])
def test_wrong_connects(data: bytes, told: bytes | int | None) -> None:
    for pieces in ([data], [bytes([byte]) for byte in data]):
        protocol = ServerProtocol(LIMITS)
        assert heard(protocol, *pieces) == []
        if isinstance(told, bytes):
            assert protocol.data_to_send() == told
        else:
            assert reason_of(protocol) == told


def test_a_stranger_gets_no_buffer() -> None:
    """What is not let in yet may send no more than a few control lines at a time."""
    protocol = server(V5, is_let_in=False)
    assert heard(protocol, b"\x30\x81\x04") == []
    assert reason_of(protocol) == Reason.TOO_LARGE
    protocol = ServerProtocol(LIMITS)
    assert heard(protocol, b"\x10\x81\x04") == []
    assert protocol.close_expected()


def test_aliases() -> None:
    """They are the connection's, and can be set again."""
    protocol = server(V5)
    set_it = b"\x30\x07" + P + b"\x03\x23\x00\x01"
    use_it = b"\x30\x06\x00\x00\x03\x23\x00\x01"
    other = b"\x30\x07\x00\x01u\x03\x23\x00\x01"
    events = heard(protocol, set_it + use_it + other + use_it)
    assert [event.topic for event in events if isinstance(event, Publish)] == ["t", "t", "u", "u"]


def test_many_properties_are_refused() -> None:
    protocol = server(V5, Limits())
    body = P + variable(MOST_PROPERTIES + 1) + bytes(MOST_PROPERTIES + 1)
    assert heard(protocol, packet(0x30, body)) == []
    assert reason_of(protocol) == Reason.TOO_LARGE


def test_no_words_where_none_are_wanted() -> None:
    """Request Problem Information 0."""
    protocol = ServerProtocol(LIMITS)
    given: dict[int, object] = {Property.REQUEST_PROBLEM_INFORMATION: 0}
    heard(protocol, packets.connect(Connect(V5, "c", True, 0, None, None, None, given)))
    protocol.greeted = True
    heard(protocol, b"\xc1\x00")
    assert protocol.data_to_send() == b"\xe0\x01\x81"


@pytest.mark.parametrize(("largest", "words"), [(40, ""), (60, "there is no QoS 3"), (None, "there is no QoS 3")])
def test_no_words_that_the_client_has_no_room_for(largest: int | None, words: str) -> None:
    """Maximum Packet Size: a packet with its reason string would be longer."""
    asked: dict[int, int] = {} if largest is None else {Property.MAXIMUM_PACKET_SIZE: largest}
    protocol = ServerProtocol(LIMITS)
    heard(protocol, packets.connect(Connect(V5, "c", True, 0, None, None, None, asked)))
    protocol.greeted = True
    said = protocol.shown("there is no QoS 3" if largest != 40 else "x" * 40)
    assert said == words
    assert protocol.shown("there is no QoS 3", reasons=100) == ("" if largest else words)
    assert len(protocol.refuse(Reason.MALFORMED, "x" * 100)) <= (largest or 200)


def test_the_end() -> None:
    protocol = server(V5)
    protocol.receive_eof()
    assert heard(protocol, b"") == [End()]


# What the server says, heard by the client's end.

_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
_topic = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0+#"), min_size=1, max_size=200)
_packet_id = st.integers(1, 65535)
_values = {
    Kind.FLAG: st.integers(0, 1),
    Kind.TWO: st.integers(0, 65535),
    Kind.TWO_NOT_ZERO: st.integers(1, 65535),
    Kind.FOUR: st.integers(0, 2**32 - 1),
    Kind.FOUR_NOT_ZERO: st.integers(1, 2**32 - 1),
    Kind.TEXT: _text,
    Kind.BINARY: st.binary(max_size=5),
    Kind.PAIR: st.lists(st.tuples(_text, _text), min_size=1, max_size=3),
    Kind.VARIABLE: st.lists(st.integers(1, 268_435_455), min_size=1, max_size=3),
}


def _properties(kind: Packet, *without: Property) -> st.SearchStrategy[dict[int, object]]:
    places = {
        int(number): _values[how]
        for number, (how, packets_) in ALLOWED.items()
        if kind in packets_ and number not in without
    }
    return st.fixed_dictionaries({}, optional=places)


def _published(
    topic: str, payload: bytes, qos: int, flags: tuple[bool, bool], number: int, given: dict[int, object]
) -> tuple[bytes, Event]:
    event = Publish(topic, payload, qos, flags[0], flags[1] and qos > 0, number if qos else 0, given or NONE)
    return packets.publish(event, V5), event


_reason = st.sampled_from(list(Reason)).map(int)
_said = st.one_of(
    st.builds(
        lambda given: (packets.connack(V5, given), ConnAck(False, 0, given or NONE)), _properties(Packet.CONNACK)
    ),
    st.builds(
        _published,
        _topic,
        st.binary(max_size=300),
        st.integers(0, 2),
        st.tuples(st.booleans(), st.booleans()),
        _packet_id,
        _properties(Packet.PUBLISH, Property.TOPIC_ALIAS),
    ),
    st.builds(
        lambda kind, number, reasons: (
            packets.acknowledged(kind, V5, number, reasons),
            Acknowledged(kind, number, tuple(reasons), NONE),
        ),
        st.sampled_from([Packet.SUBACK, Packet.UNSUBACK]),
        _packet_id,
        st.lists(_reason, min_size=1, max_size=200),
    ),
    st.builds(
        lambda kind, number, reason: (packets.answer(kind, number, reason), Answer(kind, number, reason, NONE)),
        st.sampled_from([Packet.PUBACK, Packet.PUBREC, Packet.PUBREL, Packet.PUBCOMP]),
        _packet_id,
        _reason,
    ),
    st.builds(
        lambda reason, given: (packets.disconnect(reason, values=given), Disconnect(reason, given or NONE)),
        _reason,
        _properties(Packet.DISCONNECT),
    ),
    st.just((packets.PINGRESP, Pong())),
)


@given(_said)
def test_servers(said: tuple[bytes, Event]) -> None:
    data, expected = said
    check_heard([ClientProtocol(V5) for _ in range(3)], data, [expected], packets.PINGRESP, Pong())


@given(st.binary(max_size=60), st.sampled_from(VERSIONS), st.booleans())
def test_any_bytes(data: bytes, version: int, is_let_in: bool) -> None:
    """Cut anywhere, random bytes mean the same; nothing but a fault comes of what is wrong."""
    whole, by_byte = server(version, is_let_in=is_let_in), server(version, is_let_in=is_let_in)
    assert heard(whole, data) == heard(by_byte, *(bytes([byte]) for byte in data))
    assert whole.close_expected() == by_byte.close_expected()


@given(st.integers(0, 268_435_455))
def test_variable_numbers(number: int) -> None:
    made = variable(number)
    assert len(made) == (number > 127) + (number > 16_383) + (number > 2_097_151) + 1
    assert sum((byte & 0x7F) << 7 * place for place, byte in enumerate(made)) == number
