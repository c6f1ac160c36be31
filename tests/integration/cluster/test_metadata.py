"""C6 on real nodes: what producers say of themselves is known everywhere, so a query works from any node."""

from __future__ import annotations

import json
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from fumarole.exchange.presence import said_by_producer
from fumarole.exchange.producers import HEARSAY
from tests.integration.cluster.clients import Client
from tests.integration.cluster.nodes import Nodes, running


@pytest.fixture(scope="module", params=[False, True], ids=["compiled", "plain"])
def nodes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("metadata"), 2, flags=("--msgpack", "127.0.0.1:0"), pure=request.param) as two:
        yield two


class Speaker:
    """A MsgPack client."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 5.0)
        self._values = msgpack.Unpacker()

    def say(self, value: object) -> None:
        self._socket.sendall(msgpack.packb(value))

    def hear(self) -> Any:
        for value in self._values:
            return value
        self._values.feed(self._socket.recv(65536))
        return self.hear()

    def close(self) -> None:
        self._socket.close()


def msgpack_port(nodes: Nodes, number: int) -> int:
    return int((nodes[number].log.parent / "ready").read_text().split()[1].rpartition(":")[2])


def test_a_query_on_one_node_and_a_sensor_on_the_other(nodes: Nodes) -> None:
    room, identity = uuid.uuid4().hex, str(uuid.uuid4())
    subscriber, sensor = Speaker(msgpack_port(nodes, 0)), Speaker(msgpack_port(nodes, 1))
    subscriber.say(f"Room = '{room}'")
    assert subscriber.hear() == {"New": [], "Del": []}
    sensor.say([identity, {"Room": room, "Kind": "temperature"}, 21.5])
    assert subscriber.hear() == {"New": [identity], "Del": []}  # M5: first the set, then the reading
    assert subscriber.hear() == [identity, {"Room": room, "Kind": "temperature"}, 21.5]
    sensor.say([identity, {}, 22])
    assert subscriber.hear() == [identity, {}, 22]  # M6
    sensor.say([identity, {"Room": None}, 23])
    assert subscriber.hear() == {"New": [], "Del": [identity]}
    sensor.say([identity, {"Room": room}, 24])
    assert subscriber.hear() == {"New": [identity], "Del": []}
    assert subscriber.hear() == [identity, {"Room": room}, 24]
    late = Speaker(msgpack_port(nodes, 0))
    late.say(f"Room = '{room}' and Kind = 'temperature'")
    assert late.hear() == {"New": [identity], "Del": []}
    sensor.say({"forget": identity})
    assert subscriber.hear() == {"New": [], "Del": [identity]}
    for client in (subscriber, sensor, late):
        client.close()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Level < 1e20", id="a decimal beyond 64 bits"),
        pytest.param(" AND ".join(f"Level BETWEEN 0 AND {number}" for number in range(5, 305)), id="600 tests of 300"),
    ],
)
def test_a_query_that_is_longer_in_its_canonical_form(nodes: Nodes, text: str) -> None:
    """C2: once it is confirmed, the other node knows it."""
    room, identity = uuid.uuid4().hex, str(uuid.uuid4())
    subscriber, sensor = Speaker(msgpack_port(nodes, 0)), Speaker(msgpack_port(nodes, 1))
    subscriber.say(f"Room = '{room}' AND {text}")
    assert subscriber.hear() == {"New": [], "Del": []}
    sensor.say([identity, {"Room": room, "Level": 5}, 21.5])
    assert subscriber.hear() == {"New": [identity], "Del": []}
    assert subscriber.hear() == [identity, {"Room": room, "Level": 5}, 21.5]
    for client in (subscriber, sensor):
        client.close()


def test_readings_reach_topics_and_groups_of_the_other_node(nodes: Nodes) -> None:
    identity = str(uuid.uuid4())
    here, there = (Client(nodes[0].host, nodes[0].port, headers=False) for _ in range(2))
    for client in (here, there):
        client.say(b"SUB readings.> archive 1\r\nSUB readings.%b 2\r\n" % identity.encode())
        client.flush()
    sensor = Speaker(msgpack_port(nodes, 1))
    for number in range(20):
        sensor.say([identity, {"Kind": "pressure"}, number])
    frames = {sid: b"MSG readings.%b %d " % (identity.encode(), sid) for sid in (1, 2)}
    for client in (here, there):
        client.hear_until(frames[2] + b"2\r\n19\r\n")
    shared = sum(client.flush().count(frames[1]) for client in (here, there))
    assert shared <= 20  # the rest came before the last of the others
    for client in (here, there):
        client.close()
    sensor.close()


def test_tests_on_messages_across_nodes(nodes: Nodes) -> None:
    """F6, G2: what is asked of a message is asked where it was published, and holds where it is delivered."""
    room, identity = uuid.uuid4().hex, str(uuid.uuid4())
    queries = [
        {"where": f"Room = '{room}' and $value > 80"},
        {"where": f"Room = '{room}' and $value < 50", "group": room},
        {"where": f"Room = '{room}' and $value >= 50", "group": room},
    ]
    subscribers = [Speaker(msgpack_port(nodes, number)) for number in (0, 0, 1)]
    for subscriber, query in zip(subscribers, queries, strict=True):
        subscriber.say(query)
        assert subscriber.hear() == {"New": [], "Del": []}
    sensor = Speaker(msgpack_port(nodes, 1))
    sensor.say([identity, {"Room": room}, 0])
    for value in range(1, 100):
        sensor.say([identity, {}, value])
    sensor.say({"forget": identity})
    wanted = [range(81, 100), range(50), range(50, 100)]
    for subscriber, values in zip(subscribers, wanted, strict=True):
        assert subscriber.hear() == {"New": [identity], "Del": []}
        assert [subscriber.hear()[2] for _ in values] == list(values)
        assert subscriber.hear() == {"New": [], "Del": [identity]}
    for client in (*subscribers, sensor):
        client.close()


def test_a_query_is_answered_on_another_node_to_who_names_the_topic(nodes: Nodes) -> None:
    """And to no consumer of everything there."""
    room, identity = uuid.uuid4().hex, str(uuid.uuid4())
    asking, wide, own = (Client(nodes[number].host, nodes[number].port) for number in (0, 1, 1))
    wide.say(b"SUB > 1\r\n")
    wide.flush()
    query = f"Room = '{room}'".encode()
    asking.say(b"SUB inbox 1\r\nPUB $FUM.where inbox %d\r\n%b\r\n" % (len(query), query))
    asking.hear_until(b"MSG inbox 1 ")
    answer = json.loads(asking.hear_until(b"}\r\n").partition(b"\r\n")[2])
    own.say(f"SUB {answer['diffs']} 1\r\nSUB {answer['topic']} 2\r\n".encode())
    own.flush()
    sensor = Speaker(msgpack_port(nodes, 1))
    sensor.say([identity, {"Room": room}, 21.5])
    heard = own.hear_until(b'"value": 21.5') + own.hear_until(b"\r\n")
    assert heard.index(f"MSG {answer['diffs']} 1 ".encode()) < heard.index(f"MSG {answer['topic']} 2 ".encode())
    wide.hear_until(b"\r\n\r\n21.5\r\n")
    assert b"_WHERE" not in wide.flush()
    for client in (asking, wide, own):
        client.close()
    sensor.close()


def test_producers_are_known_on_every_node(nodes: Nodes) -> None:
    identity = str(uuid.uuid4())
    publisher, asking = Client(nodes[1].host, nodes[1].port), Client(nodes[0].host, nodes[0].port)
    block = f'NATS/1.0\r\nProducer: {identity}\r\nMetadata: {{"Site": "{identity}"}}\r\n\r\n'.encode()
    asking.say(b"SUB inbox 1\r\nSUB told 2\r\n")
    asking.flush()
    publisher.say(b"HPUB readings.x %d %d\r\n%b21.5\r\nPUB told 0\r\n\r\n" % (len(block), len(block) + 4, block))
    asking.hear_until(b"MSG told 2 0\r\n\r\n")
    query = f"Site = '{identity}'".encode()
    asking.say(b"PUB $FUM.producers inbox %d\r\n%b\r\n" % (len(query), query))
    asking.hear_until(b"MSG inbox 1 ")
    answer = json.loads(asking.hear_until(b"}\r\n").partition(b"\r\n")[2])
    assert [(each["id"], said_by_producer(each["metadata"])) for each in answer["producers"]] == [
        (identity, {"Site": identity})
    ]
    for client in (publisher, asking):
        client.close()


def test_the_silent_are_forgotten_on_every_node(tmp_path: Path) -> None:
    """M7: who is silent leaves every set, and is said to be forgotten once; who goes on speaking stays."""
    settings = tmp_path / "fumarole.toml"
    settings.write_text('[namespaces.default]\nproducer_ttl = "1 s"\n')
    silent, steady = str(uuid.uuid4()), str(uuid.uuid4())
    with running(tmp_path, 2, flags=("--config", str(settings), "--msgpack", "127.0.0.1:0")) as nodes:
        subscribers = [Speaker(msgpack_port(nodes, number)) for number in (0, 1)]
        history = Client(nodes[0].host, nodes[0].port)
        history.say(b"SUB _FORGOTTEN 1\r\n")
        history.flush()
        sensor = Speaker(msgpack_port(nodes, 1))
        for subscriber in subscribers:
            subscriber.say("Kind = 'temperature'")
            assert subscriber.hear() == {"New": [], "Del": []}
        for identity in (silent, steady):
            sensor.say([identity, {"Kind": "temperature"}, 0])
        said = 1
        begun = time.monotonic()
        while time.monotonic() < begun + 1 + 3 * HEARSAY:
            time.sleep(0.4)
            sensor.say([steady, {}, said])
            said += 1
        for subscriber in subscribers:
            heard: list[Any] = []
            while heard[-1:] != [[steady, {}, said - 1]]:
                heard.append(subscriber.hear())
            assert [each for each in heard if isinstance(each, dict)] == [
                {"New": [silent], "Del": []},
                {"New": [steady], "Del": []},
                {"New": [], "Del": [silent]},
            ]
        assert history.flush().count(f"Producer: {silent}".encode()) == 1
        for speaker in (*subscribers, sensor):
            speaker.close()
        history.close()
