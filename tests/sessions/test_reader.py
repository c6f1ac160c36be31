"""How a compiled reader and the session or lane behind it share the bytes and the work of a connection."""

from collections.abc import Callable
from itertools import pairwise

import msgpack
import pytest

from fumarole.cluster.cluster import Cluster
from fumarole.cluster.identity import NONCE_BYTES, Identity
from fumarole.cluster.lane import Lane
from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled
from fumarole.protocols.cluster_protocol import Hello, frame
from fumarole.protocols.stream import Data
from fumarole.sessions.msgpack import MsgPackSession
from fumarole.sessions.nats import NatsSession
from fumarole.sessions.reader import Fallback
from fumarole.sessions.stream import RemoteAddress, State
from tests.desk import Desk

SENSOR = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"


class Owner:
    """Of an outbox and a network: nothing leaves."""

    def flush(self) -> None: ...
    def adopt(self, outbox: object) -> None: ...
    def dial(self, address: str, lane: str) -> None: ...


class Observed(NatsSession):
    """A session that remembers what its reader does with it."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk.node, RemoteAddress("", 0, ""), desk.now, Owner())
        self.asked: list[object] = []

    def receive_data(self, data: Data) -> None:
        self.asked.append(bytes(data))
        super().receive_data(data)

    def wanted(self) -> int:
        self.asked.append(super().wanted())
        return super().wanted()

    def reclaim(self) -> bytes:
        self.asked.append("reclaim")
        return super().reclaim()


def test_half_an_operation_there_and_back() -> None:
    """The example in sessions/reader.py."""
    hot_path = compiled()
    assert hot_path is not None
    assert hot_path.nats_reader is not None
    desk = Desk(hot_path)
    consumer = desk.connect()
    consumer.say("SUB > 1\r\n")
    session = Observed(desk)
    reader = hot_path.nats_reader(session)
    reader.receive_data(b'CONNECT {"verbose":false}\r\n')
    session.outbox.take()
    session.asked.clear()

    reader.receive_data(b"PUB a 2\r\nhi\r\npub  b 5\r\nhe")
    assert session.asked == [b"pub  b 5\r\n", 7, "reclaim"]
    session.asked.clear()
    reader.receive_data(b"ll")
    assert session.asked == []
    reader.receive_data(b"o\r\nPING\r\n")
    assert session.asked == [b"pub  b 5\r\n", 7, b"hello\r\n"]
    assert consumer.hears() == b"MSG a 1 2\r\nhi\r\nMSG b 1 5\r\nhello\r\n"
    assert session.outbox.take() == b"PONG\r\n"


def nats_session(desk: Desk) -> Fallback:
    return NatsSession(desk.node, RemoteAddress("", 0, ""), desk.now, Owner())


def msgpack_session(desk: Desk) -> Fallback:
    return MsgPackSession(desk.node, RemoteAddress("", 0, ""), desk.now, Owner(), "default")


def lane(desk: Desk) -> Fallback:
    cluster = Cluster(desk.node, Identity("here", "test", "0", 1), Owner(), lambda: bytes(NONCE_BYTES), desk.now)
    return Lane(cluster, Owner())


def hello() -> bytes:
    said: Hello = Identity("there", "test", "0", 1).hello("data", bytes(NONCE_BYTES))
    return frame(said)


OPERATIONS: list[tuple[Callable[[Desk], Fallback], bytes]] = [
    (nats_session, b"PUB a 5\r\nhello\r\n"),
    (nats_session, b"HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"),
    (nats_session, b"PING\r\n"),
    (msgpack_session, msgpack.packb([SENSOR, {"Room": "410"}, 21.5])),
    (msgpack_session, msgpack.packb([SENSOR, {}, 21.5])),
    (lane, hello()),
]


@pytest.mark.parametrize(("make", "operation"), OPERATIONS)
def test_what_is_reclaimed_was_never_given(make: Callable[[Desk], Fallback], operation: bytes) -> None:
    """However often half of an operation is given and taken back, all of it then means what it always does."""
    straight, tried = make(Desk(PLAIN)), make(Desk(PLAIN))
    for end in range(1, len(operation)):
        tried.receive_data(operation[:end])
        wanted = tried.wanted()
        assert wanted <= len(operation) - end
        if b"\n" in operation[:end]:
            assert wanted == len(operation) - end, "a line with a payload says it all"
        assert tried.reclaim() == operation[:end]
        assert (tried.wanted(), tried.reclaim()) == (0, b"")
    for fallback in (straight, tried):
        fallback.receive_data(operation)
        assert fallback.spent > 0
        assert not fallback.unfinished
        assert fallback.state is not State.CLOSED
    assert tried.outbox.take() == straight.outbox.take()
    assert tried.spent == straight.spent


CONSUMERS = 2_000
PUBLISHES = 100
AT_ONCE = 20_000
"""Messages: compiled, two milliseconds or so."""


@pytest.mark.parametrize("verb", ["PUB", "pub"])
def test_a_turn_is_bounded_by_the_messages_that_leave(hot_path: HotPath, verb: str) -> None:
    """L1: in the usual spelling, and in one that a compiled reader hands over."""
    desk = Desk(hot_path)
    consumer, publisher = desk.connect(), desk.connect()
    consumer.say("".join(f"SUB a {number}\r\n" for number in range(CONSUMERS)))
    (exchange,) = desk.node.namespaces
    turns = [exchange.counters.routed]
    publisher.reader.receive_data(f"{verb} a 0\r\n\r\n".encode() * PUBLISHES)
    turns.append(exchange.counters.routed)
    while publisher.reader.unfinished:
        publisher.reader.go_on()
        turns.append(exchange.counters.routed)
    assert turns[-1] == CONSUMERS * PUBLISHES
    assert max(after - before for before, after in pairwise(turns)) <= AT_ONCE + CONSUMERS
