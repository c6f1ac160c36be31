"""Q5: what a PUBLISH says crosses NATS, HTTP and the link between nodes, and is an MQTT message again as it was."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fumarole.fastpath.hot_path import PLAIN, HotPath
from fumarole.protocols import mqtt_packets as packets
from fumarole.protocols.mqtt_fields import NONE, Packet, Property
from fumarole.protocols.mqtt_packets import V5, Filter, Publish
from fumarole.sessions.mqtt_forms import OWN, block_of, properties_of
from tests.cluster.simulation import World
from tests.cluster.simulation.hosts import Host
from tests.desk import Desk, MqttClient
from tests.random_examples import examples
from tests.sessions.http.web import Web

_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
_odd = st.sampled_from(["", " ", "a:b", "a b", "\r\nPUB x 1", "ü", "\x7f", *sorted(OWN), "k", "Kind", "%2E"])
_users = st.lists(st.tuples(st.one_of(_odd, _text), st.one_of(_odd, _text)), min_size=1, max_size=4).filter(
    lambda pairs: all(name not in ("Producer", "Metadata", "Status", "Description") for name, _ in pairs)
)
_given = st.fixed_dictionaries(
    {},
    optional={
        Property.PAYLOAD_FORMAT: st.integers(0, 1),
        Property.MESSAGE_EXPIRY: st.integers(0, 2**32 - 1),
        Property.CONTENT_TYPE: st.one_of(_odd, _text),
        Property.RESPONSE_TOPIC: st.sampled_from(["r/1", "answers/über/x y", "r/a.b"]),
        Property.CORRELATION_DATA: st.binary(max_size=9),
        Property.USER: _users,
    },
)
_payload = st.one_of(st.sampled_from([b"21.5", b"\xff\0", b""]), st.binary(max_size=9))
_qos = st.integers(0, 2)


@given(_given, _qos)
def test_a_header_block_and_back(given_: dict[int, Any], qos: int) -> None:
    """The definition, without any door; the response topic is no header."""
    given_ = {number: value for number, value in given_.items() if number != Property.RESPONSE_TOPIC}
    assert properties_of(block_of(given_, qos)) == given_


def published(client: MqttClient, payload: bytes, qos: int, given_: dict[int, Any]) -> None:
    client.asks(packets.publish(Publish("from", payload, qos, False, False, 1 if qos else 0, given_ or NONE), V5))


def only(subscriber: MqttClient) -> tuple[bytes, int, Any]:
    """The one message that it got."""
    (heard,) = subscriber.hears()
    for number in range(1, 4):  # so that no identifier stays in use
        subscriber.asks(packets.answer(Packet.PUBACK, number))
        subscriber.asks(packets.answer(Packet.PUBREC, number))
        subscriber.asks(packets.answer(Packet.PUBCOMP, number))
    return heard.payload, heard.qos, dict(heard.properties)


def subscriber_of(desk: Desk, topic: str) -> MqttClient:
    subscriber = MqttClient(desk, client_id=f"hears {topic}")
    subscriber.subscribe(Filter(topic, 2))
    return subscriber


@examples(60)
@given(_payload, _qos, _given)
def test_through_nats(payload: bytes, qos: int, given_: dict[int, Any]) -> None:
    """A NATS client that says again what it hears."""
    desk = Desk(PLAIN)
    nats, publisher, subscriber = desk.connect(), MqttClient(desk), subscriber_of(desk, "to")
    nats.say("SUB from 1\r\n")
    published(publisher, payload, qos, given_)
    line, _, rest = nats.hears().partition(b"\r\n")
    said = re.fullmatch(rb"H?MSG from 1 (.*)", line)
    assert said is not None
    nats.say((b"HPUB to " if line.startswith(b"H") else b"PUB to ") + said[1] + b"\r\n" + rest)
    assert only(subscriber) == (payload, qos, given_)


@examples(60)
@given(_payload, _qos, _given)
def test_through_http(payload: bytes, qos: int, given_: dict[int, Any]) -> None:
    """A page that posts again what a stream has brought."""
    desk = Desk(PLAIN)
    web, publisher, subscriber = Web(desk), MqttClient(desk), subscriber_of(desk, "to")
    browser = web.connect().sends("GET", "/v1/stream?topic=from")
    browser.hears()
    published(publisher, payload, qos, given_)
    ((name, message),) = browser.events()
    assert name == "message"
    del message["time"]
    answer = web.asks("POST", "/v1/topics", json.dumps(message | {"topic": "to"}))
    assert answer.status == 202, answer.body
    assert only(subscriber) == (payload, qos, given_)


class Branch(Desk):
    """The MQTT door of a host of the simulation."""

    def __init__(self, host: Host) -> None:
        self.hot_path: HotPath = host.hot_path
        self.now = host.now()
        self.node = host.node


class Waiting(MqttClient):
    """Its CONNACK comes when the other node has answered."""

    def admitted(self) -> None:
        pass


@cache
def two_nodes() -> tuple[World, MqttClient, MqttClient, MqttClient]:
    """Linked; a publisher at one, and a subscriber at each."""
    world = World(1, 2, PLAIN)
    world.start()
    here, there = world.running[0], world.running[1]
    publisher, near = (Waiting(Branch(here), connects=False) for _ in range(2))
    far = Waiting(Branch(there), connects=False)
    for client, host, client_id in ((publisher, here, "p"), (near, here, "near"), (far, there, "far")):
        client.send(packets.connect(packets.Connect(V5, client_id, True, 0, None, None, None, NONE)))
        host.flush()
        world.run(0.2)
        client.hears()
    for client, host in ((near, here), (far, there)):
        client.send(packets.subscribe(packets.Subscribe(9, (Filter("from", 2),), NONE), V5))
        host.flush()
        world.run(0.2)
        client.hears()
    return world, publisher, near, far


@examples(60)
@given(_payload, _qos, _given)
def test_through_the_link_between_nodes(payload: bytes, qos: int, given_: dict[int, Any]) -> None:
    """What the other node delivers is what this one does."""
    world, publisher, near, far = two_nodes()
    published(publisher, payload, qos, given_)
    publisher.asks(packets.answer(Packet.PUBREL, 1))
    world.running[0].flush()
    world.run(0.1)
    assert only(near) == only(far) == (payload, qos, given_)


def test_a_reading_crosses_too() -> None:
    """Q4: metadata and value at HTTP; what is posted again is the same producer's, and its user properties again."""
    desk = Desk(PLAIN)
    web = Web(desk)
    publisher = MqttClient(desk, client_id="atka-7", metadata=[("Kind", "so2")])
    browser = web.connect().sends("GET", "/v1/stream?topic=from")
    browser.hears()
    published(publisher, b"21.5", 1, {Property.USER: [("Room", "410"), ("traceparent", "00-1")]})
    ((name, message),) = browser.events()
    assert name == "reading"
    assert (message["metadata"], message["value"]) == ({"Room": 410}, 21.5)
    assert message["headers"]["traceparent"] == "00-1"
    subscriber = subscriber_of(desk, "to")
    del message["time"]
    assert web.asks("POST", "/v1/topics", json.dumps(message | {"topic": "to"})).status == 202
    _, qos, properties = only(subscriber)
    assert qos == 1
    assert ("Room", "410") in properties[Property.USER]
    assert ("Producer", message["producer"]) in properties[Property.USER]
