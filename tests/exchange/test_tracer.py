"""Spans of sampled messages (O3), at every door and on every path that a message takes through an exchange."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from fumarole.bridge.exchange_link import from_headers, to_headers
from fumarole.core import headers
from fumarole.core.tracing import Span, sampled
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.tracer import MOST_SHOWN, Tracer
from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled
from fumarole.protocols.cluster_protocol import Entry, message
from fumarole.protocols.kubemq import event_publication, publication_event
from fumarole.protocols.kubemq_pb2 import Event
from fumarole.protocols.mqtt_fields import Property
from fumarole.protocols.mqtt_packets import Publish
from tests.core.test_tracing import GOOD, SPAN, TRACE
from tests.desk import Desk, MqttClient, MsgPackClient
from tests.fastpath.test_cluster_protocol_equal import Table
from tests.sessions.http.web import Web

NOT_SAMPLED = f"00-{TRACE}-{SPAN}-00"
PRODUCER = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
FORMS: list[Any] = [
    pytest.param(PLAIN, id="pure"),
    pytest.param(compiled(), id="compiled", marks=pytest.mark.skipif(compiled() is None, reason="not built")),
]


def tracer(most: int = 100) -> Tracer:
    clock, chance = itertools.count(1_000, 10), itertools.count(1)
    return Tracer("desk", lambda: next(clock), lambda size: next(chance).to_bytes(size, "big"), most)


@pytest.fixture(params=FORMS)
def desk(request: pytest.FixtureRequest) -> Desk:
    hot_path: HotPath = request.param
    desk = Desk(hot_path)
    desk.node.namespaces.trace(tracer())
    return desk


def spans(desk: Desk) -> list[Span]:
    assert desk.node.namespaces.tracer is not None
    return desk.node.namespaces.tracer.take(1_000)


def names(desk: Desk) -> list[str]:
    return [span.name for span in spans(desk)]


def hpub(topic: str, value: str, *more: tuple[str, str], payload: bytes = b"21.5") -> bytes:
    block = headers.build([("traceparent", value), *more])
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (
        topic.encode(), len(block), len(block) + len(payload), block, payload
    )  # fmt: skip


def test_a_message_is_published_and_delivered(desk: Desk) -> None:
    consumer = desk.connect(name="pen recorder").say("SUB volcanoes.> 1\r\nSUB volcanoes.* g 2\r\nPING\r\n")
    desk.connect().say(hpub("volcanoes.usa", GOOD))
    assert GOOD.encode() in consumer.hears()  # unchanged: it is the publisher's
    alone, member, publish = spans(desk)
    assert [alone.name, member.name, publish.name] == ["deliver", "deliver", "publish"]
    assert {each.trace.hex() for each in (alone, member, publish)} == {TRACE}
    assert publish.parent.hex() == SPAN
    assert alone.parent == member.parent == publish.span
    assert len({alone.span, member.span, publish.span}) == 3
    assert (publish.is_taken_in, alone.is_taken_in) == (True, False)
    assert publish.began <= alone.began <= alone.ended <= member.began <= member.ended <= publish.ended
    about = dict(publish.attributes)
    assert about["messaging.destination.name"] == "volcanoes.usa"
    assert about["fumarole.namespace"] == "default"
    assert about["messaging.message.body.size"] == 4
    assert about["fumarole.reached"] == 2
    assert dict(member.attributes)["messaging.consumer.group.name"] == "g"
    assert "pen recorder" in str(dict(alone.attributes)["fumarole.consumer"])


def test_a_message_that_nobody_gets_has_a_span_too(desk: Desk) -> None:
    desk.connect().say(hpub("nobody", GOOD))
    (publish,) = spans(desk)
    assert dict(publish.attributes)["fumarole.reached"] == 0


@pytest.mark.parametrize("value", [NOT_SAMPLED, "nonsense"])
def test_others_have_none(value: str, desk: Desk) -> None:
    consumer = desk.connect().say("SUB > 1\r\n")
    desk.connect().say(hpub("a", value)).say("PUB a 1\r\nx\r\n")
    assert value.encode() in consumer.hears()
    assert spans(desk) == []


@pytest.mark.parametrize("hot_path", FORMS)
def test_without_a_tracer_there_are_none(hot_path: HotPath) -> None:
    desk = Desk(hot_path)
    consumer = desk.connect().say("SUB > 1\r\n")
    desk.connect().say(hpub("a", GOOD))
    assert GOOD.encode() in consumer.hears()


def test_readings_have_spans(desk: Desk) -> None:
    subscriber = desk.connect().say("SUB readings.> 1\r\n")
    publisher = desk.connect()
    for number in range(3):  # from the second on, the compiled reader takes readings
        publisher.say(hpub(f"readings.{PRODUCER}", GOOD, ("Producer", PRODUCER), payload=b"%d" % number))
    assert subscriber.hears().count(GOOD.encode()) == 3
    assert names(desk) == ["deliver", "publish"] * 3


def publish_nats(desk: Desk) -> None:
    desk.connect().say(hpub("a", GOOD))


def publish_mqtt(desk: Desk) -> None:
    MqttClient(desk).publish("a", b"21.5", user=[("traceparent", GOOD)])


def publish_http(desk: Desk) -> None:
    assert Web(desk).asks("POST", "/v1/topics/a", b"21.5", traceparent=GOOD).status == 202


def publish_http_lines(desk: Desk) -> None:
    line = b'{"topic": "a", "payload": "21.5", "headers": {"traceparent": "%b"}}\n' % GOOD.encode()
    assert Web(desk).asks("POST", "/v1/topics", line).status == 202


def publish_msgpack(desk: Desk) -> None:
    client = MsgPackClient(desk).say({"id": PRODUCER, "value": 21.5, "topic": "a", "traceparent": GOOD})
    assert client.hears() == []


PUBLISHERS = [publish_nats, publish_mqtt, publish_http, publish_http_lines, publish_msgpack]


@pytest.mark.parametrize("publish", PUBLISHERS)
def test_it_travels_from_each_door_to_each_other(publish: Callable[[Desk], None], desk: Desk) -> None:
    on_nats = desk.connect().say("SUB a 1\r\n")
    on_mqtt = MqttClient(desk)
    on_mqtt.subscribe("a")
    on_web = Web(desk).connect().sends("GET", "/v1/stream?topic=a")
    on_web.hears()
    publish(desk)
    assert f"traceparent: {GOOD}\r\n".encode() in on_nats.hears()
    (received,) = [event for event in on_mqtt.hears() if isinstance(event, Publish)]
    assert ("traceparent", GOOD) in received.properties[Property.USER]
    assert f'"traceparent":"{GOOD}"'.encode() in on_web.hears()
    assert names(desk) == ["deliver"] * 3 + ["publish"]


def test_posts_with_one_head_have_each_a_span(desk: Desk) -> None:
    browser = Web(desk).connect()
    for _ in range(3):  # the second would be taken by the compiled reader
        assert browser.asks("POST", "/v1/topics/a", b"21.5", traceparent=GOOD).status == 202
    assert names(desk) == ["publish"] * 3


def test_a_msgpack_client_with_a_wrong_one_hears_of_it(desk: Desk) -> None:
    client = MsgPackClient(desk).say({"id": PRODUCER, "value": 1, "traceparent": "x\r\nProducer: y"})
    (told,) = client.hears()
    assert "traceparent" in told["Error"]


@pytest.mark.parametrize("hot_path", FORMS)
def test_a_forwarded_message_has_spans_on_both_nodes(hot_path: HotPath) -> None:
    """On the node that took it a forward to each node; on theirs a delivery, child of the publisher's span too."""
    table = Table(hot_path, NamespaceRules(), tracer())
    desk = table.desk
    for number in (0, 1):
        table.take("entry", (number, Entry("default", "a", "", 1, "", None, ()), 0))
    desk.connect().say(hpub("a", GOOD))
    assert all(GOOD.encode() in peer.outbox.take() for peer in table.peers)
    one, two, publish = spans(desk)
    assert [each.name for each in (one, two, publish)] == ["forward", "forward", "publish"]
    assert one.parent == two.parent == publish.span
    assert {dict(each.attributes)["fumarole.to_node"] for each in (one, two)} == {"one", "two"}

    consumer = desk.connect().say("SUB a 1\r\nSUB a 2\r\n")
    block = headers.build([("traceparent", GOOD)])
    table.take("frames", (0, message(b"a", b"default", b"", block, b"x"), 0))
    table.take("frames", (0, message(b"a", b"default", b"", headers.build([("A", "b")]), b"x"), 0))
    assert consumer.hears().count(b"HMSG a ") == 4
    arrived = spans(desk)
    assert [(each.name, each.parent.hex(), each.trace.hex()) for each in arrived] == [("deliver", SPAN, TRACE)] * 2


