"""Who may come in, as the door handles it: claims are looked at one after another, in threads, and fail closed.

And who may stay: peers that are gone without a word are let go.
"""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable
from itertools import pairwise

import pytest

from fumarole.core.limits import Limits
from fumarole.doors import login_queue, stream
from fumarole.doors.logins import THREADS, Logins
from fumarole.doors.msgpack import MsgPackDoor
from fumarole.doors.nats import NatsDoor
from fumarole.doors.pump import Pump
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.permissions import User
from fumarole.exchange.producers import EXPIRE_AT_ONCE
from fumarole.fastpath.hot_path import PLAIN, HotPath
from fumarole.sessions.stream import KeyProof
from tests.desk import Desk

ADA = User("ada", "default")
VIOLATION = b"-ERR 'Authorization Violation'\r\n"


class Guard:
    """Users as the test wants them."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.threads: set[int] = set()
        self.find: Callable[[str, str], User | None] = lambda _, password: ADA if password == "right" else None

    def by_token(self, token: str) -> User | None:
        return ADA if token == "x" else None

    def by_key(self, proof: KeyProof) -> User | None:
        return None

    def named(self, name: str) -> tuple[User, str] | None:
        return None

    def digest(self, user: str, password: str) -> bytes:
        return f"{user}\0{password}".encode()

    def recall(self, digest: bytes) -> User | None:
        return None

    def remember(self, digest: bytes, user: User) -> None:
        pass

    def check(self, user: str, password: str) -> User | None:
        self.seen.append((user, password))
        self.threads.add(threading.get_ident())
        return self.find(user, password)


@pytest.fixture
def guard() -> Guard:
    return Guard()


@pytest.fixture
async def door(hot_path: HotPath, guard: Guard) -> AsyncIterator[NatsDoor]:
    desk = Desk(hot_path, Limits(handshake=1.0), authentication=True)
    opened = NatsDoor(desk.node, hot_path.nats_reader, logins=Logins(guard))
    await opened.open("127.0.0.1", 0)
    yield opened
    await opened.drain(1.0)


async def login(door: NatsDoor, said: str) -> bytes:
    """What a client hears behind INFO, until it is refused or answered."""
    reader, writer = await asyncio.open_connection(*door.address)
    await reader.readline()
    writer.write(f'CONNECT {{"verbose":false,{said}}}\r\nPING\r\n'.encode())
    heard = await reader.readline()
    writer.close()
    return heard


async def test_the_right_and_the_wrong(door: NatsDoor, guard: Guard) -> None:
    assert await login(door, '"user":"ada","pass":"right"') == b"PONG\r\n"
    assert await login(door, '"user":"ada","pass":"wrong"') == VIOLATION
    assert threading.get_ident() not in guard.threads


async def test_a_token_does_not_wait_for_passwords(door: NatsDoor, guard: Guard) -> None:
    release = threading.Event()

    def find(user: str, password: str) -> User | None:
        release.wait(10)
        return ADA

    guard.find = find
    waiting = [asyncio.create_task(login(door, f'"user":"{n}","pass":"x"')) for n in range(5)]
    assert await login(door, '"auth_token":"x"') == b"PONG\r\n"
    release.set()
    assert set(await asyncio.gather(*waiting)) == {b"PONG\r\n"}


async def test_the_clock_of_the_handshake_stands_while_a_password_is_verified(door: NatsDoor, guard: Guard) -> None:
    release = threading.Event()

    def find(user: str, password: str) -> User | None:
        release.wait(10)
        return ADA

    guard.find = find
    waiting = [asyncio.create_task(login(door, f'"user":"{n}","pass":"x"')) for n in range(5)]
    await asyncio.sleep(2.0)  # twice the time that the handshake has
    release.set()
    assert set(await asyncio.gather(*waiting)) == {b"PONG\r\n"}


async def test_too_many_at_once_are_refused_and_hear_why(
    door: NatsDoor, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_queue, "MOST_WAITING_PER_ADDRESS", 3)
    release = threading.Event()

    def find(user: str, password: str) -> User | None:
        release.wait(10)
        return ADA

    guard.find = find
    logins = [asyncio.create_task(login(door, f'"user":"{n}","pass":"x"')) for n in range(8)]
    done, _ = await asyncio.wait(logins, return_when=asyncio.FIRST_COMPLETED)
    release.set()
    heard = await asyncio.gather(*logins)
    refused = f"-ERR '{stream.TOO_MANY_LOGINS}'\r\n".encode()
    assert heard.count(refused) == 8 - THREADS - 3
    assert heard.count(b"PONG\r\n") == THREADS + 3
    assert len(done) >= 1


async def test_a_check_that_fails_lets_nobody_in(door: NatsDoor, guard: Guard) -> None:
    """Hazard 6: failing open."""

    def find(user: str, password: str) -> User | None:
        raise OSError("the user file is gone")

    guard.find = find
    failures: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    assert await login(door, '"user":"ada","pass":"right"') == VIOLATION
    assert await login(door, '"auth_token":"right"') == VIOLATION


async def test_without_a_check_nobody_gets_in(hot_path: HotPath) -> None:
    desk = Desk(hot_path, authentication=True)
    door = NatsDoor(desk.node, hot_path.nats_reader)
    await door.open("127.0.0.1", 0)
    assert await login(door, '"user":"ada","pass":"right"') == VIOLATION
    await door.drain(1.0)


@pytest.mark.parametrize(("outbox", "size"), [(4 << 20, 128), (512 << 10, 128), (511 << 10, 64), (10_000, 64)])
def test_where_outboxes_are_small_less_is_read_at_once(outbox: int, size: int) -> None:
    """A consumer that keeps up gets all of a batch, because it fits its outbox."""
    for node in (
        Desk(PLAIN, Limits(outbox=outbox)).node,
        Desk(PLAIN, rules={"lab": NamespaceRules(outbox=outbox)}).node,
    ):
        assert len(stream.client_policies(node).read_size.space) == size * 1024


@pytest.mark.parametrize(("idle", "seconds"), [(0.3, 1), (60.0, 60), (1e9, 32_767)], ids=["short", "usual", "for ever"])
async def test_the_kernel_asks_for_signs_of_life(hot_path: HotPath, idle: float, seconds: int) -> None:
    """L2: a sensor that has lost its power does not keep its connection, whatever its protocol can ask."""
    node = Desk(hot_path, Limits(idle=idle)).node
    for door in (
        NatsDoor(node, hot_path.nats_reader),
        MsgPackDoor(node, hot_path.msgpack_reader, "default", None, None),
    ):
        await door.open("127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*door.address)
        while not door._pumps:  # noqa: ASYNC110 - the door does not tell
            await asyncio.sleep(0.01)
        (pump,) = door._pumps
        accepted = pump._transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert [accepted.getsockopt(socket.IPPROTO_TCP, each) for each in options] == [seconds, seconds, 2]
        writer.close()
        await door.drain(1.0)


async def test_a_system_without_some_of_the_options(hot_path: HotPath, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT"):
        monkeypatch.delattr(socket, name)
    door = NatsDoor(Desk(hot_path).node, hot_path.nats_reader)
    await door.open("127.0.0.1", 0)
    assert door._server is not None
    (listening,) = door._server.sockets
    assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    await door.drain(1.0)


async def test_who_falls_silent_together_holds_nobody_up(hot_path: HotPath, monkeypatch: pytest.MonkeyPatch) -> None:
    """Very many producers are forgotten soon, but not in one go (M7)."""
    monkeypatch.setattr(stream, "TICK", 0.1)
    desk = Desk(hot_path, rules={"default": NamespaceRules(producer_ttl=1.0)})
    producers = desk.node.namespaces.open("default").producers
    long_ago = asyncio.get_running_loop().time() - 10
    for number in range(5 * EXPIRE_AT_ONCE):
        producers.describe(f"{number:08x}-0000-4000-8000-000000000000", {}, long_ago)
    door = NatsDoor(desk.node, hot_path.nats_reader)
    await door.open("127.0.0.1", 0)
    known = [len(producers)]
    async with asyncio.timeout(10):
        while known[-1]:
            await asyncio.sleep(0)
            known.append(len(producers))
    await door.drain(1.0)
    assert max(before - after for before, after in pairwise(known)) <= EXPIRE_AT_ONCE


@pytest.mark.parametrize(("moment", "tick", "at_once"), [(0.0, 60.0, 1), (60.0, 60.0, 4), (0.0, -1.0, 3)])
async def test_very_many_connections_hear_the_time_in_slices(
    hot_path: HotPath, monkeypatch: pytest.MonkeyPatch, moment: float, tick: float, at_once: int
) -> None:
    """Others have their turn after each moment, unless the loop is so busy that the next tick is due (H1)."""
    monkeypatch.setattr(stream, "MOMENT", moment)
    door = NatsDoor(Desk(hot_path).node, hot_path.nats_reader)
    await door.open("127.0.0.1", 0)
    clients = [await asyncio.open_connection(*door.address) for _ in range(4)]
    for reader, _ in clients:
        await reader.readline()
    ticked: list[Pump] = []
    monkeypatch.setattr(Pump, "tick", lambda pump, _: ticked.append(pump))
    monkeypatch.setattr(stream, "TICK", tick)
    telling = asyncio.create_task(door._tell_time(asyncio.get_running_loop().time()))
    told = [0]
    while not telling.done():
        await asyncio.sleep(0)
        told.append(len(ticked))
    assert set(ticked) == set(door._pumps)
    assert len(ticked) == 4
    assert max(after - before for before, after in pairwise(told)) == at_once
    for _, writer in clients:
        writer.close()
    await door.drain(1.0)
