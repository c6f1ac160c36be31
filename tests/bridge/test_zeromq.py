"""The ROUTER on real sockets, with libzmq's DEALER at the other end: who gets what, and what is counted."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.asyncio

from fumarole.bridge import zeromq
from fumarole.bridge.endpoints import ListenAddress
from fumarole.bridge.errors import CannotBridgeError
from fumarole.bridge.zeromq import Router, RouterOptions
from tests.ports import free_port

SECONDS = 10.0
LOCAL = "tcp://127.0.0.1:*"


class Heard:
    """What the router was told, and a way to wait for it."""

    def __init__(self) -> None:
        self.messages: list[tuple[bytes, list[bytes]]] = []
        self.answer: Callable[[bytes, list[bytes]], None] = lambda _, __: None

    def __call__(self, client: bytes, parts: list[bytes]) -> None:
        self.messages.append((client, parts))
        self.answer(client, parts)

    async def wait(self, count: int) -> list[tuple[bytes, list[bytes]]]:
        async with asyncio.timeout(SECONDS):
            while len(self.messages) < count:  # noqa: ASYNC110 - a list has no event
                await asyncio.sleep(0.005)
        return self.messages


@asynccontextmanager
async def running(endpoint: str = LOCAL, **options: Any) -> AsyncIterator[tuple[Router, Heard]]:
    heard = Heard()
    router = Router(RouterOptions(endpoint, **options), heard)
    router.open()
    try:
        yield router, heard
    finally:
        await router.close()


@asynccontextmanager
async def dealer(endpoint: str, kind: int = zmq.DEALER, **options: Any) -> AsyncIterator[Any]:
    context = zmq.asyncio.Context()
    each: Any = context.socket(kind)
    for name, value in options.items():
        setattr(each, name, value)
    each.connect(endpoint)
    try:
        yield each
    finally:
        context.destroy(0)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    "endpoint", [LOCAL, "tcp://[::1]:*", "tcp://localhost:*", "ipc://{folder}/bridge", "ipc://@{folder}"]
)
async def test_every_kind_of_endpoint(endpoint: str, tmp_path: Path) -> None:
    async with running(endpoint.format(folder=tmp_path)) as (router, heard):
        heard.answer = lambda client, parts: None if router.send(client, b"re", *parts) else pytest.fail("not sent")
        async with dealer(router.endpoint, ipv6=1) as client:
            large = bytes(1_000_000)
            await client.send_multipart([b"a", b"", large])
            assert await client.recv_multipart() == [b"re", b"a", b"", large]
    assert not os.listdir(tmp_path)  # noqa: PTH208 - names are enough


@pytest.mark.parametrize("kind", [zmq.DEALER, zmq.REQ, zmq.ROUTER])
async def test_every_kind_of_socket_that_a_router_serves(kind: int) -> None:
    async with running() as (router, heard), dealer(router.endpoint, kind, probe_router=int(kind != zmq.REQ)) as client:
        if kind == zmq.REQ:
            await client.send(b"x")
        assert (await heard.wait(1))[0][1] == ([b"", b"x"] if kind == zmq.REQ else [b""])


async def test_a_socket_file_that_was_left_behind_is_replaced_and_one_in_use_is_not(tmp_path: Path) -> None:
    path = tmp_path / "bridge"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    async with running(f"ipc://{path}"):
        with pytest.raises(CannotBridgeError, match="Address already in use"):
            Router(RouterOptions(f"ipc://{path}"), Heard()).open()
    path.write_text("a file of somebody's")
    with pytest.raises(CannotBridgeError, match="Address already in use"):
        Router(RouterOptions(f"ipc://{path}"), Heard()).open()
    assert path.read_text() == "a file of somebody's"


@pytest.mark.parametrize("endpoint", ["tcp://192.0.2.1:*", "ipc:///no/such/folder/x", "ipc://" + "x" * 200])
async def test_where_it_cannot_listen(endpoint: str) -> None:
    with pytest.raises(CannotBridgeError, match=r"^cannot listen on "):
        Router(RouterOptions(endpoint, insecure=True), Heard()).open()


async def test_insecure_is_logged_at_each_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A1. The address is loopback all the same: no test is open to other machines."""

    class Beyond(ListenAddress):
        is_local = False

    port = free_port()
    monkeypatch.setattr(zeromq, "listen_addresses", lambda _: [Beyond(socket.AF_INET, ("127.0.0.1", port))])
    with pytest.raises(CannotBridgeError, match="--insecure"):
        Router(RouterOptions("tcp://*:1"), Heard()).open()
    for _ in range(2):
        caplog.clear()
        async with running("tcp://*:1", insecure=True):
            (line,) = [record for record in caplog.records if record.levelno == logging.WARNING]
            assert "without CURVE" in line.getMessage()


