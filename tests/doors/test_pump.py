import asyncio
import gc
import random
import weakref
from typing import Any

import pytest

from fumarole.doors import flushing
from fumarole.doors import pump as pump_module
from fumarole.doors.closing import LAST_WORDS, LINGER
from fumarole.doors.flushing import FEW_OF_MUCH, MOST_MEANWHILE
from fumarole.doors.nats import NatsDoor
from fumarole.doors.pump import Pump
from fumarole.doors.stream import WRITE_CHUNK
from fumarole.doors.turn_limit import MOMENT, TurnLimit
from fumarole.doors.turn_taking import TURN
from fumarole.exchange.permissions import User
from fumarole.fastpath.hot_path import HotPath
from fumarole.sessions.stream import PREPARING
from tests.desk import Desk
from tests.doors.fakes import FakeDoor, FakeReader, FakeTransport

CONNECT = b'CONNECT {"verbose":false}\r\n'
FLOOD = b"SUB a 1\r\nSUB a 2\r\nSUB a 3\r\n" + b"PUB a 1000\r\n%b\r\n" % bytes(1000) * 50


async def test_bytes_in_and_bytes_out(hot_path: HotPath) -> None:
    door = FakeDoor(hot_path)
    door.connect()
    door.say(CONNECT + b"SUB a 1\r\nPUB a 2\r\nhi\r\nPI")
    assert door.heard() == b"MSG a 1 2\r\nhi\r\n"
    door.say(b"NG\r\n")
    assert door.heard() == b"PONG\r\n"


async def test_who_publishes_much_to_many_is_not_read_until_that_has_left(hot_path: HotPath) -> None:
    """H1: their outboxes are flushed in slices, and must not fill meanwhile."""
    door = FakeDoor(hot_path)
    door.connect()
    consumers = [door.desk.connect().say("SUB a 1\r\n") for _ in range(2 * FEW_OF_MUCH)]
    for consumer in consumers:
        consumer.hears()
    door.desk.node.ready.clear()
    door.say(CONNECT + b"PUB a 1000\r\n%b\r\n" % bytes(1000) * 20)
    assert not door.transport.reading
    assert len(door.desk.node.late) == len(consumers) + 1
    for _ in range(1000):
        await asyncio.sleep(0)
        if door.transport.reading:
            break
    assert not door.desk.node.late
    assert {consumer.hears().count(b"MSG a 1 1000") for consumer in consumers} == {20}


async def test_what_the_peer_does_not_take_waits_in_the_outbox(hot_path: HotPath) -> None:
    """And not in the transport, which has no bound."""
    door = FakeDoor(hot_path, room=2000)
    session = door.connect()
    door.say(CONNECT + FLOOD)
    assert session.outbox.size > 0
    assert len(door.transport._waiting) <= WRITE_CHUNK
    door.transport.take(1 << 20)
    assert session.outbox.size == 0
    assert door.heard().count(b"MSG a ") == 150


async def test_a_refused_client_hears_why_and_then_nothing(hot_path: HotPath) -> None:
    door = FakeDoor(hot_path)
    door.connect()
    door.say(CONNECT + b"FOO\r\nPING\r\n")
    assert door.heard() == b"-ERR 'Unknown Protocol Operation'\r\n"
    assert door.transport.ended
    door.say(b"PING\r\n")
    assert door.heard() == b""


class Framing:
    """One whose end is said once."""

    def __init__(self) -> None:
        self.end = b"end"

    def wrap(self, data: bytes) -> bytes:
        return data

    def last(self) -> bytes:
        said, self.end = self.end, b""
        return said


async def test_nothing_is_written_behind_the_end_of_a_framing(hot_path: HotPath) -> None:
    door = FakeDoor(hot_path)
    session = door.connect()
    door.pump.begin(session, session, framing=Framing())
    session.close()
    for _ in range(2):
        door.pump.flush()
    assert door.transport.taken.endswith(b"end")
    assert door.transport.ended


async def test_the_last_words_come_behind_all_others(hot_path: HotPath) -> None:
    door = FakeDoor(hot_path, room=2000)
    door.connect()
    door.say(CONNECT + FLOOD + b"FOO\r\n")
    assert not door.transport.ended
    door.transport.take(1 << 20)
    assert door.heard().endswith(b"\r\n-ERR 'Unknown Protocol Operation'\r\n")
    assert door.transport.ended


async def test_who_does_not_take_them_is_cut_off(hot_path: HotPath) -> None:
    door = FakeDoor(hot_path, room=2000)
    session = door.connect()
    door.say(CONNECT + FLOOD + b"FOO\r\n")
    assert session.close_expected()
    door.pump.tick(100.0)
    door.pump.tick(100.0 + LAST_WORDS)
    assert not door.transport.aborted
    door.pump.tick(100.1 + LAST_WORDS)
    assert door.transport.aborted


