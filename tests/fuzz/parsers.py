"""Every parser that reads a peer's bytes, on bytes that are almost right.

A valid beginning is changed in a few places: bits, bytes, numbers, lengths, pieces doubled, moved and left out. The same
bytes whole, byte by byte and cut anywhere must give the same, and nothing but the parser's own refusal may be raised.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgpack

from fumarole.bridge import erlang_messages, erlang_terms, messages, operations, zmtp
from fumarole.bridge.errors import MalformedError
from fumarole.bridge.frames import Deliveries, publication
from fumarole.core.limits import Limits
from fumarole.core.query.canonical import canonical
from fumarole.core.query.errors import QueryError
from fumarole.core.query.parse import parse
from fumarole.core.query.tree import Query, show
from fumarole.core.query.view import is_view, parse_view
from fumarole.protocols import cluster_protocol, grpc, http, mqtt, mqtt_packets, websocket
from fumarole.protocols.cluster_protocol import ClusterProtocolError, LinkProtocol
from fumarole.protocols.mqtt_fields import Property
from fumarole.protocols.mqtt_packets import V3, V5, Connect, Filter, Will
from fumarole.protocols.msgpack import Bounds, Stream
from tests.desk import events_of
from tests.fuzz.conversations import cut

LIMITS = Limits(control_line=512, payload=4096, msgpack_value=4096)
A = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"


class Target(NamedTuple):
    """A parser, and what it accepts."""

    seeds: list[bytes]
    outcome: Callable[[list[bytes]], Any]
    """All that can be seen of it after these pieces; raises what must not be."""
    is_stream: bool = True
    """It takes its bytes in pieces."""


def changed(chance: random.Random, seeds: list[bytes]) -> bytes:
    """One or more of the seeds, almost as they were."""
    data = bytearray(b"".join(chance.choice(seeds) for _ in range(chance.choice([1, 1, 1, 2, 4]))))
    for _ in range(chance.choice([0, 1, 1, 2, 3, 8])):
        _change(chance, data, seeds)
    return bytes(data[:20_000])


def _change(chance: random.Random, data: bytearray, seeds: list[bytes]) -> None:
    at, length = chance.randrange(len(data) + 1), chance.choice([1, 1, 2, 4, 30])
    match chance.randrange(7):
        case 0:
            data[at : at + 1] = bytes((chance.randrange(256),))
        case 1:
            del data[at : at + length]
        case 2:
            data[at:at] = chance.randbytes(length)
        case 3:
            data[at:at] = data[at : at + length] * chance.choice([1, 2, 50])
        case 4:
            other = chance.choice(seeds)
            data[at:at] = other[chance.randrange(len(other) + 1) :]
        case 5:
            number = chance.choice([0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 63])
            size = chance.choice([1, 2, 4, 8])
            data[at : at + size] = (number & ((1 << 8 * size) - 1)).to_bytes(size, chance.choice(["big", "little"]))
        case _:
            data[at : at + length] = chance.choice([b"-1", b"+1", b"1_0", b"99999999999", b"\xff\xff", b"\r\n", b"\0"])


def events(make: Callable[[], Any]) -> Callable[[list[bytes]], Any]:
    """Of a protocol with the five verbs: what it heard, what it says, and whether it is over."""

    def outcome(pieces: list[bytes]) -> Any:
        protocol = make()
        return events_of(protocol, *pieces), protocol.data_to_send(), protocol.close_expected()

    return outcome


# The MsgPack door.

READINGS = [
    msgpack.packb(each)
    for each in (
        [A, {"Room": "410", "Floor": 4, "On": True, "Old": None}, 21.5],
        {"id": A, "metadata": {"Room": "4" * 40}, "value": -1, "topic": "a.b"},
        "Kind = 'temperature' and Floor > 3",
        {"where": "Kind = 'so2'", "topic": "volcanoes.>", "group": "g"},
        {"forget": A},
        [[[[[1]]]], {"a": {"b": {}}}, 1 << 63],
    )
]


# The link between nodes, once the peer has proved itself.


def link(pieces: list[bytes]) -> Any:
    protocol = LinkProtocol(LIMITS.payload)
    protocol.trusted = True
    heard: list[Any] = []
    try:
        for piece in pieces:
            protocol.receive_data(piece)
            while (event := protocol.next_event()) is not None:
                heard.append(event)
    except ClusterProtocolError as error:
        return heard, str(error)
    return heard, protocol.wanted()


FRAMES = [
    cluster_protocol.frame(cluster_protocol.Mark(1.5)),
    cluster_protocol.frame(cluster_protocol.Known(7)),
    cluster_protocol.frame(cluster_protocol.Beat(1.0)),
    cluster_protocol.message(b"a.b", b"default\x01g", b"r", b"", b"hi"),
    cluster_protocol.message(b"", b"default", b"", b"NATS/1.0\r\nA: b\r\n\r\n", b"hi"),
]


# MQTT.


def mqtt_seeds(version: int) -> list[bytes]:
    given: Any = {Property.USER: [("a", "b")], Property.CONTENT_TYPE: "x"} if version == V5 else {}
    will = Will("w/x", b"gone", 1, True, given)
    connect = mqtt_packets.connect(Connect(version, "me", True, 60, "user", b"password", will, {}))
    return [
        connect,
        connect + mqtt_packets.publish(mqtt_packets.Publish("a/b", b"21.5", 1, True, False, 7, given), version),
        mqtt_packets.publish(mqtt_packets.Publish("a", b"x" * 200, 0, False, False, 0, given), version),
        mqtt_packets.subscribe(mqtt_packets.Subscribe(3, (Filter("a/#", 2), Filter("$share/g/+/b", 1)), {}), version),
        mqtt_packets.unsubscribe(mqtt_packets.Unsubscribe(4, ("a/#", "+"), {}), version),
        mqtt_packets.PINGREQ + mqtt_packets.disconnect(),
    ]


# HTTP and WebSocket.

REQUESTS = [
    b"GET /v1/producers?where=a%20%3D%201&limit=3 HTTP/1.1\r\nHost: localhost:8222\r\nAccept: */*\r\n\r\n",
    b"POST /v1/topics/a/b HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nFumarole-Producer: %b\r\n\r\n21.5" % A.encode(),
    b"POST /v1/topics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{}\r\n\r\n0\r\nT: x\r\n\r\n",
    b"GET /nats HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\r\n",
    b"OPTIONS * HTTP/1.0\r\nConnection: close\r\n\r\n",
]


def http_requests(pieces: list[bytes]) -> Any:
    """Requests with whole bodies: whether a head comes before its body, and in which pieces that does, depends on cuts."""
    protocol = http.ServerProtocol()
    heard: list[Any] = []
    for event in events_of(protocol, *pieces):
        match event:
            case http.Request(head, None):
                heard.append([head, b"", "goes on"])
            case http.Request(head, body):
                heard.append([head, body, "whole"])
            case http.Body(data):
                heard[-1][1] += data
            case http.BodyEnd():
                heard[-1][2] = "whole"
            case _:
                heard.append(event)
    if heard and isinstance(heard[-1], list) and heard[-1][2] == "goes on":
        heard.pop()
    return heard, bool(protocol.data_to_send()), protocol.close_expected()


def masked(opcode: int, content: bytes, key: bytes = b"abcd") -> bytes:
    size = len(content)
    head = bytes((0x80 | size,)) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return bytes((opcode,)) + head + key + websocket.unmask(content, key)


WEBSOCKET = [
    masked(0x82, b"PUB a 2\r\nhi\r\n"),
    masked(0x02, b"PUB a ") + masked(0x89, b"ping") + masked(0x80, b"2\r\nhi\r\n"),
    masked(0x82, b"x" * 300),
    masked(0x88, b"\x03\xe8bye"),
]


def frames(make: Callable[[], Any]) -> Callable[[list[bytes]], Any]:
    """What frames carry. After a fault, only that there was one: what came before it is lost with the connection."""

    def outcome(pieces: list[bytes]) -> Any:
        reader, carried, controls = make(), b"", []
        try:
            for piece in pieces:
                carried += reader.take(piece)
                controls += reader.controls
        except websocket.FrameFault as fault:
            return "fault", fault.code
        return carried, controls[-1:]

    return outcome


def both_frames(pieces: list[bytes]) -> Any:
    """The two forms of the reader."""
    from fumarole.fastpath.websocket import Frames

    plain, fast = frames(websocket.Frames)(pieces), frames(Frames)(pieces)
    assert plain == fast
    return plain


# gRPC: HTTP/2 frames behind the preface.

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def h2_frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


GRPC = [
    PREFACE + h2_frame(4, 0, 0, b""),
    PREFACE + h2_frame(4, 0, 0, b"\0\4\0\1\0\0") + h2_frame(6, 0, 0, b"12345678"),
    PREFACE + h2_frame(4, 0, 0, b"") + h2_frame(1, 4, 1, b"\x83\x86\x84\x41\x01x") + h2_frame(0, 1, 1, b"\0\0\0\0\2hi"),
]


def grpc_calls(pieces: list[bytes]) -> Any:
    """What calls bring. Windows and work depend on the cuts."""
    protocol = grpc.GrpcServer(grpc.Bounds(4096, 8192, 10, 4096))
    heard = [each for each in events_of(protocol, *pieces) if not isinstance(each, grpc.Looked | grpc.Room)]
    return heard, protocol.close_expected()


# Queries.

QUERIES = [
    b"Kind = 'temperature' AND Floor BETWEEN 1 AND 4 OR NOT (Room IN ('410', \"411\") AND HAS `a b`)",
    b"a LIKE '%x_' and b matches '^(a|b)*c{2,5}$' or c is not null and not d is null",
    b"$value > 21.5e3 and $.path.to.field != -1 and $topic = 'a.b' or _online",
    b"select Region, count(*) where Status = 'failed'",
]


def query(pieces: list[bytes]) -> Any:
    """Shown and parsed again it is the same tree, also in its canonical form."""
    text = b"".join(pieces).decode("utf-8", "replace")
    try:
        if is_view(text):
            return parse_view(text, LIMITS)
        tree = parse(text, LIMITS)
    except QueryError as error:
        refused = error
    else:
        return _shown_and_parsed_again(tree)
    assert 0 <= refused.position <= len(text)
    return str(refused)


def _shown_and_parsed_again(tree: Query) -> Query:
    wide = Limits(query_length=1 << 20, query_depth=1000, query_tests=100_000, query_values=100_000)
    assert parse(show(tree), wide) == tree
    canon = canonical(tree)
    assert canonical(parse(show(canon), wide)) == canon
    return tree


# The bridge: ZeroMQ's greeting and frames, the parts of its messages, and frames of an AMQP broker.

NULL = b"\x04\x26\x05READY\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0\0"
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48)
ZMTP = [
    GREETING + NULL + b"\x01\x04bind\x01\x02me\x00\x05a.b.#",
    GREETING + NULL + b"\x01\x04send\x01\x09amq.topic\x01\x01a" + zmtp.encode_frame(0, bytes(300)),
    GREETING + NULL + b"\x04\x07\x04PING\x00\x0ax",
    b"\xff" + bytes(7) + b"\x01\x7f\x01\x05" + b"\x00\x00" + b"\x00\x03abc",
    b"\x01\x00\x05\x00abcd",
]


def zeromq(pieces: list[bytes]) -> Any:
    protocol = zmtp.ServerProtocol(zmtp.MessageLimits(2000, 4000, 20), zmtp.NullMechanism())
    heard: list[Any] = []
    for piece in pieces:
        protocol.receive_data(piece)
        heard += protocol.events_received()
        while protocol.unfinished:
            heard += protocol.events_received()
        assert protocol.held <= 50_000, "memory without bounds"
    for each in heard:
        if isinstance(each, zmtp.Received):
            bridge_parts(list(each.parts))
    return heard, protocol.fault, protocol.close_expected()


def bridge_parts(parts: list[bytes]) -> Any:
    try:
        return repr(operations.parse(parts, 20))
    except MalformedError as error:
        return str(error)


def one_message(pieces: list[bytes]) -> Any:
    """A message of a ZeroMQ client, in MsgPack or as Erlang's record."""
    part = b"".join(pieces)
    try:
        if erlang_messages.is_erlang(part):
            payload, properties, fields = erlang_messages.unpack_record(part)
        else:
            payload, properties, fields = messages.unpack(part)
        return messages.to_amqp(properties, fields, "guest") + payload
    except MalformedError as error:
        return str(error)


