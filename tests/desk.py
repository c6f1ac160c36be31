"""A broker without sockets: sessions on one node, bytes in, bytes out. For tests of sessions and of the fast path."""

import json
from typing import Any

import msgpack

from fumarole.core.limits import Limits
from fumarole.exchange.namespaces import NamespaceRules, Namespaces
from fumarole.exchange.node import Node
from fumarole.fastpath.hot_path import HotPath
from fumarole.protocols import mqtt, mqtt_packets
from fumarole.protocols.mqtt_fields import Property
from fumarole.protocols.mqtt_packets import V5, Connect, Filter, Will
from fumarole.protocols.stream import StreamProtocol
from fumarole.sessions.mqtt import MqttSession, Terms
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

    def admitted(self) -> None:
        """What was waited for is there: the pump goes on."""
        while self.reader.unfinished:
            self.reader.go_on()

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

    def admitted(self) -> None:
        """What was waited for is there: the pump goes on."""
        while self.reader.unfinished:
            self.reader.go_on()

    def hears(self) -> list[Any]:
        unpacker = msgpack.Unpacker()
        unpacker.feed(self.session.outbox.take())
        return list(unpacker)


class MqttClient:
    """The same, on the MQTT door, with the client's end of the protocol."""

    def __init__(self, desk: "Desk", version: int = V5, terms: Terms | None = None, **options: Any) -> None:
        self.version = version
        self.protocol = mqtt.ClientProtocol(version)
        self.session = MqttSession(desk.node, RemoteAddress("", 0, ""), desk.now, self, terms or Terms())
        reader = desk.hot_path.mqtt_reader
        self.reader = self.session if reader is None else reader(self.session)
        if options.pop("connects", True):
            self.connect(**options)

    def connect(self, client_id: str = "", will: Will | None = None, **options: Any) -> "MqttClient":
        """Says CONNECT. What it is answered is `connack`."""
        keep_alive, user = options.pop("keep_alive", 0), options.pop("user", None)
        password, clean = options.pop("password", None), options.pop("clean", True)
        users = options.pop("metadata", None)
        given: dict[int, Any] = {Property[name.upper()]: value for name, value in options.items()}
        given |= {Property.USER: users} if users else {}
        event = Connect(self.version, client_id, clean, keep_alive, user, password, will, given)
        self.send(mqtt_packets.connect(event))
        self.protocol.alias_maximum = options.get("topic_alias_maximum", 0)
        heard = self.hears()
        self.connack = heard[0] if heard else None
        return self

    def send(self, raw: bytes) -> "MqttClient":
        self.reader.receive_data(raw)
        while self.reader.unfinished:
            self.reader.go_on()
        return self

    def flush(self) -> None:
        """What it hears waits until the test takes it."""

    def admitted(self) -> None:
        """What was waited for is there: the pump goes on."""
        while self.reader.unfinished:
            self.reader.go_on()

    def raw(self) -> bytes:
        return self.session.outbox.take()

    def hears(self) -> list[Any]:
        return events_of(self.protocol, self.raw())

    def asks(self, raw: bytes) -> list[Any]:
        return self.send(raw).hears()

    def publish(self, topic: str, payload: bytes = b"", qos: int = 0, packet_id: int = 1, **more: Any) -> list[Any]:
        """What comes back."""
        retain, dup = more.pop("retain", False), more.pop("dup", False)
        given: dict[int, Any] = {Property[name.upper()]: value for name, value in more.items()}
        event = mqtt_packets.Publish(topic, payload, qos, retain, dup, packet_id if qos else 0, given)
        return self.asks(mqtt_packets.publish(event, self.version))

    def subscribe(self, *filters: str | Filter, identifier: int = 0, qos: int = 0) -> list[Any]:
        """What comes back."""
        asked = tuple([Filter(each, qos) if isinstance(each, str) else each for each in filters])
        given: dict[int, Any] = {Property.SUBSCRIPTION_IDENTIFIER: identifier} if identifier else {}
        return self.asks(mqtt_packets.subscribe(mqtt_packets.Subscribe(9, asked, given), self.version))


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

    def last_values(self) -> dict[str, list[tuple[str, bytes, bytes]]]:
        """What namespaces with `last = "all"` keep (F2), by name: topics, headers, payloads."""
        kept = {exchange.name: exchange.last_values for exchange in self.node.namespaces}
        return {
            name: [(topic, block, payload) for topic, _, block, payload in values.some(0, len(values), "")]
            for name, values in kept.items()
            if values is not None
        }

    def counters(self, namespace: str = "default") -> dict[str, Any]:
        """What the namespace has counted."""
        (exchange,) = (each for each in self.node.namespaces if each.name == namespace)
        return exchange.report()


def events_of(protocol: StreamProtocol[Any], *pieces: bytes) -> list[Any]:
    """What a protocol hears."""
    events: list[Any] = []
    for piece in pieces:
        protocol.receive_data(piece)
        while more := protocol.events_received():
            events += more
    return events
