"""F4: of each topic at most one message in a period, always the newest, and none held back longer."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from fumarole.core.publication import Publication
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.namespaces import Namespaces
from fumarole.fastpath.hot_path import HotPath


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


def vars_of(consumer: Consumer) -> tuple[int, int]:
    conflation = consumer.conflation
    return len(conflation._held), len(conflation._due)  # type: ignore[union-attr]
