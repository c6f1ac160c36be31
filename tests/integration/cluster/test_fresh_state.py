"""Fresh state on three real nodes, at every door: before, while and after a node is killed (F1–F4, F6–F9)."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import socket
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from fumarole.protocols.mqtt_packets import Publish
from tests.integration.cluster.clients import Client
from tests.integration.cluster.nodes import NodeProcess, Nodes, running
from tests.integration.cluster.test_metadata import Speaker
from tests.integration.kubemq.calls import Calls
from tests.integration.mqtt.raw_mqtt import Raw

DOORS = ("msgpack", "kubemq", "mqtt", "http")
"""Beside NATS."""
SETTINGS = """
[limits]
outbox = "64MiB"
[kubemq]
namespace = "default"
[namespaces.default]
last = "all"
"""
"""Messages that a busy machine is slow to read are not dropped."""
PATIENCE = 20.0


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("fresh")
    settings = folder / "fumarole.toml"
    settings.write_text(SETTINGS)
    doors = [word for door in DOORS for word in (f"--{door}", "127.0.0.1:0")]
    with running(folder, 3, flags=(*doors, "--config", str(settings))) as three:
        yield three


def port(node: NodeProcess, door: str) -> int:
    lines = (node.log.parent / "ready").read_text().splitlines()
    (found,) = (line for line in lines if line.startswith(f"{door}://"))
    return int(found.rpartition(":")[2])


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


# Retained at one door, known at every other.


def retain_at_nats(node: NodeProcess, topic: str, payload: str) -> None:
    with closing(Client(node.host, node.port)) as client:
        block = "NATS/1.0\r\nRetain: 1\r\n\r\n"
        client.say(f"HPUB {topic} {len(block)} {len(block) + len(payload)}\r\n{block}{payload}\r\n".encode())
        client.flush()


def retain_at_msgpack(node: NodeProcess, topic: str, payload: str) -> None:
    with closing(Speaker(port(node, "msgpack"))) as heard, closing(Speaker(port(node, "msgpack"))) as speaker:
        heard.say({"topic": topic})
        assert heard.hear() == {"New": [], "Del": []}
        speaker.say({"id": str(uuid.uuid4()), "metadata": {}, "value": int(payload), "topic": topic, "retain": True})
        assert heard.hear()[2] == int(payload)


def retain_at_kubemq(node: NodeProcess, topic: str, payload: str) -> None:
    with Calls(port(node, "kubemq")) as calls:
        assert calls.send(topic, payload.encode(), Tags={"Retain": "1"}).Sent


def retain_at_mqtt(node: NodeProcess, topic: str, payload: str) -> None:
    with Raw(port(node, "mqtt")) as client:
        client.publish(topic.replace(".", "/"), payload.encode(), retain=True)
        client.settle()


def retain_at_http(node: NodeProcess, topic: str, payload: str) -> None:
    url = f"http://127.0.0.1:{port(node, 'http')}/v1/topics/{topic.replace('.', '/')}?retain=1"
    urllib.request.urlopen(urllib.request.Request(url, payload.encode(), method="POST"), timeout=PATIENCE).close()


def known_at_nats(node: NodeProcess, pattern: str, count: int) -> set[str]:
    with closing(Client(node.host, node.port)) as client:
        client.say(f"SUB $LAST.{pattern} 1\r\n".encode())
        heard = [hear(client) for _ in range(count)]
    assert all(b"\r\nLast: " in block for _, block, _ in heard)
    return {payload.decode() for _, _, payload in heard}


def hear(client: Client) -> tuple[str, bytes, bytes]:
    """The next message: its topic, its headers, its payload."""
    line = client.hear_until(b"\r\n")
    while not line.startswith((b"MSG", b"HMSG")):
        line = client.hear_until(b"\r\n")
    words = line.split()
    head = int(words[-2]) if line.startswith(b"H") else 0
    said = client.hear(int(words[-1]) + 2)
    return words[1].decode(), said[:head], said[head:-2]


def known_at_msgpack(node: NodeProcess, pattern: str, count: int) -> set[str]:
    with closing(Speaker(port(node, "msgpack"))) as speaker:
        speaker.say({"topic": pattern, "last": True})
        assert not speaker.hear()["Del"]
        heard = [speaker.hear() for _ in range(count)]
    readings = [each for each in heard if isinstance(each, list)]
    others = [each for each in heard if isinstance(each, dict)]
    assert all(age >= 0 for *_, age in readings)
    assert all(each["last"] >= 0 for each in others)
    return {str(value) for _, _, value, _ in readings} | {each["payload"].decode() for each in others}


def known_at_kubemq(node: NodeProcess, pattern: str, count: int) -> set[str]:
    with Calls(port(node, "kubemq")) as calls:
        receiver = calls.receiver(f"$LAST.{pattern}")
        heard = receiver.take(count)
        receiver.cancel()
    assert all(float(event.Tags["Last"]) >= 0 for event in heard)
    return {event.Body.decode() for event in heard}


def known_at_mqtt(node: NodeProcess, pattern: str, count: int) -> set[str]:
    with Raw(port(node, "mqtt")) as client:
        client.subscribe(pattern.replace(".", "/").replace(">", "#"))
        heard = [client.hear() for _ in range(count)]
    found = [event for event in heard if isinstance(event, Publish)]
    assert all(event.retain for event in found)
    return {event.payload.decode() for event in found}


def known_at_http(node: NodeProcess, pattern: str, count: int) -> set[str]:
    url = f"http://127.0.0.1:{port(node, 'http')}/v1/topics/{pattern}"
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        values = json.load(answer)["values"]
    assert (len(values), all(value["retain"] and value["age"] >= 0 for value in values)) == (count, True)
    return {value["payload"] if "payload" in value else str(value["value"]) for value in values}


RETAINING: dict[str, Callable[[NodeProcess, str, str], None]] = {
    "nats": retain_at_nats,
    "msgpack": retain_at_msgpack,
    "kubemq": retain_at_kubemq,
    "mqtt": retain_at_mqtt,
    "http": retain_at_http,
}
KNOWING: dict[str, Callable[[NodeProcess, str, int], set[str]]] = {
    "nats": known_at_nats,
    "msgpack": known_at_msgpack,
    "kubemq": known_at_kubemq,
    "mqtt": known_at_mqtt,
    "http": known_at_http,
}


def test_retained_at_every_door_and_known_at_every_door(nodes: Nodes) -> None:
    """F1, F3: on every node, without the one that took it, and on that one again when it is back."""
    for number, (door, retain) in enumerate(RETAINING.items()):
        retain(nodes[2], f"gates.{door}", f"{number}")
    expected = {f"{number}" for number in range(len(RETAINING))}
    wait_for(
        lambda: retained(nodes[0]) == retained(nodes[1]) == len(expected), "the others do not know what is retained"
    )
    for node in nodes.nodes:
        for known in KNOWING.values():
            assert known(node, "gates.>", len(expected)) == expected
    nodes[2].kill()
    for node in nodes.nodes[:2]:
        for known in KNOWING.values():
            assert known(node, "gates.>", len(expected)) == expected
    retain_at_mqtt(nodes[0], "gates.mqtt", "103")
    retain_at_kubemq(nodes[1], "gates.kubemq", "102")
    expected = expected - {"2", "3"} | {"102", "103"}
    nodes[2].start()
    wait_for(lambda: states(nodes[2]) == ["live"] * 2, "the node that is back is not in the cluster")
    for node in nodes.nodes:
        for known in KNOWING.values():
            assert known(node, "gates.>", len(expected)) == expected


def retained(node: NodeProcess) -> int:
    url = f"http://127.0.0.1:{port(node, 'http')}/v1/topics/gates.>"
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return sum(value["retain"] for value in json.load(answer)["values"])


def states(node: NodeProcess) -> list[str]:
    """Of the others, as this node sees them."""
    return [peer["state"] for peer in node.ask("cluster")["peers"]]


# The whole load on the topics that are asked for.

TOPICS = 40
"""Of each publisher."""
FRAME = re.compile(
    rb"H?MSG (load\.\S+) 1 (?:[0-9]+ )?[0-9]+\r\n(NATS/1\.0\r\n(?:[^\r]+\r\n)+\r\n)?([0-9]+)\r\n", re.ASCII
)


QUIET = b".quiet 1"


class Publisher(threading.Thread):
    """Publishes the numbers from 1 on, on each of its topics, as fast as the node takes them. One more topic is quiet."""

    def __init__(self, node: NodeProcess) -> None:
        super().__init__(daemon=True)
        self._client = Client(node.host, node.port)
        self._name = f"load.{node.number}"
        self.ends = threading.Event()
        self.published = 0

    def run(self) -> None:
        with contextlib.suppress(AssertionError, OSError):  # its node may be killed
            self._client.say(f"PUB {self._name}.quiet 1\r\n0\r\n".encode())
            for number in itertools.count(1):
                if self.ends.is_set():
                    break
                text = b"%d" % number
                frame = f"PUB {self._name}.%d {len(text)}\r\n{number}\r\n".encode()
                self._client.say(b"".join([frame % topic for topic in range(TOPICS)]))
                if number % 10 == 0:
                    self._client.flush()
                self.published = number
        self._client.close()


def told(node: NodeProcess, seconds: float, quiet: int) -> dict[bytes, list[tuple[int, bool]]]:
    """By topic what a consumer with `last` is told in so many seconds, and until it knows so many quiet topics: the
    numbers, and which of them is the last value.
    """
    chunks, tail, left = [], b"", False
    with closing(socket.create_connection((node.host, node.port), PATIENCE)) as connection:
        connection.sendall(b'CONNECT {"verbose":false,"headers":true}\r\nSUB $LAST.load.> 1\r\n')
        end = time.monotonic() + seconds
        while not tail.endswith(b"PONG\r\n"):
            chunks.append(connection.recv(1 << 20))
            quiet -= (tail[1 - len(QUIET) :] + chunks[-1]).count(QUIET)
            tail = (tail + chunks[-1])[-len(QUIET) :]
            if not left and quiet <= 0 and time.monotonic() > end:
                connection.sendall(b"UNSUB 1\r\nPING\r\n")
                left = True
            assert time.monotonic() < end + PATIENCE
    found: dict[bytes, list[tuple[int, bool]]] = {}
    for topic, block, number in FRAME.findall(b"".join(chunks)):
        found.setdefault(topic, []).append((int(number), b"\r\nLast: " in block))
    return found


def faults(story: list[tuple[int, bool]]) -> list[str]:
    """Of one topic: a last value comes first or not at all, and from there on every number comes, once."""
    numbers = [number for number, _ in story]
    wrong = [] if numbers == list(range(numbers[0], numbers[0] + len(numbers))) else ["a gap or a repeat"]
    return wrong + (["a last value behind a live one"] if any(is_last for _, is_last in story[1:]) else [])


def test_neither_gap_nor_repeat_under_load(nodes: Nodes) -> None:
    """F3, for consumers that come while every topic is busy, on any node, and while a node is killed."""
    publishers = [Publisher(node) for node in nodes.nodes]
    for publisher in publishers:
        publisher.start()
    wait_for(lambda: all(publisher.published > 100 for publisher in publishers), "the publishers do not begin")
    for turn in range(9):
        if turn == 6:
            nodes[1].kill()
        node = nodes[turn % 3 if turn < 6 else 2 * (turn % 2)]
        stories = told(node, 0.3, 3 if turn < 6 else 2)
        for number in (0, 1, 2) if turn < 6 else (0, 2):
            own = {topic: story for topic, story in stories.items() if topic.startswith(b"load.%d." % number)}
            assert own.pop(b"load.%d.quiet" % number) == [(0, True)]
            assert len(own) == TOPICS
            assert {topic: (wrong, story) for topic, story in own.items() if (wrong := faults(story))} == {}
    for publisher in publishers:
        publisher.ends.set()
        publisher.join(PATIENCE)
    nodes[1].start()
