"""`$SYS/broker/…` at the MQTT door (Q5)."""

from typing import Any

import pytest

from fumarole.core.topic import Grammar
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.fastpath.hot_path import HotPath
from fumarole.protocols import mqtt_packets as packets
from fumarole.protocols.mqtt_fields import NONE, Property
from fumarole.protocols.mqtt_packets import V3, V5, Filter, Publish
from fumarole.protocols.mqtt_reasons import Reason
from fumarole.sessions.mqtt_broker_topics import EVERY
from fumarole.sessions.mqtt_clients import clients_of
from tests.desk import Desk, MqttClient


@pytest.fixture(params=[Grammar.STRICT, Grammar.OPEN])
def desk(hot_path: HotPath, request: pytest.FixtureRequest) -> Desk:
    return Desk(hot_path, rules={"default": NamespaceRules(request.param)})


def told(events: list[Any]) -> dict[str, bytes]:
    return {event.topic: event.payload for event in events if isinstance(event, Publish)}


def passes(desk: Desk, seconds: float) -> None:
    desk.now += seconds
    desk.node.tick(desk.now)


@pytest.mark.parametrize("version", [V3, V5])
def test_all_is_told_at_once_and_then_every_ten_seconds(desk: Desk, version: int) -> None:
    other = MqttClient(desk, client_id="other")
    client = MqttClient(desk, version, client_id="one")
    heard = client.subscribe("$SYS/#")
    assert all(event.retain for event in heard if isinstance(event, Publish))
    first = told(heard)
    assert first["$SYS/broker/clients/connected"] == b"2"
    assert first["$SYS/broker/publish/messages/received"] == b"0"
    assert first["$SYS/broker/retained messages/count"] == b"0"
    assert first["$SYS/broker/version"] == b"fumarole 0"
    passes(desk, 0.5)
    client.hears()
    other.publish("a", b"x" * 5, retain=True)
    assert client.hears() == []
    passes(desk, EVERY)
    second = client.hears()
    assert not any(event.retain for event in second)
    assert told(second)["$SYS/broker/publish/messages/received"] == b"1"
    assert told(second)["$SYS/broker/publish/bytes/received"] != b"0"
    assert told(second)["$SYS/broker/retained messages/count"] == b"1"
    assert told(second)["$SYS/broker/uptime"] == b"10 seconds"
    passes(desk, EVERY)
    assert float(told(client.hears())["$SYS/broker/load/publish/received/1min"]) > 0


def test_only_what_the_filter_matches(desk: Desk) -> None:
    client = MqttClient(desk, client_id="one")
    assert set(told(client.subscribe("$SYS/broker/clients/+"))) == {
        f"$SYS/broker/clients/{word}"
        for word in ("connected", "active", "total", "maximum", "disconnected", "inactive", "expired")
    }
    assert told(client.subscribe("$SYS/broker/uptime")) == {"$SYS/broker/uptime": b"0 seconds"}
    assert told(client.subscribe("$SYS/broker/nothing")) == {}
    passes(desk, 0.5)
    heard = client.hears()
    assert len(heard) == 8


def test_filters_that_overlap_are_one_entity(desk: Desk) -> None:
    """D2"""
    client = MqttClient(desk, client_id="one")
    client.subscribe("$SYS/broker/uptime", identifier=1)
    client.subscribe("$SYS/broker/+", identifier=2)
    passes(desk, 0.5)
    uptime = [event for event in client.hears() if event.topic == "$SYS/broker/uptime"]
    assert len(uptime) == 1
    assert uptime[0].properties[Property.SUBSCRIPTION_IDENTIFIER] == [1, 2]


def test_no_pattern_matches_them(desk: Desk) -> None:
    """They are no publications of the exchange."""
    client = MqttClient(desk, client_id="one")
    nats = desk.connect()
    nats.say("SUB > 1\r\nSUB $SYS.> 2\r\n")
    client.subscribe("#", "+/broker/uptime", Filter("$SYS/broker/uptime", 0, handling=2))
    passes(desk, 0.5)
    assert list(told(client.hears())) == ["$SYS/broker/uptime"]
    assert b"MSG" not in nats.hears()
    assert desk.counters()["received"] == 0


def test_they_cannot_be_shared_or_published(desk: Desk) -> None:
    client = MqttClient(desk, client_id="one")
    (suback,) = client.subscribe("$share/g/$SYS/#")
    assert suback.reasons == (Reason.FILTER,)
    (puback,) = client.publish("$SYS/broker/uptime", b"9", qos=1)
    assert puback.reason == Reason.NOT_AUTHORIZED


def test_nothing_is_left(desk: Desk) -> None:
    client, other = MqttClient(desk, client_id="one"), MqttClient(desk, client_id="two")
    topics = clients_of(desk.node).broker_topics
    client.subscribe("$SYS/#")
    client.subscribe("$SYS/#")
    other.subscribe("$SYS/broker/uptime")
    assert len(topics) == 2
    other.send(packets.unsubscribe(packets.Unsubscribe(1, ("$SYS/broker/uptime",), NONE), V5))
    assert len(topics) == 1
    client.session.close()
    assert len(topics) == 0
    other.hears()
    passes(desk, EVERY)
    assert other.hears() == []


def test_clients_are_counted(desk: Desk) -> None:
    clients = clients_of(desk.node)
    first = MqttClient(desk, client_id="one")
    MqttClient(desk, client_id="one")
    assert clients.of("default") == 1
    second = MqttClient(desk, client_id="two")
    second.session.close()
    assert (clients.of("default"), clients.most_of("default")) == (1, 2)
    assert first.session.close_expected()
