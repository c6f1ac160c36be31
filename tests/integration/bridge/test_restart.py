"""The broker goes and comes back (B5), and clients do, many of them, at random."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
from pathlib import Path

import aio_pika
import pytest

from fumarole.bridge.bridge import Bridge, BridgeOptions
from fumarole.bridge.zeromq import RouterOptions
from tests.integration.bridge.bridges import RunningBridge, dealers, pack
from tests.integration.bridge.churn import churn
from tests.integration.bridge.conftest import StartBridge
from tests.integration.bridge.rabbitmq import RabbitMq
from tests.integration.oracle import MEMORY_MARGIN
from tests.ports import free_port


@pytest.mark.timeout(120)
def test_the_broker_stops_and_starts_mid_traffic(rabbitmq: RabbitMq, start_bridge: StartBridge) -> None:
    """Back by itself, bound again, `send` refused meanwhile, nothing doubled. A bridge may start before its broker."""
    bridge = start_bridge("--topics", "always.#", "--direct-queue", "restarted")
    with dealers(bridge.endpoint, 2) as (client, other):
        other.bind()
        client.bind("restart", "always.restart.#")
        stopping = threading.Thread(target=rabbitmq.stop)
        refused, number = 0, 0
        stopping.start()
        while refused < 5:
            client.say(b"send", b"amq.topic", b"always.restart.a", pack(b"%d" % number))
            number += 1
            time.sleep(0.005)
            while not other.silent(0):
                other.hear()
            if not bridge.is_running():
                break
            if bridge.status()["broker"]["state"] == "away":
                other.say(b"send", b"amq.topic", b"k", pack())
                assert other.hear() == [b"error", b"the AMQP broker is away; try again later"]
                refused += 1
        stopping.join()
        assert bridge.status()["bindings"] == {"topic": [], "direct": []}
        # The flush of a client says the same, and its bind is kept for later.
        other.say(b"bind", b"", b"always.later")
        assert other.ask(b"flush", b"f")[0] == b"error"
        early = start_bridge(ready=False)
        with dealers(early.endpoint) as (first,):
            first.say(b"bind", b"", b"early.#")
            assert first.ask(b"send", b"amq.topic", b"early.a", pack())[0] == b"error"
            rabbitmq.start()
            early.wait_for(lambda status: status["bindings"]["topic"] == ["early.#"], 30)
            first.say(b"send", b"amq.topic", b"early.a", pack(b"1"))
            assert [key for key, _ in first.messages(1)] == ["early.a"]
            first.say(b"unbind", b"", b"early.#")
            first.flush()
        bridge.wait_for(lambda status: status["broker"]["state"] == "connected", 30)
        client.say(b"bind", b"restart", b"always.restart.#")
        client.say(b"send", b"amq.topic", b"always.restart.a", pack(b"last"))
        numbers: list[bytes] = []
        errors = 0
        while not numbers or numbers[-1] != b"last":
            kind, *parts = client.hear()
            if kind == b"error":
                errors += 1
            else:
                numbers.append(parts[1].split(b"\xc4", 1)[1][1:].split(b"\xaa", 1)[0])
        assert len(set(numbers)) == len(numbers)
        assert errors >= refused - 1  # the first was sent before it was away
        assert rabbitmq.bindings("amq.topic") == ["always.#", "always.later", "always.restart.#"]
        assert rabbitmq.bindings("amq.direct") == ["restart"]
    lines = [line for line in bridge.log if "warning" in line]
    assert len(lines) == 1, bridge.tail()
    assert "guest" not in bridge.tail()


def test_a_password_that_is_wrong_is_said_without_it(rabbitmq: RabbitMq) -> None:
    bridge = RunningBridge("--amqp", f"amqp://guest:hunter2@127.0.0.1:{rabbitmq.port}", ready=False)
    try:
        bridge.says("no AMQP broker at amqp://127.0.0.1")
        assert "hunter2" not in bridge.tail()
        assert "hunter2" not in str(bridge.status())
    finally:
        bridge.stop()


async def test_a_missing_exchange_is_made(rabbitmq: RabbitMq, start_bridge: StartBridge) -> None:
    start_bridge("--topic-exchange", "made-topics", "--direct-exchange", "made-direct")
    kinds = {each["name"]: each["type"] for each in rabbitmq.ask("exchanges")}
    assert (kinds["made-topics"], kinds["made-direct"]) == ("topic", "direct")
    connection = await aio_pika.connect(rabbitmq.url)
    async with connection:
        channel = await connection.channel()
        await channel.exchange_delete("made-topics")
        await channel.exchange_delete("made-direct")


@pytest.mark.timeout(60)
def test_clients_that_bind_renew_and_vanish(rabbitmq: RabbitMq, start_bridge: StartBridge) -> None:
    """A smaller copy of `make soak`."""
    bridge = start_bridge("--ttl", "2")
    result = churn(bridge, rabbitmq, clients=50, topics=10, seconds=3.0, ttl=2.0)
    assert result.bound == result.wanted
    assert result.left == []
    assert result.grown <= MEMORY_MARGIN


def test_several_bridges_of_a_file_side_by_side(rabbitmq: RabbitMq, tmp_path: Path) -> None:
    config, ready = tmp_path / "bridges.toml", tmp_path / "ready"
    ports = [free_port() for _ in range(2)]
    config.write_text(
        "".join(
            f'[[bridges]]\nname = "{name}"\namqp = "{rabbitmq.url}"\nrouter = "tcp://127.0.0.1:{port}"\ntopics = ["{name}.#"]\n'
            for name, port in zip(("one", "two"), ports, strict=True)
        )
    )
    command = [sys.executable, "-m", "fumarole.cli.main", "bridge", "--config", str(config), "--ready-file", str(ready)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        endpoints = [f"tcp://127.0.0.1:{port}" for port in ports]
        for name, endpoint in zip(("one", "two"), endpoints, strict=True):
            with dealers(endpoint) as (client,):
                while client.ask(b"flush", b"f")[0] != b"done":
                    time.sleep(0.05)
                client.bind("", f"{name}.a")
                client.say(b"send", b"amq.topic", f"{name}.a".encode(), pack(b"1"))
                assert [key for key, _ in client.messages(1)] == [f"{name}.a"]
        assert ready.read_text().split() == endpoints
    finally:
        process.terminate()
        assert "Traceback" not in process.communicate(timeout=10)[1]
    assert process.returncode == 0


async def test_clients_that_come_and_go_leave_no_objects_behind(rabbitmq: RabbitMq) -> None:
    """Memory as the system counts it has a margin; objects have none."""
    bridge = Bridge(BridgeOptions("counted", rabbitmq.url, RouterOptions("tcp://127.0.0.1:*")))
    bridge.start()

    def come_and_go(number: int) -> None:
        with dealers(bridge.router.endpoint) as (client,):
            topics = [f"gone.{number}.{topic}" for topic in range(10)]
            while client.ask(b"flush", b"f")[0] != b"done":
                time.sleep(0.02)
            client.bind("", *topics)
            client.say(b"unbind", b"", *map(str.encode, topics))
            client.flush()

    counts = []
    for turn in range(4):
        for number in range(25):
            await asyncio.to_thread(come_and_go, 100 * turn + number)
        await asyncio.sleep(0.2)
        gc.collect()
        counts.append(len(gc.get_objects()))
    await bridge.stop()
    assert counts[3] - counts[1] < 100  # a leak of one object for each topic would be 500
    assert bridge.report()["routes"]["count"] == 0
