"""Lanes on the pump: how connections between nodes differ from those of clients."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from fumarole.cluster.identity import BEATS, DATA, Identity
from fumarole.cluster.lane import Lane
from fumarole.cluster.peer_link import LAST_WORDS, READ_BUFFER, PeerConnection, PeerLink
from fumarole.doors import flushing
from fumarole.doors import pump as pump_module
from fumarole.doors.flushing import flush
from fumarole.doors.pump import Pump
from fumarole.exchange.namespaces import Namespaces
from fumarole.exchange.node import Node
from fumarole.fastpath.hot_path import HotPath
from fumarole.protocols.cluster_protocol import Beat, Doors, LinkProtocol, Refusal
from tests.doors.fakes import FakeReader, FakeTransport

OUTBOX = 2_000
Accepted = tuple[PeerConnection, asyncio.StreamReader]
NOISE = b"GET / HTTP/1.1\r\n\r\n"


def link(hot_path: HotPath, name: str) -> PeerLink:
    node = Node(name, "0", namespaces=Namespaces(parts=hot_path.parts), parts=hot_path.parts)
    node.namespaces.join("default")
    return PeerLink(node, Identity(name, "test", "0", 1), make_reader=hot_path.peer_link_reader, outbox=OUTBOX)


class End:
    """One connection of a node, on a transport that does what it is told."""

    def __init__(self, of: PeerLink, address: str = "", lane: str = "", room: int = 1 << 30) -> None:
        self.connection = PeerConnection(of, address, lane)
        self.pump: Pump = self.connection.pump
        self.transport = FakeTransport(self.pump, room)
        self.pump.connection_made(self.transport)

    @property
    def lane(self) -> Lane:
        return self.connection.lane

    def receive(self, data: bytes) -> None:
        self.pump.get_buffer(-1)[: len(data)] = data
        self.pump.buffer_updated(len(data))

    def sent(self) -> bytes:
        sent, self.transport.taken = self.transport.taken, b""
        return sent


class Pair:
    """Two nodes, and the four connections between them."""

    def __init__(self, hot_path: HotPath) -> None:
        self.a, self.b = link(hot_path, "a"), link(hot_path, "b")
        self.ends: dict[tuple[str, str], tuple[End, End]] = {}
        """By the node that dials, and the lane: its end, and the other."""
        for dialing, dialed in ((self.a, self.b), (self.b, self.a)):
            for lane in (DATA, BEATS):
                name = dialing.node.name
                self.ends[name, lane] = End(dialing, f"address of {dialed.node.name}", lane), End(dialed)
        self.exchange()

    def exchange(self) -> None:
        """Bytes cross until no node has any more to send."""
        crossed = True
        while crossed:
            crossed = False
            for each in (self.a, self.b):
                flush(each.node.ready)
            for ends in self.ends.values():
                for near, far in (ends, ends[::-1]):
                    if data := near.sent():
                        far.receive(data)
                        crossed = True

    def all_of(self, name: str) -> list[End]:
        """The connections of one node."""
        return [ends[dialing != name] for (dialing, _), ends in self.ends.items()]


@pytest.fixture
async def pair(hot_path: HotPath) -> Pair:
    made = Pair(hot_path)
    assert [peer.is_settled() for each in (made.a, made.b) for peer in each.cluster.peers.values()] == [True, True]
    return made


async def test_a_refusal_leaves_and_then_the_connection_ends(hot_path: HotPath) -> None:
    end = End(link(hot_path, "a"))
    end.receive(NOISE)
    protocol = LinkProtocol(1024)
    protocol.receive_data(end.sent())
    assert isinstance(protocol.next_event(), Refusal)
    assert (end.transport.closed, end.transport.aborted) == (True, False)
    end.pump.tick(100.0)
    end.pump.tick(200.0)
    assert not end.transport.aborted


async def test_a_refusal_that_is_not_taken_has_a_deadline(hot_path: HotPath) -> None:
    end = End(link(hot_path, "a"), room=5)
    end.receive(NOISE)
    aborted = []
    for now in (100.0, 100.0 + LAST_WORDS, 100.1 + LAST_WORDS):
        end.pump.tick(now)
        aborted.append(end.transport.aborted)
    assert aborted == [False, False, True]


async def test_a_link_that_takes_nothing_is_cut(pair: Pair) -> None:
    """And with one connection of a lost peer all end, at once: what waits in them is of a time that is over (C4)."""
    peer = pair.a.cluster.peers["b"]
    near, _ = pair.ends["a", DATA]
    near.transport._room = 0
    for number in range(1_000):
        peer.say(Doors((f"127.0.0.1:{number}",)))
        near.pump.flush()
        if near.transport.aborted:
            break
    flush(pair.a.node.ready)
    assert "b" not in pair.a.cluster.peers
    assert [end.transport.aborted for end in pair.all_of("a")] == [True] * 4
    assert near.sent() == b""


async def test_a_peer_that_hangs_up_is_lost_at_once(pair: Pair) -> None:
    near, far = pair.ends["a", BEATS]
    assert not far.pump.eof_received()
    assert "a" not in pair.b.cluster.peers
    assert [end.transport.aborted for end in pair.all_of("b")] == [True] * 4
    near.pump.connection_lost(None)
    assert "b" not in pair.a.cluster.peers


async def test_a_link_that_closes_sends_nothing_more(pair: Pair) -> None:
    peer, (near, _) = pair.a.cluster.peers["b"], pair.ends["a", DATA]
    near.pump.close()
    near.pump.resume_writing()
    peer.say(Doors(()))
    flush(pair.a.node.ready)
    assert (near.sent(), near.transport.closed, near.transport.aborted) == (b"", True, False)


async def test_heartbeats_do_not_keep_the_loop_polling(pair: Pair) -> None:
    polls: list[str] = []
    pair.b.node.batch_done = lambda: polls.append("b")
    peer = pair.a.cluster.peers["b"]
    peer.lanes[True, BEATS].push(Beat(pair.a.cluster.now))
    pair.exchange()
    assert polls == []
    peer.say(Doors(()))
    pair.exchange()
    assert polls == ["b"]


async def test_a_long_batch_gives_way_and_is_read_as_before(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats have their turn. What a link brings is for many clients, so its reads do not get smaller."""
    _, end = pair.ends["a", DATA]
    clock = [pair.b.cluster.now]

    def tick() -> float:
        clock[0] += 0.1
        return clock[0]

    for module in (pump_module, flushing):
        monkeypatch.setattr(module, "monotonic", tick)
    for turns in (0, 2):
        reader = FakeReader(turns)
        end.pump._reader = reader
        end.receive(b"x")
        assert (end.transport.reading, len(end.pump.get_buffer(-1))) == (False, READ_BUFFER)
        while not end.transport.reading:  # noqa: ASYNC110 - the pump does not tell
            await asyncio.sleep(0)
        assert reader.turns == 0


