"""Two nodes with all doors, users under different rules, and clients of every door for the matrix of permissions."""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import os
import re
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from fumarole.core import headers
from fumarole.protocols import mqtt_packets as packets
from fumarole.protocols.kubemq_pb2 import Response
from fumarole.protocols.mqtt_fields import NONE, Packet, Properties
from fumarole.protocols.mqtt_packets import V5, Acknowledged, Connect, Filter, Subscribe, Will
from fumarole.server.credentials import token_digest
from tests.integration.bridge.rabbitmq import RabbitMq
from tests.integration.kubemq.calls import Calls
from tests.integration.mqtt.raw_mqtt import Raw
from tests.integration.peer import Peer
from tests.integration.raw import RawClient
from tests.integration.running import RunningBroker

SECRET, SECRET_TOPIC = "5ec7e700-0000-4000-8000-000000000001", "5ec7e700-0000-4000-8000-000000000002"
OPEN, OPEN_TOPIC = "09e40000-0000-4000-8000-000000000001", "09e40000-0000-4000-8000-000000000002"
MARK = "3a4c0000-0000-4000-8000-000000000001"
IDS = {SECRET: "secret id", SECRET_TOPIC: "secret topic", OPEN: "open id", OPEN_TOPIC: "open topic"}
"""Producers, by the rule that decides over them: `readings.<id>`, or the topic of the last reading."""
TOPICS = {
    SECRET: f"readings.{SECRET}",
    SECRET_TOPIC: "secret.r",
    OPEN: f"readings.{OPEN}",
    OPEN_TOPIC: "open.r",
    MARK: "open.mark",
}
_MINE = [
    "open.>",
    "_COMMANDS_.open.>",
    "_QUERIES_.open.>",
    f"readings.{OPEN}",
    f"readings.{MARK}",
    "_INBOX.>",
    "_WHERE.>",
]
_NOT_MINE = ["secret.>", f"readings.{SECRET}"]
RULES = {
    "none": {},
    "allow": {"allow": [*_MINE, "_FORGOTTEN"]},
    "deny": {"deny": _NOT_MINE},
    "both": {"allow": [*_MINE, "_FORGOTTEN", *_NOT_MINE], "deny": _NOT_MINE},
}
"""Of users by their names, which are their tokens too."""
_DOOR_OPEN = re.compile(r"(\w+) door open on [0-9.]+:([0-9]+)")


def config() -> str:
    """The users, and every door."""
    doors = "".join(f'{name} = ["127.0.0.1:0"]\n' for name in ("msgpack", "kubemq", "mqtt", "http"))
    users = [f'[[users]]\nname = "root"\ntoken = "{token_digest("root")}"\nroles = ["admin"]\n']
    for name, rules in RULES.items():
        table = ", ".join(f"{key} = {json.dumps(value)}" for key, value in rules.items())
        said = f"publish = {{ {table} }}\nsubscribe = {{ {table} }}\n" if rules else ""
        users.append(f'[[users]]\nname = "{name}"\ntoken = "{token_digest(name)}"\n{said}')
    return f"[doors]\n{doors}\n" + "\n".join(users)


