"""F5: `_online`, as the exchange keeps it."""

from __future__ import annotations

import json

import msgpack
import pytest

from fumarole.core import headers
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.presence import FIRST_PRUNED, Speaking
from fumarole.exchange.producers import Producers
from fumarole.exchange.slices import Slices
from fumarole.fastpath.hot_path import HotPath
from tests.desk import Client, Desk, MqttClient, MsgPackClient
from tests.sessions.http.web import Web

A = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
B = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e61"


@pytest.fixture
def desk(hot_path: HotPath) -> Desk:
    return Desk(hot_path)


def exchange_of(desk: Desk) -> Exchange:
    exchange = desk.node.namespaces.get("default")
    assert exchange is not None
    return exchange


def wait(desk: Desk, seconds: float) -> None:
    timers = desk.node.namespaces.timers
    timers.run(timers.now() + seconds)


def metadata(desk: Desk, identity: str = A) -> dict[str, object]:
    return dict(exchange_of(desk).producers.known[identity].metadata)


def reading(client: Client, said: dict[str, object] | None = None, identity: str = A) -> None:
    block = f"NATS/1.0\r\nProducer: {identity}\r\n"
    if said is not None:
        block += f"Metadata: {json.dumps(said)}\r\n"
    client.say(f"HPUB v {len(block) + 2} {len(block) + 3}\r\n{block}\r\n1\r\n")


def watch(desk: Desk, query: str) -> MsgPackClient:
    return MsgPackClient(desk).say(query)


def changes(watcher: MsgPackClient) -> list[dict[str, list[str]]]:
    return [each for each in watcher.hears() if isinstance(each, dict)]


def test_a_connection_that_speaks_is_there_until_it_is_closed_and_the_grace_is_over(desk: Desk) -> None:
    there, gone = watch(desk, "_online"), watch(desk, "not _online and Kind = 'x'")
    assert changes(there) + changes(gone) == [{"New": [], "Del": []}] * 2
    sensor = MsgPackClient(desk).say([A, {"Kind": "x"}, 1])
    assert there.hears() == [{"New": [A], "Del": []}, [A, {"Kind": "x"}, 1]]
    assert gone.hears() == [], "it was never there without being online"
    assert metadata(desk) == {"Kind": "x", "_online": True}
    sensor.session.close()
    wait(desk, 2.9)
    assert there.hears() == []
    wait(desk, 0.2)
    assert (changes(there), changes(gone)) == ([{"New": [], "Del": [A]}], [{"New": [A], "Del": []}])
    assert metadata(desk) == {"Kind": "x", "_online": False}
    again = MsgPackClient(desk).say([A, {}, 2])
    assert (changes(there), changes(gone)) == ([{"New": [A], "Del": []}], [{"New": [], "Del": [A]}])
    again.say([A, {}, 3])
    assert changes(there) == []


def test_a_change_of_metadata_and_of_presence_are_one(desk: Desk) -> None:
    """No set is told of what holds only in between."""
    reading(first := desk.connect(), {"Room": 4})
    first.session.close()
    wait(desk, 4.0)
    queries = ["_online and Room = 4", "not _online and Room = 5"]
    watchers = [watch(desk, query) for query in queries]
    assert [changes(each) for each in watchers] == [[{"New": [], "Del": []}]] * 2
    reading(desk.connect(), {"Room": 5})
    assert [changes(each) for each in watchers] == [[], []]
    assert metadata(desk) == {"Room": 5, "_online": True}


def test_a_client_that_comes_back_within_the_grace_is_not_told_of(desk: Desk) -> None:
    watcher = watch(desk, "_online")
    reading(first := desk.connect())
    watcher.hears()
    for _ in range(5):
        first.session.close()
        wait(desk, 2.0)
        reading(first := desk.connect())
    wait(desk, 10.0)
    assert changes(watcher) == []


def test_several_connections(desk: Desk) -> None:
    one, two = desk.connect(), desk.connect()
    reading(one)
    reading(two)
    reading(two)
    one.session.close()
    wait(desk, 5.0)
    assert metadata(desk)["_online"] is True
    two.session.close()
    wait(desk, 5.0)
    assert metadata(desk)["_online"] is False


def test_without_grace(hot_path: HotPath) -> None:
    desk = Desk(hot_path, rules={"default": NamespaceRules(presence_grace=0.0)})
    watcher = watch(desk, "_online")
    reading(client := desk.connect())
    watcher.hears()
    client.session.close()
    assert changes(watcher) == [{"New": [], "Del": [A]}]


@pytest.mark.parametrize("given", [True, False, None, "yes", 1])
def test_producers_cannot_write_it(desk: Desk, given: object) -> None:
    """It is left out and counted, and the reading goes on."""
    nats = desk.connect().say("SUB v 1\r\n")
    said = watch(desk, "Kind = 'x'")
    said.hears()
    reading(client := desk.connect(), {"Kind": "x"})
    nats.hears(), said.hears()
    reading(client, {"Kind": "x", "_online": given})
    heard = nats.hears()
    assert b"_online" not in heard
    assert heard.startswith(b"HMSG v 1 ")
    assert json.loads(headers.last(heard, "Metadata") or "") == {"Kind": "x"}
    assert said.hears() == [[A, {"Kind": "x"}, 1]]
    reading(client, {"_online": given})
    assert b"_online" not in nats.hears()
    client.session.close()
    wait(desk, 5.0)
    MsgPackClient(desk).session.close()
    Web(desk).asks("PATCH", f"/v1/producers/{A}", json.dumps({"_online": given, "Room": 1}))
    assert metadata(desk) == {"Kind": "x", "Room": 1, "_online": False}
    assert exchange_of(desk).report()["left_out"] == 3


