"""How the calls of one connection share it: room, clients that do not read, limits, and the end."""

from __future__ import annotations

import dataclasses

import pytest

from fumarole.core.limits import Limits
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.outbox import Overflow
from fumarole.fastpath.hot_path import HotPath
from fumarole.protocols.grpc import CONNECTION_WINDOW, STREAM_WINDOW, Bounds, GrpcServer
from fumarole.protocols.kubemq_pb2 import Event, EventReceive, Subscribe
from fumarole.sessions.kubemq_connection import MOST_UNREAD
from tests.desk import Desk
from tests.sessions.grpc_client import GrpcClient, GrpcDoor
from tests.sessions.test_kubemq_calls import events

OUTBOX = 100_000
BODY = b"x" * 1_000


def open_door(hot_path: HotPath, overflow: Overflow = Overflow.DROP_OLDEST, limits: Limits | None = None) -> GrpcDoor:
    rules = {"kubemq": NamespaceRules(overflow=overflow, outbox=OUTBOX)}
    return GrpcDoor(Desk(hot_path, limits, rules))


def publish(door: GrpcDoor, count: int, channel: str = "a.b") -> None:
    client = door.connect()
    many = [Event(EventID=str(n), ClientID="me", Channel=channel, Body=BODY) for n in range(count)]
    client.begin("SendEventsStream", *many)


def numbers(client: GrpcClient, stream: int) -> list[int]:
    return [int(event.EventID) for event in client.heard(stream, EventReceive)]


def test_a_receiver_without_a_window_gets_the_freshest(hot_path: HotPath) -> None:
    """D6: what it has no room for is dropped from its outbox; what was cut in two arrives whole."""
    door = open_door(hot_path)
    slow = door.connect()
    slow_stream = slow.begin("SubscribeToEvents", events())
    publish(door, 1_000)
    early = numbers(slow, slow_stream)
    assert early == list(range(len(early)))
    assert 50 < len(early) < 66
    slow.read(slow_stream, 1 << 24)
    late = numbers(slow, slow_stream)
    assert late == sorted(set(late))
    assert late[-90:] == list(range(910, 1_000))
    assert door.desk.counters("kubemq")["dropped"]["outbox full"] == 1_000 - len(early) - len(late)


def test_windows_of_one_byte(hot_path: HotPath) -> None:
    door = open_door(hot_path)
    client = door.connect()
    stream = client.begin("SubscribeToEvents", events())
    publish(door, 70)
    taken = len(numbers(client, stream))
    for _ in range(3_000):
        client.read(stream, 1)
    client.read(stream, 1 << 20)
    assert taken + len(numbers(client, stream)) == 70


