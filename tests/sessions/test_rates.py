"""A5 at each door: messages and bytes a second of a namespace and of a user. Over it: a sentence, counted; others go on."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fumarole.core.limits import Limits, Quotas
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.permissions import User
from fumarole.fastpath.hot_path import HotPath
from fumarole.protocols.kubemq import Fault
from fumarole.protocols.kubemq_pb2 import Event
from fumarole.sessions.kubemq import KubemqService
from tests.desk import Desk, MqttClient, MsgPackClient
from tests.sessions.http.web import Web

A = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
SENTENCE = "namespace default may publish 2 messages a second; this one is refused"


@pytest.fixture
def desk(hot_path: HotPath) -> Desk:
    return Desk(hot_path, Limits(), {"default": NamespaceRules(quota=Quotas(messages_per_second=2))})


def by_nats(desk: Desk) -> str:
    return desk.connect().asks("PUB a 1\r\nx\r\n" * 3).decode()


def by_msgpack(desk: Desk) -> str:
    return str(MsgPackClient(desk).say([A, {}, 1], [A, {}, 2], [A, {}, 3]).hears())


def by_mqtt(desk: Desk) -> str:
    client = MqttClient(desk)
    return str([client.publish("a", b"x", 1, number) for number in (1, 2, 3)])


def by_http(desk: Desk) -> str:
    browser = Web(desk).connect()
    return str([browser.asks("POST", "/v1/topics/a", "x").body for _ in range(3)])


def by_lines(desk: Desk) -> str:
    lines = "\n".join([json.dumps({"topic": "a", "payload": "x"})] * 3)
    return Web(desk).asks("POST", "/v1/topics", lines, Content_Type="application/x-ndjson").body.decode()


def by_kubemq(desk: Desk) -> str:
    call = KubemqService(desk.node, "default", lambda: "id", 0.0).open("", None)
    said = []
    for _ in range(3):
        try:
            said.append(str(call.send_event(Event(Channel="a", ClientID="me", Body=b"x"))))
        except Fault as fault:
            said.append(str(fault))
    return str(said)


DOORS = {
    "NATS": by_nats,
    "MsgPack": by_msgpack,
    "MQTT": by_mqtt,
    "HTTP": by_http,
    "lines": by_lines,
    "KubeMQ": by_kubemq,
}


@pytest.mark.parametrize("publish", DOORS.values(), ids=DOORS)
def test_two_a_second(desk: Desk, publish: Callable[[Desk], str]) -> None:
    answer = publish(desk)
    (exchange,) = desk.node.namespaces
    assert exchange.counters.received == 2
    assert exchange.usage.report()["refused"] == {"messages_per_second": 1}
    assert publish is by_mqtt or SENTENCE in answer
    assert publish is not by_mqtt or "QUOTA" in answer or "151" in answer, answer
    desk.node.namespaces.timers.run(0.5)
    publish(desk)
    assert exchange.counters.received == 3


def test_the_bytes_of_a_user(hot_path: HotPath) -> None:
    desk = Desk(hot_path, authentication=True)
    client, other = (desk.connect(user=name, **{"pass": "x"}) for name in ("ann", "bob"))
    for each, name, quota in ((client, "ann", Quotas(bytes_per_second=10)), (other, "bob", Quotas())):
        each.session.admit(User(name, "default", quota=quota))
        each.hears()
    assert b"Over Quota: user ann may publish 10 bytes a second" in client.asks(
        "PUB a 20\r\n" + "x" * 20 + "\r\n" + "PUB a 1\r\nx\r\n"
    )
    assert other.asks("PUB a 20\r\n" + "x" * 20 + "\r\n" + "PUB a 1\r\nx\r\n") == b""
    assert [exchange.counters.received for exchange in desk.node.namespaces] == [3]
    client.session.renew(User("ann", "default"))
    client.session.regulate()
    if client.reader is not client.session:
        client.reader.renew()  # type: ignore[attr-defined]
    assert client.asks("PUB a 1\r\nx\r\n") == b""
