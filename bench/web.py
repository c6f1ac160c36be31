"""The web door beside programs of others: posts, batches, streams of events, NATS over WebSocket, long answers, memory.

wrk (Debian) posts as fast as it is answered. Streams and WebSocket connections are plain sockets of this process: what
reaches them is counted in bytes, so the client costs little and the same for both servers.
"""

from __future__ import annotations

import base64
import os
import re
import selectors
import shutil
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

from bench import web_beside
from bench.effort import Effort
from bench.figures import PEER, Figure, against, within
from bench.servers import CannotMeasureError, Server, fumarole, many_files, nats_server, running
from bench.web_clients import PATIENCE, connect, hear, learn, stream
from fumarole.exchange.node import Node
from fumarole.fastpath.hot_path import compiled
from fumarole.sessions.http import metrics
from tests.ports import free_port

CLAIM = "Web door"
WEB_PYTHON = Path(__file__).parents[1] / "build" / "web" / "bin" / "python"
UVICORN, AIOHTTP = "uvicorn", "aiohttp"
CONNECTIONS = 16
SECONDS = 4
POST = 'wrk.method = "POST"\nwrk.body = string.rep("x", 64)\n'
LINE = b'{"topic":"volcanoes.usa.atka","payload":"%064d"}\n' % 21
LINES = 1_000_000
STREAMS = 1_000
EVENTS = 400
BATCHES_AHEAD = 4
MESSAGES = 400_000
FRAME = 64
"""Messages in a frame of the publisher."""
WINDOW = 20_000
PUBLISH = b"PUB volcanoes.usa.atka 128\r\n" + b"x" * 128 + b"\r\n"
HEARD = len(b"MSG volcanoes.usa.atka 1 128\r\n") + 130
PRODUCERS = 10_000
NAMESPACES = 1_000


def measure(effort: Effort) -> Iterator[Figure]:
    if shutil.which("wrk") is None or not WEB_PYTHON.exists():
        raise CannotMeasureError("the web door is measured with wrk (Debian) and build/web: `make setup-test` has both")
    many_files()
    with door() as ours:
        yield from _posts(effort, ours)
        yield from _batches(effort, ours)
    yield from _streams(effort)
    yield from _websockets(effort)
    yield from _long_answers(effort)
    yield from _scrapes(effort)
    yield from web_beside.measure(CLAIM, effort)
    yield from _memory(effort)


@contextmanager
def door(*flags: str) -> Iterator[Server]:
    port = free_port()
    with fumarole("compiled", "--http", f"127.0.0.1:{port}", *flags) as server:
        yield Server(server.name, server.pid, port)


@contextmanager
def peer(name: str, program: str) -> Iterator[Server]:
    port = free_port()
    command = [str(WEB_PYTHON), str(Path(__file__).parent / "web_peers.py"), program, str(port)]
    with running(name, command, dict(os.environ), lambda _: port if _listens(port) else None) as server:
        yield server


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _alternate(
    effort: Effort,
    name: str,
    servers: tuple[Server, Server],
    rate: Callable[[Server], float],
    wanted: float,
    note: str = "",
) -> Figure:
    rates: dict[str, list[float]] = {server.name: [] for server in servers}
    for turn in range(min(effort.rounds, 3)):
        for server in servers:
            effort.tell(f"{name}, {server.name}, round {turn + 1}")
            rates[server.name].append(rate(server))
    own, theirs = (rates[server.name] for server in servers)
    rounds = [mine / other for mine, other in zip(own, theirs, strict=True)]
    peer_name = servers[1].name
    return against(peer_name, CLAIM, name, max(own), max(theirs), "/s", at_least=wanted, rounds=rounds, note=note)


def _at_least(limit: float, name: str, rate: float) -> Figure:
    return against("wanted", CLAIM, name, rate, limit, "/s", at_least=1.0)


# Publishing.


def _posts(effort: Effort, ours: Server) -> Iterator[Figure]:
    seconds = max(1, round(SECONDS * effort.share(100) / 100))
    with peer(UVICORN, "discard") as theirs:
        found = _alternate(effort, "POST of 64 B, 16 connections", (ours, theirs), lambda one: _post(one, seconds), 3.0)
    yield found
    yield _at_least(60_000, "POST of 64 B, 16 connections", found.ours)


def _post(server: Server, seconds: int) -> float:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(POST)
        script.flush()
        url = f"http://127.0.0.1:{server.port}/v1/topics/volcanoes/usa/atka"
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}", "-s", script.name, url]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rate = re.search(r"Requests/sec:\s+([0-9.]+)", said)
    if rate is None or "Non-2xx" in said or "Socket errors" in said:
        raise CannotMeasureError(f"wrk: {said[-300:]}")
    return float(rate[1])