class AccessNode(RunningBroker):
    """A node with every door, and what a client needs to come in."""

    def __init__(self, folder: Path, first_lines: str, hot_path: str = "compiled") -> None:
        self.doors: dict[str, int] = {}
        super().__init__(folder, first_lines + config(), hot_path)

    def heard(self, line: str) -> bool:
        if door := _DOOR_OPEN.search(line):
            self.doors[door[1]] = int(door[2])
        return super().heard(line)

    # Clients of each door.

    def nats(self, token: str) -> RawClient:
        client = RawClient(self.port)
        client.connect(auth_token=token)
        return client

    def nats_over_web(self, token: str) -> RawClient:
        client = RawClient.__new__(RawClient)
        client.received = bytearray()
        client.socket = WebSocket(self.doors["Web"], "/nats")  # type: ignore[assignment]
        client.read_until(b"\r\n")
        client.connect(auth_token=token)
        return client

    def mqtt(self, token: str, will: Will | None = None) -> MqttPeer:
        return MqttPeer(socket.create_connection(("127.0.0.1", self.doors["MQTT"]), timeout=20), token, will)

    def mqtt_over_web(self, token: str, will: Will | None = None) -> MqttPeer:
        return MqttPeer(WebSocket(self.doors["Web"], "/mqtt", "mqtt"), token, will)

    def msgpack(self, token: str, *values: Any) -> Peer:
        return Peer(self, {"token": token}, *values, namespace=None)

    def kubemq(self, token: str) -> Calls:
        return Calls(self.doors["KubeMQ"], token)

    def web(self, token: str, method: str, path: str, body: bytes | str = b"", **fields: str) -> tuple[int, bytes]:
        """One request and its whole answer."""
        with WebStream(self, token, method, path, body, **fields) as stream:
            return stream.status, stream.answer.read()

    def ask(self, service: str, payload: str = "", token: str = "root") -> Any:
        """What the node answers to a request on `$FUM.…`."""
        with self.nats(token) as client:
            client.send(
                b"SUB _INBOX.x 1\r\nPUB $FUM.%b _INBOX.x %d\r\n%b\r\n"
                % (service.encode(), len(payload.encode()), payload.encode())
            )
            client.read_until(b"MSG _INBOX.x 1 ")
            size = int(client.read_until(b"\r\n"))
            return json.loads(client.read_exactly(size))


class WebSocket:
    """The client's end, with as much of a socket as a raw client needs."""

    def __init__(self, port: int, path: str, protocol: str = "") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._received = bytearray()
        wanted = f"Sec-WebSocket-Protocol: {protocol}\r\n" if protocol else ""
        self._socket.sendall(
            (
                f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n"
                f"{wanted}\r\n"
            ).encode()
        )
        while b"\r\n\r\n" not in self._received:
            data = self._socket.recv(4096)
            assert data, bytes(self._received)
            self._received += data
        head, _, rest = bytes(self._received).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head
        self._received = bytearray(rest)

    def sendall(self, data: bytes) -> None:
        """One frame with a mask of zeros."""
        length = len(data)
        size = bytes((0x80 | length,)) if length < 126 else b"\xfe" + length.to_bytes(2)
        self._socket.sendall(b"\x82" + size + bytes(4) + data)

    def recv(self, _size: int) -> bytes:
        """What the next frame carries."""
        self._need(2)
        length, head = self._received[1] & 0x7F, 2
        if length >= 126:
            head += 2 if length == 126 else 8
            self._need(head)
            length = int.from_bytes(self._received[2:head])
        self._need(head + length)
        is_end = self._received[0] & 0x0F == 8
        carried = bytes(self._received[head : head + length])
        del self._received[: head + length]
        return b"" if is_end else carried

    def _need(self, count: int) -> None:
        while len(self._received) < count:
            data = self._socket.recv(65536)
            if not data:
                raise EOFError
            self._received += data

    def close(self) -> None:
        self._socket.close()


class MqttPeer(Raw):
    """A client of the MQTT door with a token."""

    def __init__(self, over: Any, token: str, will: Will | None = None) -> None:
        self.socket = over
        self._protocol = packets_of_a_client()
        self._events = []
        self.say(packets.connect(Connect(V5, "", True, 0, None, token.encode(), will, NONE)))
        self.connack = self.hear()

    def subscribe(self, *filters: str) -> Any:
        asked = tuple(Filter(each, 0) for each in filters)
        self.say(packets.subscribe(Subscribe(1, asked, NONE), V5))
        before = []
        while not isinstance(event := self.hear(), Acknowledged):
            before.append(event)
        self._events[:0] = before
        return event

    def publishes(
        self, topic: str, payload: bytes, qos: int = 0, *, retain: bool = False, given: Properties = NONE
    ) -> int:
        """The reason code of the answer; 0 where there is none."""
        event = packets.Publish(topic, payload, qos, retain, False, 1 if qos else 0, given)
        self.say(packets.publish(event, V5))
        if not qos:
            self.settle()
            return 0
        answer: Any = self.hear()
        if qos == 2 and answer.reason < 0x80:
            self.say(packets.answer(Packet.PUBREL, 1))
            self.hear()
        return int(answer.reason)


def packets_of_a_client() -> Any:
    from fumarole.protocols.mqtt import ClientProtocol

    return ClientProtocol(V5)


