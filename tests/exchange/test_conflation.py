"""F4: of each topic at most one message in a period, always the newest, and none held back longer."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from fumarole.core.publication import Publication
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.namespaces import Namespaces
from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled
from tests.desk import Desk, MqttClient, MsgPackClient

PRODUCER = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
EVERY = ["$EVERY.1s.>", "$EVERY.500ms.a.*", "$EVERY.0s.>", "$LAST.$EVERY.1s.a.x"]


@dataclass
class Ear:
    exchange: Exchange
    label: str = ""
    echo: bool = True
    has_place: bool = True
    heard: list[tuple[float, str, bytes]] = field(default_factory=list)

    def has_room(self, _weight: int) -> bool:
        return self.has_place

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        consumer.accepted += 1
        self.heard.append((self.exchange.timers.now(), publication.topic, publication.payload))


@pytest.fixture
def exchange(hot_path: HotPath) -> Exchange:
    found = Namespaces(parts=hot_path.parts).get("default")
    assert found is not None
    return found


def listen(exchange: Exchange, every: float) -> tuple[Ear, Consumer]:
    ear = Ear(exchange)
    consumer = exchange.consumer(ear, ">", "", b"1")
    exchange.subscribe(consumer, every=every)
    return ear, consumer


def publish(exchange: Exchange, topic: str, payload: bytes, reply: str = "") -> None:
    exchange.publish(exchange.plans().find(topic.encode()), Publication(topic, payload, reply))


@pytest.mark.parametrize("seed", range(30))
def test_at_most_one_in_a_period_and_none_held_longer(exchange: Exchange, seed: int) -> None:
    chance = random.Random(seed)
    ear, consumer = listen(exchange, every=1.0)
    said: dict[str, list[tuple[float, bytes]]] = defaultdict(list)
    now, number = 0.0, 0
    for number in range(300):
        now += chance.choice([0.0, 0.01, 0.1, 0.7])
        exchange.timers.run(now)
        topic = chance.choice(["a", "b", "c"])
        said[topic].append((now, b"%d" % number))
        publish(exchange, topic, b"%d" % number)
    for _ in range(400):
        now += 0.01
        exchange.timers.run(now)
    for topic, messages in said.items():
        heard = [(at, payload) for at, name, payload in ear.heard if name == topic]
        times = [at for at, _ in heard]
        assert all(later - earlier >= 1.0 - 1e-9 for earlier, later in pairwise(times))
        for at, payload in heard:  # the newest at that time
            assert not [other for time, other in messages if time < at and int(other) > int(payload)]
        assert heard[-1][1] == messages[-1][1]
        for time, _ in messages:  # something as new goes out within the period, and a step of the clock
            assert any(time <= at <= time + 1.0 + 0.71 for at, _ in heard)
    assert consumer.conflated == 300 - len(ear.heard) == exchange.counters.conflated
    report = exchange.report()
    assert report["delivered"] == len(ear.heard)
    assert not len(consumer.conflation)  # type: ignore[arg-type]


def test_without_a_clock_only_while_the_outbox_is_behind(exchange: Exchange) -> None:
    ear, consumer = listen(exchange, every=0.0)
    publish(exchange, "a", b"1")
    publish(exchange, "a", b"2")
    ear.has_place = False
    for payload in (b"3", b"4", b"5"):
        for topic in ("a", "b"):
            publish(exchange, topic, payload)
    publish(exchange, "a", b"6")
    exchange.timers.run(1.0)
    assert [payload for _, _, payload in ear.heard] == [b"1", b"2"]
    ear.has_place = True
    publish(exchange, "c", b"7")
    exchange.timers.run(2.0)
    assert [(topic, payload) for _, topic, payload in ear.heard[2:]] == [("b", b"5"), ("a", b"6"), ("c", b"7")]
    assert consumer.conflated == 5


def test_requests_are_never_replaced_and_nothing_older_follows_them(exchange: Exchange) -> None:
    ear, consumer = listen(exchange, every=1.0)
    publish(exchange, "a", b"1")
    publish(exchange, "a", b"2")
    publish(exchange, "a", b"3", "answers")
    publish(exchange, "a", b"4", "answers")
    exchange.timers.run(5.0)
    assert [payload for _, _, payload in ear.heard] == [b"1", b"3", b"4"]
    assert consumer.conflated == 1


def test_topics_that_are_silent_take_no_room(exchange: Exchange) -> None:
    _, consumer = listen(exchange, every=1.0)
    for number in range(1_000):
        publish(exchange, f"t.{number}", b"1")
    exchange.timers.run(1.0)
    exchange.timers.run(2.0)
    assert vars_of(consumer) == (0, 0)


def test_a_consumer_that_leaves_takes_what_waits_with_it(exchange: Exchange) -> None:
    ear, consumer = listen(exchange, every=1.0)
    publish(exchange, "a", b"1")
    publish(exchange, "a", b"2")
    exchange.unsubscribe(consumer)
    exchange.timers.run(5.0)
    assert [payload for _, _, payload in ear.heard] == [b"1"]


@pytest.mark.parametrize("ending", [{"Kind": "x"}, {"Kind": None}, "forget"])
@pytest.mark.parametrize("every", ["1s", 0])
def test_nothing_follows_of_a_producer_that_has_left_the_set(hot_path: HotPath, every: object, ending: Any) -> None:
    """M5: what waits of it is dropped and counted. It may come again."""
    desk = Desk(hot_path)
    timers = desk.node.namespaces.timers
    asking, sensor = MsgPackClient(desk).say({"where": "Kind = 'so2'", "every": every}), MsgPackClient(desk)
    sensor.say([PRODUCER, {"Kind": "so2"}, 1])
    assert asking.hears()[2] == [PRODUCER, {"Kind": "so2"}, 1]
    if every == 0:
        asking.session.has_room = lambda weight: False  # type: ignore[method-assign]
    sensor.say([PRODUCER, {}, 2], [PRODUCER, {}, 3])
    sensor.say({"forget": PRODUCER} if ending == "forget" else [PRODUCER, ending, 4])
    if every == 0:
        del asking.session.has_room
    timers.run(timers.now() + 2.0)
    assert asking.hears() == [{"New": [], "Del": [PRODUCER]}]
    assert desk.counters()["conflated"] == 2
    sensor.say([PRODUCER, {"Kind": "so2"}, 5])
    assert asking.hears() == [{"New": [PRODUCER], "Del": []}, [PRODUCER, {"Kind": "so2"}, 5]]


def vars_of(consumer: Consumer) -> tuple[int, int]:
    conflation = consumer.conflation
    return len(conflation.held), len(conflation._due)  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(5))
def test_what_waits_is_the_same_as_a_dictionary(hot_path: HotPath, seed: int) -> None:
    chance = random.Random(seed)
    held = hot_path.parts.held()
    known: dict[str, bytes | None] = {}
    for number in range(3_000):
        key = f"t.{chance.randrange(300)}" * chance.choice([1, 1, 7])
        payload = b"%d" % number * chance.randrange(30)
        what = chance.random()
        if what < 0.4:
            held.know(key)
            known[key] = None
        elif what < 0.7 and key in known:
            assert held.hold(key, Publication(key, payload)) == (known[key] is not None)
            known[key] = payload
        elif what < 0.85:
            taken = held.take(key)
            assert (None if taken is None else (taken.topic, taken.payload)) == (
                None if known.get(key) is None else (key, known[key])
            )
            if key in known:
                known[key] = None
        else:
            held.forget(key)
            known.pop(key, None)
        assert (key in held) == (key in known)
    assert len(held) == len(known)
    assert held.waiting() == sum(payload is not None for payload in known.values())
    for key in list(known):
        held.forget(key)
    assert (len(held), held.waiting()) == (0, 0)


@pytest.mark.parametrize("seed", range(20))
def test_the_readers_of_both_forms_conflate_alike(seed: int) -> None:
    """Messages with and without headers, reply and producer, of NATS and MQTT, for consumers with a period and without."""
    fast = compiled()
    assert fast is not None
    assert conflated(fast, random.Random(seed)) == conflated(PLAIN, random.Random(seed))


@pytest.mark.parametrize("seed", range(10))
def test_both_forms_conflate_topics_in_turn_alike(seed: int) -> None:
    """The compiled form looks first at the topic that came next the last time. Here it mostly does, and often not."""
    fast = compiled()
    assert fast is not None
    assert in_turn(fast, random.Random(seed)) == in_turn(PLAIN, random.Random(seed))


def in_turn(hot_path: HotPath, chance: random.Random) -> list[object]:
    """All that the consumer hears. Some topics are forgotten, and others take their places."""
    desk = Desk(hot_path)
    timers = desk.node.namespaces.timers
    ear, sensor = desk.connect().say("SUB $EVERY.1s.> 1\r\n"), desk.connect()
    turns = [f"t.{number:02}" for number in range(30)]
    heard: list[object] = []
    for number in range(80):
        sensor.say("".join(f"PUB {topic} 2\r\n{number:02}\r\n" for topic in turns))
        match chance.randrange(5):
            case 0:
                one, two = chance.sample(range(len(turns)), 2)
                turns[one], turns[two] = turns[two], turns[one]
            case 1:
                del turns[: chance.randrange(4)]
            case 2:
                turns.insert(chance.randrange(len(turns) + 1), f"t.{chance.randrange(100):02}")
            case 3:
                timers.run(timers.now() + chance.choice([0.3, 1.0, 2.5]))
        heard.append(ear.hears())
    return [*heard, desk.counters()]


def conflated(hot_path: HotPath, chance: random.Random) -> list[object]:
    """All that the consumers hear, and the counters."""
    desk = Desk(hot_path)
    timers = desk.node.namespaces.timers
    ears = [desk.connect().say(f"SUB {pattern} 1\r\n") for pattern in EVERY]
    ears.append(desk.connect(headers=False).say("SUB $EVERY.1s.> 1\r\n"))
    sensor, mqtt, of_mqtt = desk.connect(), MqttClient(desk, client_id="one"), MqttClient(desk, client_id="two")
    of_mqtt.subscribe("$EVERY/1s/#", qos=1)
    subscriber = MsgPackClient(desk).say({"topic": "$EVERY.1s.>"})
    heard: list[object] = []
    for number in range(120):
        topic = chance.choice(["a.x", "a.y", "b"])
        payload = f"{number}" * chance.choice([1, 2, 40])
        match chance.randrange(8):
            case 0:
                sensor.say(f"PUB {topic} answers {len(payload)}\r\n{payload}\r\n")
            case 1:
                block = chance.choice(["NATS/1.0\r\nA: b\r\n\r\n", f"NATS/1.0\r\nProducer: {PRODUCER}\r\n\r\n"])
                sizes = f"{len(block)} {len(block) + len(payload)}"
                sensor.say(f"HPUB {topic} {sizes}\r\n{block}{payload}\r\n")
            case 2:
                mqtt.publish(topic.replace(".", "/"), payload.encode(), qos=chance.randrange(2))
            case _:
                sensor.say(f"PUB {topic} {len(payload)}\r\n{payload}\r\n" * chance.choice([1, 1, 3]))
        if chance.random() < 0.3:
            timers.run(timers.now() + chance.choice([0.1, 0.5, 1.0]))
        heard.append([*(ear.hears() for ear in ears), of_mqtt.raw(), subscriber.hears()])
    timers.run(timers.now() + 3.0)
    heard.append([*(ear.hears() for ear in ears), of_mqtt.raw(), subscriber.hears()])
    heard.append([each.conflated for ear in ears for each in ear.session._consumers.values()])
    return [*heard, desk.counters()]
