"""A broker without sockets: sessions on one node, bytes in, bytes out. For tests of sessions and of the fast path."""

import json
from typing import Any

import msgpack

from fumarole.core.limits import Limits
from fumarole.exchange.namespaces import NamespaceRules, Namespaces
from fumarole.exchange.node import Node
from fumarole.fastpath.hot_path import HotPath
from fumarole.protocols.nats import Event, Protocol
from fumarole.sessions.msgpack import MsgPackSession
from fumarole.sessions.nats import NatsSession
from fumarole.sessions.stream import RemoteAddress


class Client:
    """One connection. `owner` of its outbox, as the pump is in real life."""

    def __init__(self, desk: "Desk") -> None:
        self.session = NatsSession(desk.node, RemoteAddress("127.0.0.1", 4222, "127.0.0.1"), desk.now, self)
        reader = desk.hot_path.nats_reader
        self.reader = self.session if reader is None else reader(self.session)

    def say(self, data: bytes | str) -> "Client":
        """The client sends this."""
        self.reader.receive_data(data if isinstance(data, bytes) else data.encode())
        while self.reader.unfinished:
            self.reader.go_on()
        return self

    def flush(self) -> None:
        """What it hears waits until the test takes it."""

    def hears(self) -> bytes:
        """Everything that waits for the client."""
        return self.session.outbox.take()

    def asks(self, data: bytes | str) -> bytes:
        """Sends, and what comes back."""
        self.say(data)
        return self.hears()


class MsgPackClient:
    """The same, on the MsgPack door."""

    def __init__(self, desk: "Desk") -> None:
        self.session = MsgPackSession(desk.node, RemoteAddress("", 0, ""), desk.now, self, "default")
        reader = desk.hot_path.msgpack_reader
        self.reader = self.session if reader is None else reader(self.session)

    def say(self, *values: Any) -> "MsgPackClient":
        return self.send(b"".join(map(msgpack.packb, values)))

    def send(self, raw: bytes) -> "MsgPackClient":
        self.reader.receive_data(raw)
        while self.reader.unfinished:
            self.reader.go_on()
        return self

    def flush(self) -> None:
        """What it hears waits until the test takes it."""

    def hears(self) -> list[Any]:
        unpacker = msgpack.Unpacker()
        unpacker.feed(self.session.outbox.take())
        return list(unpacker)


class Desk:
    """A node in this process."""

    def __init__(
        self,
        hot_path: HotPath,
        limits: Limits | None = None,
        rules: dict[str, NamespaceRules] | None = None,
        allowed: frozenset[str] | None = None,
        authentication: bool = False,
    ) -> None:
        self.hot_path = hot_path
        self.now = 1000.0
        limits = limits or Limits()
        namespaces = Namespaces(limits, rules, allowed, hot_path.parts)
        self.node = Node("desk", "0", limits, namespaces, hot_path.parts, authentication)

    def connect(self, **options: Any) -> Client:
        """A client that has said CONNECT and heard INFO."""
        client = Client(self)
        client.say(f"CONNECT {json.dumps({'verbose': False, 'headers': True, **options})}\r\n")
        client.hears()
        return client

    def counters(self, namespace: str = "default") -> dict[str, Any]:
        """What the namespace has counted."""
        (exchange,) = (each for each in self.node.namespaces if each.name == namespace)
        return exchange.report()


def events_of(protocol: Protocol, *pieces: bytes) -> list[Event]:
    """What a protocol hears."""
    events: list[Event] = []
    for piece in pieces:
        protocol.receive_data(piece)
        while more := protocol.events_received():
            events += more
    return events