def test_tags_of_kubemq_are_headers() -> None:
    event = Event(EventID="1", ClientID="c", Channel="a", Body=b"x", Tags={"traceparent": GOOD})
    publication = event_publication(event, "a")
    assert sampled(publication.headers) is not None
    assert publication_event(publication, str).Tags["traceparent"] == GOOD


def test_headers_of_amqp_are_headers() -> None:
    pairs = to_headers({}, {"traceparent": GOOD}, "hop")
    assert sampled(headers.build(pairs)) is not None
    assert from_headers(pairs, "hop")[1]["traceparent"] == GOOD


# What any client can cost.


def test_only_so_many_spans_wait() -> None:
    few = tracer(most=3)
    exchange = Exchange("a")
    exchange.tracer = few
    for _ in range(5):
        exchange.publish_to("a", b"", headers=headers.build([("traceparent", GOOD)]))
    assert (len(few.take(10)), few.dropped) == (3, 2)
    exchange.publish_to("a", b"", headers=headers.build([("traceparent", GOOD)]))
    assert (len(few.take(10)), few.dropped) == (1, 2)


def test_only_so_many_deliveries_of_a_message_are_shown() -> None:
    desk = Desk(PLAIN)
    desk.node.namespaces.trace(tracer(most=1_000))
    consumer = desk.connect()
    for number in range(MOST_SHOWN + 10):
        consumer.say(f"SUB a {number}\r\n")
    desk.connect().say(hpub("a", GOOD))
    assert consumer.hears().count(b"HMSG a ") == MOST_SHOWN + 10
    assert names(desk) == ["deliver"] * MOST_SHOWN + ["publish"]


def test_a_long_topic_is_cut_in_its_span() -> None:
    desk = Desk(PLAIN)
    desk.node.namespaces.trace(tracer())
    desk.connect().say(hpub("x" * 1_000, GOOD))
    (publish,) = spans(desk)
    assert dict(publish.attributes)["messaging.destination.name"] == "x" * 128
