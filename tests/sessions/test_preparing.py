"""A6 at each door: a client whose change of metadata waits is heard again when it is made, and in order (D4, M5)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from fumarole.exchange import preparations
from fumarole.fastpath.hot_path import HotPath
from tests.desk import Desk, MqttClient, MsgPackClient
from tests.sessions.http.web import Web

A = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
TEXT = "ab" * 2_000
DEAR = "K MATCHES '.*a.{12}b1' OR K MATCHES '.*a.{12}b2' OR HAS K"


@pytest.fixture
def desk(hot_path: HotPath, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(preparations, "AT_ONCE", 10_000)
    made = Desk(hot_path)
    made.node.namespaces.slices.put_off = lambda: None
    return made


def finish(desk: Desk) -> None:
    while desk.node.namespaces.slices.step():
        pass


def by_nats(desk: Desk) -> Callable[[], Any]:
    client = desk.connect()

    def reading(metadata: dict[str, str], value: str) -> str:
        block = f"NATS/1.0\r\nProducer: {A}\r\nMetadata: {json.dumps(metadata)}\r\n\r\n"
        return f"HPUB readings.{A} {len(block)} {len(block) + len(value)}\r\n{block}{value}\r\n"

    client.say(reading({"L": "first"}, "0"))
    client.say(reading({"K": TEXT}, "1") + reading({"K": "short"}, "2") + reading({}, "3") + "PIN")
    client.say("G\r\n")
    return client.hears


def by_msgpack(desk: Desk) -> Callable[[], Any]:
    client = MsgPackClient(desk)
    client.say([A, {"L": "first"}, 0])
    raw = b"".join(map(msgpack.packb, ([A, {"K": TEXT}, 1], [A, {"K": "short"}, 2], [A, {}, 3])))
    client.send(raw[:-5])
    client.send(raw[-5:])
    return client.hears


def by_mqtt(desk: Desk) -> Callable[[], Any]:
    client = MqttClient(desk, client_id=A, metadata=(("L", "first"),))
    client.publish("readings/v", b"0")
    client.publish("readings/v", b"1", 2, 5, user=(("K", TEXT),))
    client.publish("readings/v", b"2", 1, 6, user=(("K", "short"),))
    client.publish("readings/v", b"3")
    return client.hears


def by_mqtt_connect(desk: Desk) -> Callable[[], Any]:
    client = MqttClient(desk, client_id=A, metadata=(("K", TEXT),))
    client.publish("readings/v", b"1")
    client.publish("readings/v", b"2", user=(("K", "short"),))
    client.publish("readings/v", b"3")
    return client.hears


def by_http(desk: Desk) -> Callable[[], Any]:
    browser = Web(desk).connect()
    for metadata, value in (({"K": TEXT}, 1), ({"K": "short"}, 2), ({}, 3)):
        body = json.dumps({"producer": A, "metadata": metadata, "value": value})
        browser.sends("POST", f"/v1/topics/readings.{A}", body, Content_Type="application/fumarole+json")
    return browser.hears


def by_lines(desk: Desk) -> Callable[[], Any]:
    browser = Web(desk).connect()
    lines = [
        {"topic": f"readings.{A}", "producer": A, "metadata": metadata, "value": value}
        for metadata, value in (({"K": TEXT}, 1), ({"K": "short"}, 2), ({}, 3))
    ]
    browser.sends("POST", "/v1/topics", "\n".join(map(json.dumps, lines)), Content_Type="application/x-ndjson")
    return browser.hears


DOORS = {
    "NATS": by_nats,
    "MsgPack": by_msgpack,
    "MQTT": by_mqtt,
    "MQTT CONNECT": by_mqtt_connect,
    "HTTP": by_http,
    "lines": by_lines,
}


@pytest.mark.parametrize("publish", DOORS.values(), ids=DOORS)
def test_what_comes_behind_a_dear_change_comes_after_it(desk: Desk, publish: Callable[[Desk], Any]) -> None:
    watcher = MsgPackClient(desk).say(DEAR)
    finish(desk)
    assert watcher.hears() == [{"New": [], "Del": []}]
    hears = publish(desk)
    assert watcher.hears() == []
    finish(desk)
    heard = watcher.hears()
    values = [float(each[2]) for each in heard if isinstance(each, list)]
    assert heard[0] == {"New": [A], "Del": []}
    assert values == [1.0, 2.0, 3.0]
    said = [len(each[1].get("K", "")) for each in heard[1:]]
    assert said == [0 if publish is by_mqtt_connect else len(TEXT), 5, 0]
    assert hears() is not None
    assert [exchange.counters.refused for exchange in desk.node.namespaces] == [0]


@pytest.mark.parametrize("publish", DOORS.values(), ids=DOORS)
def test_a_client_that_leaves_meanwhile_leaves_nothing(desk: Desk, publish: Callable[[Desk], Any]) -> None:
    MsgPackClient(desk).say(DEAR)
    finish(desk)
    session = publish(desk).__self__.session
    session.close()
    finish(desk)
    assert session.consumer_count == 0
    assert not desk.node.namespaces.slices.step()