def test_a_stream_of_data_alone_gets_its_windows_back(hot_path: HotPath) -> None:
    """At once: no other frame of the client has to come before, and no time has to pass."""
    client = open_door(hot_path).connect()
    stream = client.begin("SendEventsStream", end=False)
    event = Event(EventID="1", ClientID="me", Channel="a.b", Body=b"x" * 10_000)
    for _ in range(3 * CONNECTION_WINDOW // 10_000):
        client.say(stream, event)
    assert client.http.local_flow_control_window(stream) > STREAM_WINDOW // 2 - 20_000


def test_a_slow_receiver_is_cut_off_where_the_namespace_says_so(hot_path: HotPath) -> None:
    """The call ends, and the connection goes on."""
    door = open_door(hot_path, Overflow.DISCONNECT)
    client = door.connect()
    stream = client.begin("SubscribeToEvents", events())
    publish(door, 1_000)
    assert door.desk.counters("kubemq")["consumers"] == 0
    assert stream not in client.statuses  # half a message is on its way
    client.read(stream, 1 << 20)
    assert client.statuses[stream] == (8, "slow consumer: the outbox is full")
    assert door.desk.node.slow_consumers == 1
    assert not client.session.close_expected()


def test_calls_take_turns(hot_path: HotPath) -> None:
    door = open_door(hot_path)
    client = door.connect()
    client.http.increment_flow_control_window(1 << 24)
    client.exchange()
    streams = [client.begin("SubscribeToEvents", events(f"a.{number}")) for number in range(20)]
    for number in range(20):
        publish(door, 30, f"a.{number}")
    assert [len(numbers(client, stream)) for stream in streams] == [30] * 20


def test_a_client_that_reads_nothing_is_closed(hot_path: HotPath) -> None:
    """Answers cannot be dropped, so they are bounded."""
    door = open_door(hot_path)
    client = door.connect()
    client.reads = False
    wrong = [Event(EventID="e" * 4_000, ClientID="me", Channel="a.b")] * 15
    stream = client.begin("SendEventsStream", end=False)
    for _ in range(2 * MOST_UNREAD // 60_000):
        if client.session.close_expected():
            break
        client.http.remote_settings.initial_window_size = 1 << 30
        data = b"".join(b"\0" + len(raw).to_bytes(4) + raw for raw in (each.SerializeToString() for each in wrong))
        client.session.receive_data(_frames(stream, data))
        client.flush()
    assert client.session.close_expected()


def _frames(stream: int, data: bytes) -> bytes:
    pieces = [data[at : at + 16_000] for at in range(0, len(data), 16_000)]
    return b"".join(len(each).to_bytes(3) + b"\0\0" + stream.to_bytes(4) + each for each in pieces)


def test_calls_are_limited_like_connections(hot_path: HotPath) -> None:
    door = open_door(hot_path, limits=dataclasses.replace(Limits(), connections_per_address=3))
    client = door.connect()
    first = [client.begin("SubscribeToEvents", events()) for _ in range(3)]
    refused = client.begin("SubscribeToEvents", events())
    assert client.statuses == {refused: (8, "too many calls are under way")}
    client.http.reset_stream(first[0])
    client.exchange()
    again = client.begin("SubscribeToEvents", events())
    assert again not in client.statuses


def test_draining(hot_path: HotPath) -> None:
    """What waits for receivers leaves first, each call is told, and new ones are refused."""
    door = open_door(hot_path)
    client = door.connect()
    stream = client.begin("SubscribeToEvents", events())
    publish(door, 90)
    client.session.drain()
    client.exchange()
    assert not client.session.close_expected()
    late = client.begin("SubscribeToEvents", events())
    assert client.statuses == {late: (14, "Error 409: server is in shutdown mode")}
    client.read(stream, 1 << 20)
    assert numbers(client, stream) == list(range(90))
    assert client.statuses[stream] == (14, "Error 409: server is in shutdown mode")
    assert client.session.close_expected()


def test_silent_connections_end(hot_path: HotPath) -> None:
    """One that never greets, one that answers no ping, one without calls."""
    limits = Limits()
    door = open_door(hot_path, limits=limits)
    silent = door.connect()
    silent.session.tick(1.0)
    for turn in range(1, 4):
        assert not silent.session.close_expected()
        silent.session.tick(turn * (limits.idle + 1.0))
    silent.session.tick(5 * (limits.idle + 1.0))
    assert silent.session.close_expected()
    idle = door.connect()
    now = 0.0
    while not idle.session.close_expected() and now < 20 * limits.idle:
        now += limits.idle / 2
        idle.session.tick(now)
        idle.flush()
        idle.exchange()
    assert 5 * limits.idle < now < 6.5 * limits.idle


def test_a_greeting_must_come_in_time(hot_path: HotPath) -> None:
    from fumarole.sessions.kubemq_connection import KubemqConnection
    from fumarole.sessions.stream import RemoteAddress

    class Owner:
        def flush(self) -> None: ...

    door = open_door(hot_path)
    session = KubemqConnection(door.desk.node, RemoteAddress("", 0, ""), 0.0, Owner(), door.surroundings)
    session.receive_data(b"PRI * HTTP/2.0")
    session.tick(door.desk.node.limits.handshake + 1)
    assert session.close_expected()


def test_work_is_put_off() -> None:
    """Frames that h2 looks at come in slices, however many are there."""
    server = GrpcServer(Bounds(1_000, 1_000, 100, 1_000))
    server.receive_data(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0" + b"\0\0\4\x08\0\0\0\0\0\0\0\0\1" * 1_000
    )
    slices = 0
    while server.events_received():
        slices += 1
    assert slices > 10


@pytest.mark.parametrize("kind", [Subscribe.Events, Subscribe.Queries])
def test_what_waits_is_forgotten_with_its_connection(hot_path: HotPath, kind: int) -> None:
    door = open_door(hot_path)
    client = door.connect()
    client.begin("SubscribeToEvents" if kind == Subscribe.Events else "SubscribeToRequests", _asked(kind))
    publish(door, 500)
    client.session.close()
    assert door.desk.counters("kubemq")["consumers"] == 0
    assert client.session.calls == {}


def _asked(kind: int) -> Subscribe:
    asked = events()
    asked.SubscribeTypeData = kind  # type: ignore[assignment]
    return asked
