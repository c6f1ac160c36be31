"""C6 on real nodes: what producers say of themselves is known everywhere, so a query works from any node."""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest

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
    assert [(each["id"], each["metadata"]) for each in answer["producers"]] == [(identity, {"Site": identity})]
    for client in (publisher, asking):
        client.close()