@pytest.fixture
async def listening(hot_path: HotPath) -> AsyncIterator[PeerLink]:
    made = link(hot_path, "a")
    await made.open("127.0.0.1:0", ())
    yield made
    await made.close(1.0)


@pytest.fixture
async def accepted(listening: PeerLink) -> AsyncIterator[Accepted]:
    """A connection on a real socket, and what its other end hears."""
    host, _, port = listening.cluster.identity.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    while not listening._connections:  # noqa: ASYNC110 - the link does not tell
        await asyncio.sleep(0.01)
    (connection,) = listening._connections
    yield connection, reader
    writer.close()


async def test_the_kernel_gives_up_when_the_peer_is_silent(accepted: Accepted) -> None:
    connection, _ = accepted
    plain = connection.pump._transport.get_extra_info("socket")
    options = (socket.TCP_NODELAY, socket.TCP_USER_TIMEOUT)
    assert [plain.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [1, 2_000]


async def test_an_abort_discards_what_the_kernel_has(accepted: Accepted) -> None:
    connection, reader = accepted
    connection.pump.abort()
    with pytest.raises(ConnectionResetError):
        await reader.read()


async def test_a_close_does_not(accepted: Accepted) -> None:
    connection, reader = accepted
    connection.pump.close()
    assert await reader.read() == b""