def test_nor_through_the_compiled_path_of_msgpack(desk: Desk) -> None:
    watcher = watch(desk, "_online")
    sensor = MsgPackClient(desk).say([A, {}, 1])
    watcher.hears()
    sensor.send(b"".join(map(msgpack.packb, [[A, {}, 2], [A, {"_online": False}, 3], [A, {}, 4]])))
    assert watcher.hears() == [[A, {}, 2], [A, {}, 3], [A, {}, 4]]
    assert exchange_of(desk).report()["left_out"] == 1


def test_every_connection_that_speaks_counts(desk: Desk) -> None:
    """Also where the producer is known and the compiled readers could take its readings."""
    for say in (
        lambda: MsgPackClient(desk).say([A, {}, 1], [A, {}, 2]).session,
        lambda: talker(desk).session,
        lambda: mqtt(desk).session,
        lambda: describer(desk).session,
    ):
        for _ in range(2):
            session = say()
            assert metadata(desk)["_online"] is True
            session.close()
            wait(desk, 5.0)
            assert metadata(desk)["_online"] is False


def talker(desk: Desk) -> Client:
    client = desk.connect()
    reading(client)
    reading(client)
    return client


def mqtt(desk: Desk) -> MqttClient:
    client = MqttClient(desk, client_id=A)
    client.publish("v", b"1")
    return client


def describer(desk: Desk) -> Client:
    said = json.dumps({"producers": [{"id": A, "metadata": {"Kind": "x"}}]})
    return desk.connect().say(f"PUB $FUM.describe {len(said)}\r\n{said}\r\n")


def test_an_mqtt_client_is_there_from_its_connect(desk: Desk) -> None:
    """Q4: its user properties make it a producer."""
    client = MqttClient(desk, client_id="pump", metadata=(("Kind", "pump"),))
    (producer,) = exchange_of(desk).producers
    assert producer.metadata == {"Kind": "pump", "_online": True}
    client.session.close()
    wait(desk, 5.0)
    assert producer.metadata == {"Kind": "pump", "_online": False}


def test_who_puts_nobody_online(desk: Desk) -> None:
    """HTTP requests, and clients that say so: replay and the Spark sink."""
    Web(desk).asks("POST", "/v1/topics/v", "1", **{"Fumarole-Producer": A})
    assert metadata(desk) == {"_online": False}
    client = desk.connect(presence=False)
    reading(client)
    reading(client, {"Kind": "x"})
    assert metadata(desk) == {"Kind": "x", "_online": False}


def test_one_that_was_forgotten_and_speaks_again(desk: Desk) -> None:
    client = desk.connect()
    reading(client)
    exchange_of(desk).producers.forget(A)
    reading(client)
    assert metadata(desk) == {"_online": True}
    client.session.close()
    wait(desk, 5.0)
    assert metadata(desk) == {"_online": False}


def test_forgotten_producers_do_not_pile_up() -> None:
    producers, speaking = Producers(), Speaking()
    for number in range(3 * FIRST_PRUNED):
        identity = f"2f1c0a52-6d0f-4c8e-9a5e-{number:012}"
        producers.describe(identity, {}, 0.0, speaking=speaking)
        if number >= 10:
            producers.forget(identity)
    assert len(speaking.producers) <= FIRST_PRUNED
    assert all(producer.metadata["_online"] for producer in producers)


def test_many_go_offline_a_few_at_a_time() -> None:
    """A6: 100 in each slice, and the last of them is told too."""
    slices, steps = Slices(), 0
    producers, speaking = Producers(slices=slices, presence_grace=0.0), Speaking()
    for number in range(1_000):
        producers.describe(f"2f1c0a52-6d0f-4c8e-9a5e-{number:012}", {}, 0.0, speaking=speaking)
    slices.put_off = lambda: None
    producers.presence.leave(speaking)
    offline = [sum(not each.metadata["_online"] for each in producers)]
    while slices.step():
        steps += 1
        offline.append(sum(not each.metadata["_online"] for each in producers))
    assert offline[:3] == [100, 200, 300]
    assert sum(not each.metadata["_online"] for each in producers) == 1_000


# What other nodes say.


def test_other_nodes() -> None:
    producers = Producers()
    presence = producers.presence
    timers = presence._timers
    producers.learn(A, {"Kind": "x"}, 0.0)
    producers.learn(B, {}, 0.0)
    presence.told("n1", [A, B], True)
    presence.told("n2", [A], True)
    assert online(producers) == {A, B}
    presence.told("n1", [A, B], False)
    assert online(producers) == {A}, "its grace was over there"
    presence.evict("n2")
    timers.run(2.9)
    assert online(producers) == {A}
    presence.told("n2", [A], True)  # it is back, or was started again
    timers.run(10.0)
    assert online(producers) == {A}
    presence.evict("n2")
    presence.told("n3", [A], True)  # the client has gone elsewhere
    timers.run(20.0)
    assert online(producers) == {A}
    presence.evict("n3")
    timers.run(30.0)
    assert online(producers) == set()
    assert not presence._elsewhere or not any(presence._elsewhere.values())


def test_a_producer_that_is_forgotten_is_nowhere_online() -> None:
    producers = Producers()
    producers.learn(A, {}, 0.0)
    producers.presence.told("n1", [A], True)
    producers.forget(A)
    producers.learn(A, {}, 0.0)
    assert online(producers) == set()


def online(producers: Producers) -> set[str]:
    return {producer.identity for producer in producers if producer.metadata["_online"]}