def _batches(effort: Effort, ours: Server) -> Iterator[Figure]:
    lines = effort.share(LINES)
    body = LINE * lines
    head = b"POST /v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    best = 0.0
    for turn in range(min(effort.rounds, 3)):
        effort.tell(f"lines of JSON, round {turn + 1}")
        with connect(ours.port) as connection:
            began = time.monotonic()
            connection.sendall(head + body)
            said = hear(connection, b"}")
            best = max(best, lines / (time.monotonic() - began))
        if b'"published":%d,' % lines not in said:
            raise CannotMeasureError(f"not all lines were published: {said[-200:]!r}")
    yield _at_least(800_000, "lines of JSON in one body, 64 B payloads", best)


# Streams of events.


def _streams(effort: Effort) -> Iterator[Figure]:
    streams, events = effort.share(STREAMS), EVENTS
    with peer(AIOHTTP, "events") as theirs, door_for(streams) as own:
        rate = lambda server: _events(server, streams, events)  # noqa: E731
        yield _alternate(effort, f"one publisher to {streams:,} streams, an event", (own, theirs), rate, 5.0)


@contextmanager
def door_for(streams: int) -> Iterator[Server]:
    """A door at which one address may have so many streams."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write(
            f"[http]\nstreams_per_user = {streams + 10}\n[limits]\nconnections_per_address = {streams + 100}\n"
        )
        config.flush()
        with door("--config", config.name) as server:
            yield server


def _events(server: Server, streams: int, events: int) -> float:
    """Events that reach streams in a second. Some batches of ten lines are under way, so client and server overlap."""
    with ExitStack() as open_connections, selectors.DefaultSelector() as selector:
        for _ in range(streams):
            connection = open_connections.enter_context(stream(server.port))
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ, Heard(connection))
        publisher = open_connections.enter_context(connect(server.port))
        body = LINE * 10
        request = b"POST /v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        began, sent, heard = time.monotonic(), 0, 0
        while heard < events * streams:
            while sent < events and sent * streams - heard < BATCHES_AHEAD * 10 * streams:
                publisher.sendall(request)
                sent += 10
            heard += _hear_some(selector)
            if time.monotonic() - began > PATIENCE:
                raise CannotMeasureError(f"{events * streams - heard} events did not come")
        return heard / (time.monotonic() - began)


def _hear_some(selector: selectors.BaseSelector) -> int:
    """The events that are there now."""
    return sum(key.data.more() for key, _ in selector.select(1.0))


class Heard:
    """Counts the events of one stream, however they are cut."""

    MARK = b"\ndata: "

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""

    def more(self) -> int:
        data = self._rest + self._connection.recv(1 << 16)
        self._rest = data[1 - len(self.MARK) :]
        return data.count(self.MARK)


# NATS over WebSocket.


def _websockets(effort: Effort) -> Iterator[Figure]:
    port = free_port()
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as config:
        config.write(f'websocket {{ host: "127.0.0.1", port: {port}, no_tls: true }}\n')
        config.flush()
        with door() as ours, nats_server("-c", config.name) as broker:
            theirs = Server(PEER, broker.pid, port)
            messages = effort.share(MESSAGES)
            rate = lambda server: _over_websocket(server, messages)  # noqa: E731
            yield _alternate(effort, "NATS over WebSocket, one to one, 128 B", (ours, theirs), rate, 2.0)


def _upgraded(port: int, path: str) -> socket.socket:
    made = connect(port)
    key = base64.b64encode(os.urandom(16)).decode()
    made.sendall(
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    said = b""
    while b"\r\n\r\n" not in said:
        said += made.recv(1 << 16)
    if b" 101 " not in said[:20]:
        raise CannotMeasureError(f"no WebSocket: {said[:80]!r}")
    return made


def _masked(content: bytes) -> bytes:
    key = b"\x5a\xa5\x3c\xc3"
    masked = (int.from_bytes(content, "little") ^ int.from_bytes(key * (len(content) // 4 + 1), "little")) & (
        (1 << (8 * len(content))) - 1
    )
    size = len(content)
    head = bytes((0x82, 0x80 | size)) if size < 126 else b"\x82\xfe" + size.to_bytes(2, "big")
    return head + key + masked.to_bytes(size, "little")


def _over_websocket(server: Server, messages: int) -> float:
    """Messages a second: the publisher is at most a window ahead."""
    path = "/nats" if server.name != PEER else "/"
    with _upgraded(server.port, path) as consumer, _upgraded(server.port, path) as publisher:
        for connection in (consumer, publisher):
            connection.sendall(_masked(b'CONNECT {"verbose":false,"pedantic":false}\r\n'))
        consumer.sendall(_masked(b"SUB volcanoes.> 1\r\n") + _masked(b"PING\r\n"))
        said = b""
        while b"PONG\r\n" not in said:
            said += consumer.recv(1 << 16)
        frame = _masked(PUBLISH * FRAME)
        chunk = frame * (WINDOW // FRAME // 2)
        in_chunk = FRAME * (WINDOW // FRAME // 2)
        began, sent, heard = time.monotonic(), 0, 0
        buffer = bytearray(1 << 20)
        while heard < messages:
            if sent < messages and sent - heard < in_chunk:
                publisher.sendall(chunk)
                sent += in_chunk
            size = consumer.recv_into(buffer)
            if not size:
                raise CannotMeasureError(f"{server.name} closed a connection")
            heard += buffer.count(b"MSG v", 0, size)
        return heard / (time.monotonic() - began)


# Long answers, and memory.


def _long_answers(effort: Effort) -> Iterator[Figure]:
    producers = effort.share(PRODUCERS)
    with door() as ours:
        learn(ours.port, producers)
        with connect(ours.port) as connection:
            best = PATIENCE
            for turn in range(5):
                effort.tell(f"{producers:,} producers as JSON, round {turn + 1}")
                before = ours.processor_seconds()
                connection.sendall(b"GET /v1/producers?limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
                hear(connection, b"\r\n0")
                best = min(best, ours.processor_seconds() - before)
        yield within(30.0, CLAIM, f"{producers:,} producers as JSON, processor time", best * 1e3, "ms")


def _scrapes(effort: Effort) -> Iterator[Figure]:
    """Namespaces with a client each."""
    namespaces = effort.share(NAMESPACES)
    port = free_port()
    with fumarole("compiled", "--http", f"127.0.0.1:{port}") as ours, ExitStack() as stack:
        for number in range(namespaces):
            made = stack.enter_context(connect(ours.port))
            made.sendall(b'CONNECT {"verbose":false,"user":"n%d"}\r\nPUB a 1\r\nx\r\nPING\r\n' % number)
            hear(made, b"PONG")
        connection = stack.enter_context(connect(port))
        best = PATIENCE
        for turn in range(20):
            effort.tell(f"/metrics of {namespaces:,} namespaces, round {turn + 1}")
            before = ours.processor_seconds()
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            hear(connection, b"\r\n0")
            best = min(best, ours.processor_seconds() - before)
    yield within(3.0, CLAIM, f"/metrics of {namespaces:,} namespaces, processor time", best * 1e3, "ms")
    yield within(
        1.0, CLAIM, f"/metrics of {namespaces:,} namespaces, the longest step", _longest_step(namespaces), "ms"
    )


def _longest_step(namespaces: int) -> float:
    """Milliseconds of the longest step of the same text, made here. Others have their turn between two steps."""
    hot_path = compiled()
    assert hot_path is not None
    node = Node("bench", "1", parts=hot_path.parts)
    for number in range(namespaces):
        node.namespaces.join(f"n{number}").counters.received = number
    service = SimpleNamespace(node=node, process=dict, answered={}, streams=Counter[str]())
    longest = PATIENCE
    for _ in range(20):
        steps, took = metrics.written(SimpleNamespace(service=service), is_open=False), 0.0  # type: ignore[arg-type]
        while True:
            began = time.perf_counter()
            is_over = next(steps, None) is None
            took = max(took, time.perf_counter() - began)
            if is_over:
                break
        longest = min(longest, took)
    return longest * 1e3


def _memory(effort: Effort) -> Iterator[Figure]:
    count = effort.share(STREAMS)
    for name, open_one in (
        ("stream of events", stream),
        ("NATS over WebSocket", lambda port: _upgraded(port, "/nats")),
    ):
        with door_for(count) as ours, ExitStack() as open_connections:
            effort.tell(f"{count:,} idle: {name}")
            open_connections.enter_context(open_one(ours.port))
            before = ours.resident()
            for _ in range(count):
                open_connections.enter_context(open_one(ours.port))
            each = (ours.resident() - before) / count
        yield within(12 * 1024, CLAIM, f"memory of an idle {name}, {count:,} of them", each, "KiB")