def erlang_term(pieces: list[bytes]) -> Any:
    try:
        term = erlang_terms.decode(b"".join(pieces))
    except MalformedError as error:
        return str(error)
    return repr(term)


MESSAGES = [
    messages.pack(b"21.5", {"content_type": "text/plain", "priority": 4, "timestamp": 1.5}, {"a": 1, "b": [1, "x"]}),
    messages.pack(b"", {}, {}),
    erlang_messages.pack_record(b"21.5", "text/plain"),
    erlang_messages.record_from_amqp(messages.to_amqp({"content_type": "x"}, {"a": 1, "b": [True, None]}, "g"), b"hi"),
]


def deliveries(pieces: list[bytes]) -> Any:
    reader = Deliveries()
    return b"".join(map(reader.receive_data, pieces)), reader.left_out


AMQP = [publication(1, b"amq.topic", b"a.b", b"\0\0", b"21.5" * 10, 4096)]

TARGETS = {
    "msgpack": Target(READINGS, events(lambda: Stream(Bounds(length=4096)))),
    "link": Target(FRAMES, link),
    "mqtt": Target([*mqtt_seeds(V5), *mqtt_seeds(V3)], events(lambda: mqtt.ServerProtocol(LIMITS))),
    "http": Target(REQUESTS, http_requests),
    "websocket": Target(WEBSOCKET, both_frames),
    "grpc": Target(GRPC, grpc_calls),
    "query": Target(QUERIES, query, is_stream=False),
    "zeromq": Target(ZMTP, zeromq),
    "bridge_message": Target(MESSAGES, one_message, is_stream=False),
    "erlang": Target(MESSAGES[2:], erlang_term, is_stream=False),
    "amqp": Target(AMQP, deliveries),
}


def check(name: str, seed: int) -> None:
    """One input of one parser."""
    chance = random.Random(f"{name} {seed}")
    target = TARGETS[name]
    data = changed(chance, target.seeds)
    expected = repr(target.outcome([data]))  # as text: NaN is not equal to itself
    if not target.is_stream:
        return
    for pieces in _pieces(chance, data):
        assert repr(target.outcome(pieces)) == expected, f"cut into {[len(piece) for piece in pieces]}: {data!r}"


def _pieces(chance: random.Random, data: bytes) -> Iterable[list[bytes]]:
    if len(data) <= 2000:
        yield [data[at : at + 1] for at in range(len(data))]
    yield cut(chance, data)