async def test_the_door_may_give_more_time(hot_path: HotPath) -> None:
    """A broker that stops gives its own time to those who still have something to take."""
    door = FakeDoor(hot_path, room=2000)
    session = door.connect()
    door.say(CONNECT + FLOOD)
    session.close()
    door.pump.closing.by = 130.0
    door.pump.tick(101.0 + LAST_WORDS)
    assert not door.transport.aborted
    door.pump.tick(131.0)
    assert door.transport.aborted


async def test_who_has_taken_all_has_a_moment_to_close_too(hot_path: HotPath) -> None:
    door = FakeDoor(hot_path)
    door.connect()
    door.say(CONNECT + b"FOO\r\n")
    assert door.transport.ended
    assert not door.transport.closed
    door.pump.tick(100.0)
    door.pump.tick(100.0 + LINGER)
    assert not door.transport.aborted
    door.pump.tick(100.1 + LINGER)
    assert door.transport.aborted


async def test_when_both_have_ended_it_is_closed(hot_path: HotPath) -> None:
    door = FakeDoor(hot_path)
    door.connect()
    door.say(CONNECT + b"SUB a 1\r\nPUB a 0\r\n\r\n")
    assert door.pump.eof_received()
    assert door.heard() == b"MSG a 1 0\r\n\r\n"
    assert door.transport.closed
    assert not door.transport.aborted


async def test_half_a_tls_connection_cannot_be(hot_path: HotPath) -> None:
    door = FakeDoor(hot_path, half_close=False)
    door.connect()
    assert not door.pump.eof_received()


async def test_a_lost_connection_is_lost_once(hot_path: HotPath) -> None:
    door = FakeDoor(hot_path, room=2000)
    session = door.connect()
    door.say(CONNECT + FLOOD)
    door.pump.connection_lost(None)
    door.pump.connection_lost(ConnectionResetError())
    assert door.disconnections == 1
    assert session.outbox.size == 0
    assert door.desk.counters()["consumers"] == 0


async def test_before_tls_nothing_leaves_and_nothing_is_listened_to(hot_path: HotPath) -> None:
    """A client may send its greeting with the end of its handshake, before the door has the encrypted transport."""
    door = FakeDoor(hot_path)
    door.connect()
    door.heard()
    door.pump.upgrade()
    door.say(CONNECT + b"PI")
    door.say(b"NG\r\n")
    assert door.heard() == b""
    encrypted = FakeTransport(door.pump, half_close=False)
    door.pump.upgraded(encrypted)
    assert (door.heard(), encrypted.taken) == (b"", b"PONG\r\n")


async def test_nothing_is_read_while_a_claim_is_looked_at(hot_path: HotPath) -> None:
    door = FakeDoor(hot_path, authentication=True)
    session = door.connect()
    door.heard()
    door.say(b'CONNECT {"user":"ada","pass":"x","verbose":false}\r\nPING\r\n')
    assert (door.authentications, door.transport.reading, door.heard()) == (1, False, b"")
    session.admit(User("ada", "default"))
    door.pump.admitted()
    assert (door.transport.reading, door.heard()) == (True, b"PONG\r\n")


@pytest.mark.parametrize("before", [0, 3000])
async def test_what_came_with_a_claim_is_work_for_many_turns(hot_path: HotPath, before: int) -> None:
    """Who is let in gets no more time at once than others, and what it said is done in its order."""
    door = FakeDoor(hot_path, authentication=True)
    session = door.connect()
    door.heard()
    subscriptions = b"".join(b"SUB a %d\r\n" % sid for sid in range(1000))
    messages = b"".join(b"PUB a 2\r\n%02d\r\n" % number for number in range(100))
    door.say(b"PING\r\n" * before + b'CONNECT {"user":"ada","verbose":false}\r\n' + subscriptions + messages + b"PUB ")
    while session.claim is None:  # noqa: ASYNC110 - the pump does not tell
        await asyncio.sleep(0)
    assert door.heard() == b"PONG\r\n" * before
    session.admit(User("ada", "default"))
    door.pump.admitted()
    heard = [door.heard()]
    while not door.transport.reading:
        await asyncio.sleep(0)
        heard.append(door.heard())
    assert max(each.count(b"MSG") for each in heard) <= 50_000
    door.say(b"a 2\r\nxx\r\nPING\r\n")
    said = [*(b"%02d" % number for number in range(100)), b"xx"]
    expected = b"".join(b"MSG a %d 2\r\n%b\r\n" % (sid, each) for each in said for sid in range(1000))
    assert b"".join(heard) + door.heard() == expected + b"PONG\r\n"


