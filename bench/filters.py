"""Tests on messages (F6): what they cost a subscription, and what those that a message does not pass cost it.

`$value` is asked of readings through the MsgPack door, as fast as they are taken; the generator checks that each
arrives. `$.field` is asked of JSON payloads that a NATS client publishes as readings. There the broker's own time on a
processor is what is compared: with that of a subscription without the test, and with the time that a client's process
takes whose callback in Python, on nats-py, gets every message and tests it. The 10,000 tests at the end are on the same
field of the same producer, so all of them stand on the set that the reading's producer is in, and none is passed.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msgpack

from bench.effort import Effort
from bench.figures import Figure, against
from bench.generator import Readings, run_readings
from bench.reading_cost import reading_costs
from bench.servers import COMPILED, Server, fumarole, many_files, settle
from tests.ports import free_port

CLAIM = "Tests on messages"
OF_VALUES, OF_FIELDS = 0.5, 0.15
"""Of the rate without a test."""
OF_A_CALLBACK = 10
MORE_TESTS = 1.2
PRODUCER = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
PAYLOAD = (
    b'{"station": "etna-3", "ts": "2026-03-01T12:00:00Z", "air": {"hpa": 931.25, "trend": -0.5}, "ok": true, "n": 17}'
)
AT_ONCE = 1_000
CALLBACK = """
import asyncio, json, sys, time
import nats

async def main():
    client = await nats.connect(f"nats://127.0.0.1:{sys.argv[1]}")
    count, heard, passed, done = int(sys.argv[2]), 0, 0, asyncio.Event()
    async def test(message):
        nonlocal heard, passed
        heard += 1
        passed += json.loads(message.data)["air"]["hpa"] > 900
        if heard % 1000 == 0:
            await client.publish("tested")
        if heard == count:
            done.set()
    await client.subscribe("air", cb=test)
    await client.flush()
    begin = time.process_time()
    print("ready", flush=True)
    await done.wait()
    print(time.process_time() - begin if passed == count else "wrong", flush=True)
    await client.close()

asyncio.run(main())
"""


def measure(effort: Effort) -> Iterator[Figure]:
    many_files()
    port = free_port()
    with fumarole(COMPILED, "--msgpack", f"127.0.0.1:{port}") as server:
        with_test: list[float] = []
        without: list[float] = []
        for turn in range(effort.rounds):
            effort.tell(f"$value, round {turn + 1}")
            for tested, rates in ((1, with_test), (0, without)):
                run = run_readings(port, Readings(effort.share(500_000), tested=tested))
                rates.append(run.published / run.seconds)
        yield against(
            "without", CLAIM, "readings with `$value >= 0`", max(with_test), max(without), "/s", at_least=OF_VALUES
        )
        effort.tell("$.field")
        plain, asked = (_json_rate(server, port, query, effort) for query in ("HAS a", "HAS a AND $.air.hpa > 900"))
        yield against("without", CLAIM, "JSON readings with `$.air.hpa > 900`", asked, plain, "/s", at_least=OF_FIELDS)
        name = "the same, beside a callback in Python"
        callback = max(_callback_rate(server, effort) for _ in range(effort.rounds))
        yield against("a callback", CLAIM, name, asked, callback, "/s", at_least=OF_A_CALLBACK)
        effort.tell("10,000 tests")
        few, many = reading_costs(server, port, effort, lambda number: f"Room = '0' AND $value > {10**15 + number}")
        name = "a reading that passes none of 10,000 tests"
        yield against("10 tests", CLAIM, name, many, few, "µs", at_most=MORE_TESTS)


def _json_rate(server: Server, port: int, query: str, effort: Effort) -> float:
    """Messages for each second of a processor, where one subscriber gets all of them."""
    messages = effort.share(50_000) // AT_ONCE * AT_ONCE
    best = 0.0
    for _ in range(effort.rounds):
        with _subscriber(port, query), server.connect() as publisher:
            publisher.sendall(_reading(b'{"a": 1}'))
            settle(publisher)
            before = server.processor_seconds()
            for _ in range(messages // AT_ONCE):
                publisher.sendall(_reading(b"{}") * AT_ONCE)
                settle(publisher)
            best = max(best, messages / (server.processor_seconds() - before))
    return best


def _callback_rate(server: Server, effort: Effort) -> float:
    """Messages for each second of the processor that a client's process has, whose callback tests each."""
    messages = effort.share(50_000) // AT_ONCE * AT_ONCE
    command = [sys.executable, "-c", CALLBACK, str(server.port), str(messages)]
    with server.connect() as publisher, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        client.stdout.readline()
        publisher.sendall(b"SUB tested 1\r\n")
        settle(publisher)
        for _ in range(messages // AT_ONCE):
            publisher.sendall(_message() * AT_ONCE)
            heard = b""
            while not heard.endswith(b"MSG tested 1 0\r\n\r\n"):
                heard += publisher.recv(1 << 16)
        return messages / float(client.stdout.readline())


def _message() -> bytes:
    return b"PUB air %d\r\n%b\r\n" % (len(PAYLOAD), PAYLOAD)


def _reading(metadata: bytes) -> bytes:
    block = b"NATS/1.0\r\nProducer: %b\r\nMetadata: %b\r\n\r\n" % (PRODUCER.encode(), metadata)
    return b"HPUB air %d %d\r\n%b%b\r\n" % (len(block), len(block) + len(PAYLOAD), block, PAYLOAD)


@contextmanager
def _subscriber(port: int, query: str) -> Iterator[None]:
    """One that takes whatever comes."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(msgpack.packb(query))
        connection.recv(64)
        reading = threading.Thread(target=_drain, args=(connection,), daemon=True)
        reading.start()
        yield
        connection.shutdown(socket.SHUT_RDWR)
        reading.join()


def _drain(connection: socket.socket) -> None:
    while connection.recv(1 << 20):
        pass