async def test_identities_are_kept_and_nobody_takes_anothers() -> None:
    async with running() as (router, heard):
        async with dealer(router.endpoint, routing_id=b"me") as one, dealer(router.endpoint) as other:
            await one.send(b"1")
            await heard.wait(1)
            await other.send(b"2")
            assert [client == b"me" for client, _ in await heard.wait(2)] == [True, False]
            async with dealer(router.endpoint, routing_id=b"me") as thief:
                await thief.send(b"3")
                await until(lambda: router.cut > 0)
                assert router.send(b"me", b"for one")
                assert await one.recv() == b"for one"
                said = b"its identity is another connection's; the connection is closed"
                assert await thief.recv_multipart() == [b"error", said]
        await until(lambda: router.connections == 0)
        assert not router.send(b"me", b"gone")
        assert router.gone == 1
        async with dealer(router.endpoint, routing_id=b"me") as again:
            await again.send(b"4")
            assert (await heard.wait(3))[-1] == (b"me", [b"4"])


async def test_what_waits_is_bounded_in_messages_and_in_bytes() -> None:
    """The oldest stay; what does not fit is refused and counted."""
    for payload, waiting, most in ((b"x" * 1000, 50, 50), (bytes(1_000_000), 1_000, 5)):
        async with running(waiting=waiting) as (router, heard):
            peer = socket.create_connection(("127.0.0.1", int(router.endpoint.rpartition(":")[2])))
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            with peer:
                greeting = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(48)
                ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
                peer.sendall(greeting + bytes((4, len(ready))) + ready + b"\x00\x02hi")
                ((client, _),) = await heard.wait(1)
                sent = refused = 0
                while not refused:
                    for _ in range(100):
                        if router.send(client, payload):
                            sent += 1
                        else:
                            refused += 1
                    await asyncio.sleep(0)
                (connection,) = router._connections
                assert len(connection._outbox) <= most
                assert router.slow == refused


async def test_what_waits_leaves_before_the_end() -> None:
    async with running(waiting=10_000) as (router, heard), dealer(router.endpoint) as client:
        await client.send(b"hi")
        ((identity, _),) = await heard.wait(1)
        for number in range(5_000):
            router.send(identity, b"%d" % number)
        taking = asyncio.create_task(_take(client, 5_000))
        await router.close()
        assert await taking == [b"%d" % number for number in range(5_000)]


async def _take(client: Any, count: int) -> list[bytes]:
    async with asyncio.timeout(SECONDS):
        return [await client.recv() for _ in range(count)]


async def test_nothing_is_handled_during_a_pause_and_nothing_is_lost() -> None:
    async with running() as (router, heard), dealer(router.endpoint, sndhwm=100_000) as client:

        def pause_at_100(_: bytes, __: list[bytes]) -> None:
            if len(heard.messages) == 100:
                router.pause()

        heard.answer = pause_at_100
        for number in range(20_000):
            await client.send_multipart([b"%d" % number, bytes(100)])
        await heard.wait(100)
        await asyncio.sleep(0.1)
        assert len(heard.messages) == 100
        router.resume()
        assert [parts[0] for _, parts in await heard.wait(20_000)] == [b"%d" % number for number in range(20_000)]


async def test_a_peer_that_says_nothing_is_cut_and_one_that_is_dead_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from fumarole.bridge import peer_connection

    monkeypatch.setattr(peer_connection, "HANDSHAKE_SECONDS", 0.3)
    monkeypatch.setattr(peer_connection, "HEARTBEAT_SECONDS", 0.3)
    monkeypatch.setattr(peer_connection, "DEAD_SECONDS", 1.5)
    monkeypatch.setattr(zeromq, "TICK_SECONDS", 0.05)
    async with running() as (router, heard):
        place = ("127.0.0.1", int(router.endpoint.rpartition(":")[2]))
        with socket.create_connection(place), socket.create_connection(place) as silent:
            greeting = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(48)
            ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
            silent.sendall(greeting + bytes((4, len(ready))) + ready)
            async with dealer(router.endpoint) as alive:
                await alive.send(b"1")
                await heard.wait(1)
                await until(lambda: router.connections == 1)
                await asyncio.sleep(1.0)
                assert router.connections == 1
                await alive.send(b"2")
                await heard.wait(2)


async def test_there_is_a_number_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zeromq, "MOST_CONNECTIONS", 3)
    async with running() as (router, heard):
        place = ("127.0.0.1", int(router.endpoint.rpartition(":")[2]))
        peers = [socket.create_connection(place) for _ in range(3)]
        await until(lambda: router.connections == 3)
        with socket.create_connection(place) as refused:
            await until(lambda: router.cut == 1)
            assert await asyncio.to_thread(refused.recv, 1) == b""
        for peer in peers:
            peer.close()
        async with dealer(router.endpoint) as client:
            await client.send(b"1")
            await heard.wait(1)