class WebStream:
    """One request; its answer is read as it comes."""

    def __init__(
        self, node: AccessNode, token: str, method: str, path: str, body: bytes | str = b"", **fields: str
    ) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", node.doors["Web"], timeout=20)
        given = {"Authorization": f"Bearer {token}"} | {name.replace("_", "-"): text for name, text in fields.items()}
        self._connection.request(method, path, body or None, given)
        self.answer = self._connection.getresponse()
        self.status = self.answer.status

    def read_until(self, end: bytes) -> bytes:
        """What has come up to the line with these bytes, or to the end of the answer."""
        said = b""
        while end not in said:
            line = self.answer.readline()
            if not line:
                break
            said += line
        return said

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def reading_headers(producer: str, metadata: dict[str, Any]) -> bytes:
    """The headers of a NATS message that is a reading."""
    return headers.build([("Producer", producer), ("Metadata", json.dumps(metadata))])


def named(said: bytes | str, number: int) -> set[str]:
    """The messages and producers of a cell that these bytes tell of."""
    data = said if isinstance(said, bytes) else said.encode()
    found = {name for name in ("secret", "open") if b"%b %d." % (name.encode(), number) in data}
    found |= {name for identity, name in IDS.items() if identity.encode() in data}
    return found | {name for name in IDS.values() if f"{name} {number}.".encode() in data}


class Stage:
    """The two nodes, and root, who says everything that others may hear or not."""

    def __init__(self, nodes: list[AccessNode], folder: Path) -> None:
        self.nodes = nodes
        self._folder = folder
        self._rabbitmq: RabbitMq | None = None
        self.root = nodes[0].nats("root")
        self._numbers = itertools.count(1)

    def number(self) -> int:
        """Of a cell, so that no cell hears another."""
        return next(self._numbers)

    def close(self) -> None:
        self.root.close()
        if self._rabbitmq is not None:
            self._rabbitmq.close()

    def rabbitmq(self) -> RabbitMq:
        """Started when it is first asked for: it takes long."""
        if self._rabbitmq is None:
            self._rabbitmq = RabbitMq(self._folder)
        return self._rabbitmq

    def publish(self, number: int, last_word: str = "a", retain: bool = False) -> None:
        """The secret message, then the open one."""
        block = headers.build([("Retain", "1")]) if retain else headers.build([("X", "y")])
        for first in ("secret", "open"):
            payload = f"{first} {number}.".encode()
            self.root.send(
                b"HPUB %b.%b _INBOX.nobody %d %d\r\n%b%b\r\n"
                % (first.encode(), last_word.encode(), len(block), len(block) + len(payload), block, payload)
            )
        self.settle()

    def read(self, number: int, cell: int, producers: Iterable[str] = (*IDS, MARK)) -> None:
        """A reading of each producer, the secret ones first."""
        for each in producers:
            metadata = {"Cell": cell, "Name": f"{IDS.get(each, 'mark')} {number}.", "Round": number}
            block = reading_headers(each, metadata)
            self.root.send(b"HPUB %b %d %d\r\n%b1\r\n" % (TOPICS[each].encode(), len(block), len(block) + 1, block))
        self.settle()

    def answer(self, node: AccessNode, request: Any) -> None:
        """Root answers a request of the KubeMQ door."""
        with node.kubemq("root") as calls:
            response = Response(ClientID="r", RequestID=request.RequestID, ReplyChannel=request.ReplyChannel)
            response.Executed = True
            calls.unary("SendResponse", response)

    def settle(self) -> None:
        """All of it is taken in; what comes back is passed over."""
        self.root.talk(b"")

    def await_producers(self, node: AccessNode, cell: int, count: int) -> None:
        """Blocks until this node knows so many producers of the cell: metadata come from the other node."""
        while len(node.ask("producers", f"Cell = {cell}")["producers"]) != count:
            pass


def two_nodes(folders: Iterator[Path], cluster_port: int, other_port: int, hot_path: str) -> list[AccessNode]:
    """Two nodes of a cluster."""
    first = AccessNode(next(folders), f'node = "a"\ncluster = "127.0.0.1:{cluster_port}"\n', hot_path)
    try:
        peer = f'peer = ["127.0.0.1:{cluster_port}"]\n'
        return [first, AccessNode(next(folders), f'node = "b"\ncluster = "127.0.0.1:{other_port}"\n{peer}', hot_path)]
    except BaseException:
        first.kill()
        raise
