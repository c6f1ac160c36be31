"""F2: the newest of each topic, found by its place; the compiled form is the same."""

import random

import msgpack
import pytest

from fumarole.core.publication import Publication
from fumarole.core.topic import parse_wildcards
from fumarole.exchange.gathering import Last, values
from fumarole.exchange.hybrid_clock import HybridClock
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.readings import Reading
from fumarole.fastpath.hot_path import HotPath
from tests.desk import Desk, MqttClient, MsgPackClient

PRODUCER = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"


@pytest.mark.parametrize("seed", range(5))
def test_the_same_as_a_dictionary(hot_path: HotPath, seed: int) -> None:
    chance = random.Random(seed)
    kept_here = hot_path.parts.last_values(HybridClock(lambda: 1.0), None)
    newest: dict[str, tuple[bytes, bytes]] = {}
    for number in range(3_000):
        topic = f"t.{chance.randrange(700)}" * chance.choice([1, 1, 1, 9])
        headers = chance.choice([b"", b"NATS/1.0\r\nA: b\r\n\r\n"])
        payload = b"%d" % number * chance.randrange(12)
        newest[topic] = headers, payload
        kept_here.put(Publication(topic, payload, "", headers))
    assert len(kept_here) == len(newest)
    found = [value for begin in range(0, len(kept_here), 100) for value in kept_here.some(begin, 100, "")]
    assert {topic: (headers, payload) for topic, _, headers, payload in found} == newest
    assert [topic for topic, _, _, _ in found] == list(newest)
    assert [value[0] for value in kept_here.some(0, len(kept_here), "t.1")] == [
        t for t in newest if t.startswith("t.1")
    ]
    for topic, kept in newest.items():
        value = kept_here.get(topic)
        assert value is not None
        assert value[2:] == kept
    assert kept_here.get("never") is None
    times = sorted(value[1] for value in found)
    assert len(set(times)) == len(times)


@pytest.mark.parametrize("seed", range(5))
def test_topics_in_turn_are_the_same_as_a_dictionary(hot_path: HotPath, seed: int) -> None:
    """The compiled form looks first at the topic that came next the last time. Here it mostly does, and often not."""
    chance = random.Random(seed)
    kept_here = hot_path.parts.last_values(HybridClock(lambda: 1.0), None)
    newest: dict[str, bytes] = {}
    turns = [f"t.{number:02}" for number in range(40)]
    for number in range(60):
        for topic in turns:
            newest[topic] = b"%d" % number * chance.choice([1, 1, 1, 20])
            kept_here.put(Publication(topic, newest[topic]))
        match chance.randrange(4):
            case 0:
                one, two = chance.sample(range(len(turns)), 2)
                turns[one], turns[two] = turns[two], turns[one]
            case 1:
                turns.pop(chance.randrange(len(turns)))
            case 2:
                turns.insert(chance.randrange(len(turns)), f"t.{chance.randrange(100):02}")
        if number % 20 == 19:
            chance.shuffle(turns)
    assert {topic: payload for topic, _, _, payload in kept_here.some(0, 1_000, "")} == newest
    assert len(kept_here) == len(newest)


def test_what_is_over_the_quota_is_not_kept_and_counted(hot_path: HotPath) -> None:
    kept_here = hot_path.parts.last_values(HybridClock(), 400)
    kept_here.put(Publication("a", b"1" * 100))
    kept_here.put(Publication("b", b"1" * 100))
    kept_here.put(Publication("c", b"1" * 100))
    kept_here.put(Publication("a", b"2" * 300))
    kept_here.put(Publication("b", b"2" * 50))
    assert kept_here.refused == 2
    assert [(topic, payload[:1], len(payload)) for topic, _, _, payload in kept_here.some(0, 9, "")] == [
        ("a", b"1", 100),
        ("b", b"2", 50),
    ]


def test_inboxes_and_topics_of_the_server_are_not_kept(hot_path: HotPath) -> None:
    kept_here = hot_path.parts.last_values(HybridClock())
    for topic in ("_INBOX.a.b", "$SYS.a", "_FORGOTTEN"):
        kept_here.put(Publication(topic, b"1"))
    assert len(kept_here) == 0


def test_a_reading_is_kept_with_its_producer(hot_path: HotPath) -> None:
    kept_here = hot_path.parts.last_values(HybridClock())
    reading = Reading("2f1c0f5e-0000-4000-8000-000000000000", {"Room": "410"}, 21.5)
    kept_here.put(Publication("a", b"21.5", reading=reading))
    kept = kept_here.get("a")
    assert kept is not None
    assert b"Producer: 2f1c0f5e" in kept[2]


def test_every_door_keeps_its_newest_message(hot_path: HotPath) -> None:
    """Also where the compiled readers take it. All of one read has one time, and what is retained in between is newer."""
    desk = Desk(hot_path, rules={"default": NamespaceRules(last="all")})
    sensor = MsgPackClient(desk).say([PRODUCER, {}, 1])
    sensor.send(b"".join(msgpack.packb([PRODUCER, {}, number]) for number in range(2, 6)))
    desk.connect().say("".join(f"PUB a 1\r\n{number}\r\n" for number in range(5)))
    retained = "HPUB b 23 24\r\nNATS/1.0\r\nRetain: 1\r\n\r\n7\r\n"
    desk.connect().say(f"PUB b 1\r\n6\r\n{retained}PUB b 1\r\n8\r\n")
    desk.connect().say(f"PUB c 1\r\n6\r\n{retained.replace('HPUB b', 'HPUB c')}")
    mqtt = MqttClient(desk)
    for number in range(3):
        mqtt.publish("d", b"%d" % number)
    exchange = desk.node.namespaces.get("default")
    assert exchange is not None
    found = {
        kept.topic: kept.payload for kept in values(exchange, parse_wildcards(">"), ">", None, None, Last.ALL) if kept
    }
    assert found == {f"readings.{PRODUCER}": b"5", "a": b"4", "b": b"8", "c": b"7", "d": b"2"}