async def test_others_get_their_turn(hot_path: HotPath) -> None:
    """What a reader has put off is gone on with from the loop, and nothing more is read until then."""
    door = FakeDoor(hot_path)
    reader = FakeReader(turns=3)
    door.connect(reader)
    door.say(b"x")
    turns = []
    while not door.transport.reading:
        turns.append(reader.turns)
        await asyncio.sleep(0)
    assert turns == [3, 2, 1]
    assert reader.turns == 0


async def test_a_connection_that_takes_long_gives_way(hot_path: HotPath, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def tick() -> float:
        clock[0] += 1.0
        return clock[0]

    monkeypatch.setattr(pump_module, "monotonic", tick)
    monkeypatch.setattr(flushing, "monotonic", tick)
    door = FakeDoor(hot_path)
    door.connect(FakeReader(turns=0))
    before = len(door.pump.get_buffer(-1))
    door.say(b"x")
    assert not door.transport.reading
    await asyncio.sleep(0)
    assert door.transport.reading
    assert len(door.pump.get_buffer(-1)) < before


async def test_short_batches_add_up_to_a_turn(hot_path: HotPath, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop may read one connection many times before it comes to the next. Reads stay as large as they are."""
    clock = [0.0]

    def tick() -> float:
        clock[0] += 0.4 * TURN
        return clock[0]

    monkeypatch.setattr(pump_module, "monotonic", tick)
    monkeypatch.setattr(flushing, "monotonic", tick)
    door = FakeDoor(hot_path)
    door.connect(FakeReader(turns=0))
    size = len(door.pump.get_buffer(-1))
    reading = []
    for _ in range(6):
        door.say(b"x")
        reading.append(door.transport.reading)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert reading == [True, True, False] * 2
    assert len(door.pump.get_buffer(-1)) == size


async def test_what_was_put_off_comes_before_the_end(hot_path: HotPath) -> None:
    door = FakeDoor(hot_path)
    reader = FakeReader(turns=2)
    door.connect(reader)
    door.say(b"x")
    door.pump.eof_received()
    assert reader.turns == 0
    await asyncio.sleep(0)


async def test_a_message_to_very_many_is_work_for_many_turns(hot_path: HotPath) -> None:
    """Both engines put off the rest of a buffer when there is much to do, and lose nothing of it, nor its order."""
    door = FakeDoor(hot_path)
    session = door.connect()
    consumers = [door.desk.connect() for _ in range(10)]
    for number, consumer in enumerate(consumers):
        consumer.say("".join(f"SUB a {sid}\r\n" for sid in range(3000 + number)))
    door.say(CONNECT + b"SUB b 1\r\n" + b"".join(b"PUB a 1\r\n%d\r\nPUB b 1\r\n%d\r\n" % (n, n) for n in range(5)))
    turns = 0
    while not door.transport.reading:
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 2
    assert door.heard() == b"".join(b"MSG b 1 1\r\n%d\r\n" % n for n in range(5))
    for number, consumer in enumerate(consumers):
        expected = b"".join(b"MSG a %d 1\r\n%d\r\n" % (sid, n) for n in range(5) for sid in range(3000 + number))
        assert consumer.hears() == expected
    assert not session.close_expected()


async def test_very_many_subscriptions_are_work_for_many_turns(hot_path: HotPath) -> None:
    """A hundred or so are about a millisecond, and then it is the others' turn."""
    door = FakeDoor(hot_path)
    door.connect()
    door.say(CONNECT + b"".join(b"SUB a.%d %d\r\n" % (sid, sid) for sid in range(2000)) + b"PING\r\n")
    turns = 0
    while not door.transport.reading:
        turns += 1
        await asyncio.sleep(0)
    assert 2000 / 200 <= turns <= 2000 / 50
    assert door.heard() == b"PONG\r\n"


async def test_a_connection_that_is_over_leaves_nothing_for_the_collector(hot_path: HotPath) -> None:
    """With very many consumers about, a search for cycles would stop everything for seconds."""
    door = NatsDoor(Desk(hot_path).node, hot_path.nats_reader)
    pumps: list[weakref.ref[Pump]] = []
    connected = door.connected

    def noted(pump: Pump, transport: asyncio.Transport) -> None:
        pumps.append(weakref.ref(pump))
        connected(pump, transport)

    door.connected = noted  # type: ignore[method-assign]
    gc.disable()
    try:
        await door.open("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*door.address)
        writer.write(b'CONNECT {"verbose":false}\r\nSUB a.> 1\r\nPUB a.b 1\r\nx\r\nPING\r\n')
        await reader.readuntil(b"PONG\r\n")
        writer.close()
        await writer.wait_closed()
        await door.drain(5)
        for _ in range(10):
            await asyncio.sleep(0)
        assert [pump() for pump in pumps] == [None]
    finally:
        gc.enable()


def over(door: FakeDoor) -> None:
    """This turn of the loop is over for clients."""
    now = [0.0]
    door.pump._limit = limit = TurnLimit(clock=lambda: now[0])
    limit.look()
    now[0] += 2 * MOMENT
    limit.look()


async def turns() -> None:
    """Enough of them for what was put off, also where a slow machine makes the connection give way."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_when_the_turn_is_over_a_batch_is_put_off(hot_path: HotPath) -> None:
    door = FakeDoor(hot_path)
    door.connect()
    door.say(CONNECT + b"SUB a 1\r\n")
    over(door)
    door.say(b"PUB a 2\r\nhi\r\nPI")
    assert (door.heard(), door.transport.reading) == (b"", False)
    await turns()
    assert (door.heard(), door.transport.reading) == (b"MSG a 1 2\r\nhi\r\n", True)
    door.say(b"NG\r\n")
    assert door.heard() == b"PONG\r\n"


class Unpredictable(FakeReader):
    """Puts off a part of some batches."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(0)
        self._chance = chance

    def receive_data(self, data: Any) -> None:
        assert not self.unfinished
        super().receive_data(data)
        self.turns = self._chance.choice([0, 0, 2])


@pytest.mark.parametrize("seed", range(10))
async def test_every_byte_comes_once_and_in_order_however_many_turns_are_over(hot_path: HotPath, seed: int) -> None:
    chance = random.Random(seed)
    door = FakeDoor(hot_path)
    reader = Unpredictable(chance)
    door.connect(reader)
    said = chance.randbytes(20_000)
    at = 0
    while at < len(said):
        if chance.random() < 0.5:
            over(door)
        part = said[at : at + chance.randint(1, 1_000)]
        door.say(part)
        at += len(part)
        await turns()
        assert door.transport.reading
    assert b"".join(reader.received) == said


async def test_a_batch_that_waits_for_another_turn_comes_before_the_end(hot_path: HotPath) -> None:
    """TLS reports both in one read."""
    door = FakeDoor(hot_path, half_close=False)
    door.connect()
    door.say(CONNECT + b"SUB a 1\r\n")
    over(door)
    door.say(b"PUB a 2\r\nhi\r\n")
    door.pump.eof_received()
    assert door.heard() == b"MSG a 1 2\r\nhi\r\n"
    await asyncio.sleep(0)
    assert door.heard() == b""


async def test_a_connection_that_has_ended_meanwhile_takes_in_nothing(hot_path: HotPath) -> None:
    door = FakeDoor(hot_path)
    reader = FakeReader(0)
    door.connect(reader)
    over(door)
    door.say(b"PING\r\n")
    door.transport.close()
    door.pump.connection_lost(None)
    await asyncio.sleep(0)
    assert reader.received == []
    assert not door.transport.reading


async def test_what_came_before_tls_had_begun_is_kept_when_the_turn_is_over(hot_path: HotPath) -> None:
    door = FakeDoor(hot_path)
    reader = FakeReader(0)
    door.connect(reader)
    door.pump.upgrade()
    door.say(b"PI")
    over(door)
    door.say(b"NG\r\n")
    door.pump.upgraded(door.transport)
    assert reader.received == [b"PING\r\n"]


async def test_what_came_before_tls_is_not_taken_for_tls_at_its_end(hot_path: HotPath) -> None:
    door = FakeDoor(hot_path)
    reader = FakeReader(0)
    door.connect(reader)
    door.pump.upgrade()
    door.say(b"PING\r\n")
    door.pump.eof_received()
    assert reader.received == []


async def test_a_batch_that_was_put_off_waits_until_a_claim_is_verified(hot_path: HotPath) -> None:
    door = FakeDoor(hot_path)
    reader = FakeReader(0)
    session = door.connect(reader)
    over(door)
    door.say(b"PING\r\n")
    session.claim = PREPARING
    await turns()
    assert reader.received == []
    session.claim = None
    door.pump.admitted()
    await turns()
    assert (reader.received, door.transport.reading) == ([b"PING\r\n"], True)


async def test_all_bytes_of_a_batch_in_pieces_count(hot_path: HotPath) -> None:
    """However few its pieces are, its connection stands in line at the end: large messages must not fill outboxes."""
    door, reader = FakeDoor(hot_path), FakeReader(2)
    door.connect(reader)
    late, consumers = door.desk.node.late, [door.desk.connect() for _ in range(16)]
    door.desk.node.ready.clear()
    late.extend(consumers)
    door.say(bytes(MOST_MEANWHILE + 1))
    assert len(late) == 16
    for _ in range(2):
        assert not door.transport.reading
        await asyncio.sleep(0)
    assert (reader.turns, len(late), door.transport.reading) == (0, 17, False)
    for _ in range(10):
        await asyncio.sleep(0)
    assert (len(late), door.transport.reading) == (0, True)
