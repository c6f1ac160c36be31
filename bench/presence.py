"""Presence (F5): 100,000 producers on 1,000 connections are lost at once.

A subscriber of `not _online` is told of each when the grace is over. The time is from that moment to its last diff.
Meanwhile a process of its own asks the broker something every few milliseconds: the longest that it waited is how long
the loop stood still, its own share of the machine included.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import msgpack

from bench.effort import Effort
from bench.figures import Figure, within
from bench.servers import CannotMeasureError, Server, many_files, settle
from bench.settings import configured
from tests.ports import free_port

GRACE = 2.0
SETTINGS = f'[namespaces.default]\npresence_grace = "{GRACE:g}s"\n'
CONNECTIONS, EACH = 1_000, 100
TOLD, STILL = 2_000_000.0, 100_000.0
"""Microseconds."""
PATIENCE = 60.0
CANARY = """
import socket, sys, time
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
connection.recv(65536)
connection.sendall(b'CONNECT {"verbose":false}\\r\\n')
end, longest = time.monotonic() + float(sys.argv[2]), 0.0
print("ready", flush=True)
while time.monotonic() < end:
    begin = time.monotonic()
    connection.sendall(b"PING\\r\\n")
    heard = b""
    while not heard.endswith(b"PONG\\r\\n"):
        heard += connection.recv(65536)
    longest = max(longest, time.monotonic() - begin)
    time.sleep(0.002)
print(longest)
"""


def measure(effort: Effort) -> Iterator[Figure]:
    many_files()
    port, count = free_port(), effort.share(CONNECTIONS)
    claim = f"{count * EACH:,} producers on {count:,} connections, lost at once"
    with configured(SETTINGS, "--msgpack", f"127.0.0.1:{port}") as server:
        told, still = zip(*[_lose(server, port, count, effort, turn) for turn in range(effort.rounds)], strict=True)
    yield within(TOLD, claim, "all diffs out after the end of the grace", min(told) * 1e6, "µs")
    yield within(STILL, claim, "the longest that the loop stood still", min(still) * 1e6, "µs")


def _lose(server: Server, port: int, count: int, effort: Effort, turn: int) -> tuple[float, float]:
    effort.tell(f"round {turn + 1}: {count * EACH:,} producers")
    with ExitStack() as connections:
        for number in range(count):
            connection = connections.enter_context(server.connect())
            connection.sendall(b"".join(_reading(number * EACH + each) for each in range(EACH)))
            settle(connection)
        watcher = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        watcher.sendall(msgpack.packb("not _online and Kind = 'x'"))
        unpacker = msgpack.Unpacker(max_buffer_size=1 << 30)
        gone = _heard(watcher, unpacker, 1)
        if gone:
            raise CannotMeasureError(f"{gone} producers were offline before")
        command = [sys.executable, "-c", CANARY, str(server.port), str(GRACE + 3.0)]
        canary = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert canary.stdout is not None
        canary.stdout.readline()
    with watcher:
        end = time.monotonic() + GRACE
        gone = 0
        while gone < count * EACH:
            gone += _heard(watcher, unpacker, 1)
        told = time.monotonic() - end
        watcher.shutdown(socket.SHUT_RDWR)
    return told, float(json.loads(canary.communicate()[0]))


def _heard(watcher: socket.socket, unpacker: msgpack.Unpacker, most: int) -> int:
    """Producers in the diffs that come next; their readings are passed over."""
    found = 0
    while most:
        data = watcher.recv(1 << 20)
        if not data:
            raise CannotMeasureError("the subscriber was cut off")
        unpacker.feed(data)
        for said in unpacker:
            if isinstance(said, dict):
                found += len(said["New"])
                most = 0
    return found


def _reading(number: int) -> bytes:
    block = b'NATS/1.0\r\nProducer: 2f1c0a52-6d0f-4c8e-9a5e-%012d\r\nMetadata: {"Kind": "x"}\r\n\r\n' % number
    return b"HPUB v %d %d\r\n%b1\r\n" % (len(block), len(block) + 1, block)
