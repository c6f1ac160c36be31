"""Nodes that join and leave, as clients and people see it (C2, C5)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import fumarole
from fumarole.client import Disconnected, Reconnected
from tests.client.brokers import Notices
from tests.integration.cluster.clients import Client, ask
from tests.integration.cluster.nodes import ROOT, NodeProcess, running
from tests.ports import free_port

CONSUMERS = 5_000


def status(node: NodeProcess, *flags: str) -> str:
    """What `fumarole cluster status` shows."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FUMAROLE_")}
    environment |= {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "150", "TERM": "dumb"}
    command = [sys.executable, "-m", "fumarole.cli.main", "cluster", "status", *flags]
    command += ["--servers", f"nats://{node.host}:{node.port}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=20)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_who_joins_finds_everybody_from_the_first_moment(tmp_path: Path) -> None:
    """And each is found. No client is let in before. It logs that it listens without a secret."""
    with running(tmp_path, 2) as nodes:
        consumer = Client(nodes[1].host, nodes[1].port)
        consumer.say(b"".join(b"SUB many.%d %d\r\n" % (number, number) for number in range(CONSUMERS)))
        consumer.flush()
        nodes.add()
        newcomer = Client(nodes[2].host, nodes[2].port)
        for number in (0, CONSUMERS - 1):
            newcomer.say(b"PUB many.%d 2\r\nhi\r\n" % number)
            consumer.hear_until(b"MSG many.%d %d 2\r\nhi\r\n" % (number, number))
        shown = status(nodes[2]).splitlines()
        assert shown[0] == "cluster fumarole, seen by node-2"
        rows = {line.split()[0]: line.split() for line in shown[2:]}
        assert {name: row[1:3] for name, row in rows.items()} == {
            "node-2": ["here", "1"],  # the command itself, which waits for its answer
            "node-0": ["live", "0"],
            "node-1": ["live", "5,000"],
        }
        assert rows["node-1"][-2] == nodes[1].cluster_address
        seen: dict[str, Any] = json.loads(status(nodes[1], "--json"))
        assert [(peer["node"], peer["behind"], peer["received"]) for peer in seen["peers"]] == [
            ("node-0", 0, 0),
            ("node-2", 0, 2),
        ]
        assert all(0 < peer["round_trip"] < 1 and peer["version"] for peer in seen["peers"])
        consumer.close()
        newcomer.close()
        assert "without a secret or TLS, only nodes of this machine are let in" in nodes[0].log.read_text()


def test_who_leaves_sends_its_clients_away_and_loses_nothing(tmp_path: Path) -> None:
    """It says so (`ldm`) before it ends, and what a client that does not listen publishes until then arrives."""
    with running(tmp_path, 2) as nodes:
        stayer, leaver = (Client(node.host, node.port) for node in nodes.nodes)
        stayer.say(b"SUB a 1\r\n")
        stayer.flush()
        stopping = threading.Thread(target=nodes[1].stop)
        stopping.start()
        told: dict[str, Any] = {}
        while not told.get("ldm"):
            line = leaver.hear_until(b"\r\n")
            told = json.loads(line[5:]) if line.startswith(b"INFO ") else told
        assert told["connect_urls"] == [f"{nodes[0].host}:{nodes[0].port}"]
        for number in range(100):
            leaver.say(b"PUB a 4\r\n%04d\r\n" % number)
        leaver.flush()
        for number in range(100):
            stayer.hear_until(b"MSG a 1 4\r\n%04d\r\n" % number)
        stopping.join()
        assert ask(nodes[0].host, nodes[0].port, b"cluster")["peers"] == []
        for client in (stayer, leaver):
            client.close()


async def test_the_python_client_moves_by_itself(tmp_path: Path) -> None:
    """It knows one node, and goes to the other when that one is stopped. Nothing that it published is lost."""
    with running(tmp_path, 2) as nodes:
        there, here = (f"nats://{node.host}:{node.port}" for node in nodes.nodes)
        notices = Notices()
        async with (
            fumarole.connect(there) as stayer,
            stayer.subscribe("from.it") as heard,
            fumarole.connect(here, on_notice=notices) as client,
            client.subscribe("to.it") as messages,
        ):
            stopping = asyncio.create_task(asyncio.to_thread(nodes[1].stop))
            published = 0
            while not any(isinstance(notice, Reconnected) for notice in notices.all):
                await client.publish("from.it", b"%d" % published)
                published += 1
                await asyncio.sleep(0.001)
            assert client.server == there
            assert [type(notice) for notice in notices.all] == [Disconnected, Reconnected]
            await stayer.publish("to.it", b"hello")
            async with asyncio.timeout(10):
                assert (await anext(messages)).payload == b"hello"
            await client.flush()
            await heard.drain()
            assert [int(message.payload) async for message in heard] == list(range(published))
            await stopping


def test_each_worker_is_a_node_of_a_larger_cluster(tmp_path: Path) -> None:
    """On ports one after another, and known by the name of the node and a number."""
    with running(tmp_path, 2) as nodes:
        many = NodeProcess(tmp_path, 7, nodes.network, pair_of_ports(), [nodes[0].cluster_address], ("--workers", "2"))
        try:
            names = [peer["node"] for peer in ask(nodes[1].host, nodes[1].port, b"cluster")["peers"]]
            assert names == ["node-0", "node-7/0", "node-7/1"]
            # More than the first worker keeps for itself.
            there = [Client(many.host, many.port) for _ in range(60)]
            for client in there:
                client.say(b"SUB a 1\r\n")
                client.flush()
            here = Client(nodes[1].host, nodes[1].port)
            here.say(b"PUB a 2\r\nhi\r\n")
            for client in there:
                client.hear_until(b"MSG a 1 2\r\nhi\r\n")
            seen = ask(nodes[1].host, nodes[1].port, b"cluster")["peers"]
            assert [peer["forwarded"] for peer in seen] == [0, 1, 1]  # C3
            for client in (here, *there):
                client.close()
            many.stop()
        finally:
            many.kill()


def pair_of_ports() -> int:
    """The first of two that follow each other."""
    first, second = free_port(), free_port()
    while second != first + 1:
        first, second = second, free_port()
    return first
