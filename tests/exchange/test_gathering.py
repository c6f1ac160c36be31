"""F2, F3 on one node: what a consumer that asks for `last` gets first, against a definition of ten lines."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from fumarole.core.pattern_options import LAST
from fumarole.core.publication import Publication
from fumarole.core.query.holds import holds
from fumarole.core.query.message import Message
from fumarole.core.query.parse import parse
from fumarole.core.topic import matches, parse_wildcards, split
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.gathering import HANDED_OVER_AT_ONCE, Asking, Gathering, Last, asked_once, reading_kept
from fumarole.exchange.namespaces import NamespaceRules, Namespaces
from fumarole.exchange.permissions import Permissions
from fumarole.exchange.readings import Reading, reading_value
from fumarole.fastpath.hot_path import HotPath

assert LAST
TOPICS = [f"{first}.{second}" for first in "abc" for second in "xyz"]
PATTERNS = [">", "a.>", "*.x", "b.y", "c*.z", "q.>"]


@dataclass
class Ear:
    """An outlet that writes down what comes, and has as much room as it is told."""

    label: str = ""
    echo: bool = True
    room: int = 1 << 30
    heard: list[tuple[str, bytes, bool]] = field(default_factory=list)

    def has_room(self, weight: int) -> bool:
        return weight <= self.room

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        consumer.accepted += 1
        self.heard.append((publication.topic, publication.payload, publication.age is not None))

    def heard_values(self) -> list[tuple[str, bytes]]:
        return [(topic, payload) for topic, payload, is_last in self.heard if is_last]

    def tell(self, consumer: Consumer, new: tuple[str, ...], gone: tuple[str, ...]) -> None:
        """Sets are of no interest here."""


def make(hot_path: HotPath, last: bool) -> Exchange:
    rules = {"default": NamespaceRules(last="all" if last else "retained")}
    exchange = Namespaces(rules=rules, parts=hot_path.parts).get("default")
    assert exchange is not None
    return exchange


def publish(exchange: Exchange, topic: str, payload: bytes, retain: bool = False) -> None:
    publication = Publication(topic, payload)
    publication.retain = retain
    exchange.publish(exchange.plans().find(topic.encode()), publication)


def subscribe(exchange: Exchange, ear: Ear, pattern: str, kind: Last, sees: Permissions | None = None) -> Consumer:
    consumer = exchange.consumer(ear, pattern, "", b"1", sees)
    exchange.subscribe(consumer, last=kind)
    return consumer


def expected(history: list[tuple[str, bytes, bool]], pattern: str, keeps_all: bool, kind: Last) -> dict[str, bytes]:
    """The definition: of each topic that matches, the newest message that is kept."""
    newest: dict[str, tuple[bytes, bool]] = {}
    for topic, payload, retain in history:
        if (keeps_all and kind is Last.ALL) or (retain and payload):
            newest[topic] = payload, True
        elif retain:
            newest.pop(topic, None)
    return {topic: payload for topic, (payload, _) in newest.items()
            if matches(parse_wildcards(pattern), split(topic))}  # fmt: skip


@pytest.mark.parametrize("kind", [Last.ALL, Last.RETAINED])
@pytest.mark.parametrize("keeps_all", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_first_what_is_known_then_what_comes(hot_path: HotPath, seed: int, keeps_all: bool, kind: Last) -> None:
    chance = random.Random(seed)
    exchange = make(hot_path, keeps_all)
    history: list[tuple[str, bytes, bool]] = []

    def say(number: int) -> None:
        topic, retain = chance.choice(TOPICS), chance.random() < 0.3
        payload = b"" if retain and chance.random() < 0.2 else b"%d" % number
        history.append((topic, payload, retain))
        publish(exchange, topic, payload, retain)

    for number in range(chance.randrange(60)):
        say(number)
    pattern = chance.choice(PATTERNS)
    before = expected(history, pattern, keeps_all, kind)
    ear, begin = Ear(), len(history)
    consumer = subscribe(exchange, ear, pattern, kind)
    for number in range(100, 100 + chance.randrange(10)):  # while the subscription is not confirmed yet
        say(number)
    ear.room = 0 if chance.random() < 0.5 else 1 << 30
    exchange.send_last(consumer)
    for number in range(200, 200 + chance.randrange(10)):  # while last values wait for room
        say(number)
    ear.room = 1 << 30
    exchange.timers.run(1.0)
    live = [(topic, payload) for topic, payload, is_last in ear.heard if not is_last]
    words = parse_wildcards(pattern)
    assert live == [(topic, payload) for topic, payload, _ in history[begin:] if matches(words, split(topic))]
    values = [(topic, payload) for topic, payload, is_last in ear.heard if is_last]
    assert len(dict(values)) == len(values)
    for topic, payload in values:
        assert before[topic] == payload
        assert (topic, True) not in [(t, not old) for t, _, old in ear.heard[: ear.heard.index((topic, payload, True))]]
    after = {topic for topic, _ in live}
    assert {topic for topic in before if topic not in after} <= {topic for topic, _ in values}
    assert consumer.stage is None
    assert not exchange.gatherings


def test_members_of_groups_get_none(hot_path: HotPath) -> None:
    exchange = make(hot_path, last=True)
    publish(exchange, "a.x", b"1")
    ear = Ear()
    consumer = exchange.consumer(ear, ">", "g", b"1")
    exchange.subscribe(consumer, last=Last.ALL)
    exchange.send_last(consumer)
    assert ear.heard == []


def test_only_what_the_user_may_receive(hot_path: HotPath) -> None:
    exchange = make(hot_path, last=True)
    for topic in TOPICS:
        publish(exchange, topic, b"1", retain=topic.startswith("a"))
    ear = Ear()
    consumer = subscribe(exchange, ear, ">", Last.ALL, Permissions(("a.>", "b.>"), ("*.y",)))
    exchange.send_last(consumer)
    assert sorted(topic for topic, _, _ in ear.heard) == ["a.x", "a.z", "b.x", "b.z"]


def test_a_consumer_that_leaves_ends_the_walk(hot_path: HotPath) -> None:
    exchange = make(hot_path, last=True)
    for number in range(100):
        publish(exchange, f"t.{number}", b"1")
    ear = Ear(room=0)
    consumer = subscribe(exchange, ear, ">", Last.ALL)
    exchange.send_last(consumer)
    exchange.unsubscribe(consumer)
    ear.room = 1 << 30
    exchange.timers.run(5.0)
    assert ear.heard == []
    assert not exchange.gatherings


def test_who_asks_once_gets_topics_that_are_busy_meanwhile(hot_path: HotPath) -> None:
    """Nothing live comes, so no value is left out for a live message."""
    exchange = make(hot_path, last=True)
    exchange.slices.put_off = lambda: None
    for number in range(3 * HANDED_OVER_AT_ONCE):
        publish(exchange, f"t.{number}", b"old")
    ear = Ear()
    consumer = exchange.consumer(ear, ">", "", b"1")
    done: list[bool] = []
    asked_once(exchange, consumer, parse_wildcards(">"), None).begin(lambda: done.append(True))
    assert len(ear.heard) == HANDED_OVER_AT_ONCE
    busy = f"t.{3 * HANDED_OVER_AT_ONCE - 1}"
    publish(exchange, busy, b"new")
    while exchange.slices.step():
        pass
    assert busy in dict(ear.heard_values())
    assert len(ear.heard) == 3 * HANDED_OVER_AT_ONCE
    assert done == [True]
    assert len(exchange) == 0
    assert not exchange.gatherings


def test_once_confirmed_messages_of_every_node_are_live(hot_path: HotPath) -> None:
    """S8: one that was published elsewhere after the confirmation, and before the question was heard there, is not kept
    where no last messages are."""
    exchange = make(hot_path, last=False)
    ear = Ear()
    asked: list[Asking] = []
    exchange.ask = asked.append
    consumer = subscribe(exchange, ear, ">", Last.ALL)
    (question,) = asked
    question.ask(["b"])

    def forwarded(payload: bytes) -> None:
        publication = Publication("t", payload)
        publication.node = "b"
        exchange.deliver(exchange.plans().find(b"t"), publication, ())

    forwarded(b"1")
    assert ear.heard == [], "the consumer has no right to it yet"
    exchange.send_last(consumer)
    forwarded(b"2")
    question.marked("b")
    question.answered("b")
    forwarded(b"3")
    assert ear.heard == [("t", b"2", False), ("t", b"3", False)]


def test_topics_of_inboxes_are_not_kept(hot_path: HotPath) -> None:
    exchange = make(hot_path, last=True)
    publish(exchange, "_INBOX.a", b"1")
    publish(exchange, "a", b"1")
    ear = Ear()
    exchange.send_last(subscribe(exchange, ear, ">", Last.ALL))
    assert ear.heard == [("a", b"1", True)]


# By query: the last reading of each producer for which the whole query holds.

KINDS = ["so2", "co2", None]
PAYLOADS = [b"79", b"81", b"x", b'{"air": {"hpa": 950}}', b'{"air": {"hpa": 1200}, "by": "a"}']
QUERIES = [
    "Kind = 'so2'",
    "$value > 80",
    "Kind = 'so2' and $value > 80",
    "Kind = 'so2' or $.air.hpa between 900 and 1000",
    "not (Kind = 'so2' and $value > 80)",
    "$topic like 'a.%' and $size > 2",
]


def producer_of(number: int) -> str:
    return f"0000000{number}-0000-4000-8000-000000000000"


def read(exchange: Exchange, producer: str, topic: str, payload: bytes, **news: str | None) -> None:
    reading = Reading(producer, news, reading_value(payload))
    exchange.publish_reading(Publication(topic, payload, reading=reading), exchange.plans(), 0.0)


def subscribe_where(exchange: Exchange, ear: Ear, query: str, sees: Permissions | None = None) -> Consumer:
    consumer = exchange.consumer(ear, ">", "", b"1", sees)
    exchange.subscribe(consumer, parse(query), last=Last.ALL)
    exchange.send_last(consumer)
    return consumer


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", range(5))
def test_the_last_readings_for_which_the_whole_query_holds(hot_path: HotPath, seed: int, query: str) -> None:
    """F6: tests on messages are put to the last reading."""
    chance = random.Random(seed)
    exchange = make(hot_path, last=False)
    latest: dict[str, tuple[str, bytes, dict[str, str]]] = {}
    for _ in range(30):
        producer, payload, kind = producer_of(chance.randrange(8)), chance.choice(PAYLOADS), chance.choice(KINDS)
        topic = chance.choice(["a.x", "b.x"])
        read(exchange, producer, topic, payload, Kind=kind)
        latest[producer] = topic, payload, {} if kind is None else {"Kind": kind}
    expected = [
        (topic, payload, True)
        for topic, payload, metadata in latest.values()
        if holds(parse(query), Message(Publication(topic, payload), metadata)) is True
    ]
    ear = Ear()
    subscribe_where(exchange, ear, query)
    assert sorted(ear.heard) == sorted(expected)


def test_no_last_reading_of_a_producer_that_has_left_the_set(hot_path: HotPath) -> None:
    """M5, of values of this node and of another: some wait for room, and meanwhile the producers leave."""
    exchange = make(hot_path, last=False)
    for number in range(4):
        read(exchange, producer_of(number), "a.x", b"%d" % number, Kind="so2")
    others = [reading_kept(exchange, producer, producer.metadata) for producer in exchange.producers]
    ear = Ear(room=0)
    consumer = exchange.consumer(ear, ">", "", b"1")
    exchange.subscribe(consumer, parse("Kind = 'so2'"), last=Last.ALL)
    gathering = consumer.stage
    assert isinstance(gathering, Gathering)
    gathering.ask(["b"])
    exchange.send_last(consumer)
    gathering.take([kept._replace(time=kept.time + 1, payload=b"b%b" % kept.payload) for kept in others if kept])
    read(exchange, producer_of(2), "a.x", b"4", Kind="x")
    gathering.answered("b")
    read(exchange, producer_of(0), "a.x", b"5", Kind="x")
    ear.room = 1 << 30
    exchange.timers.run(1.0)
    assert ear.heard == [("a.x", b"b1", True), ("a.x", b"b3", True)]


def test_last_readings_that_the_user_may_receive(hot_path: HotPath) -> None:
    """A3: the topic of the reading, and the producer."""
    exchange = make(hot_path, last=False)
    for number, topic in enumerate(["a.x", "a.y", "b.x"]):
        read(exchange, producer_of(number), topic, b"81", Kind="so2")
    ear = Ear()
    subscribe_where(exchange, ear, "$value > 80", Permissions(("a.>",), ("a.y",)))
    assert ear.heard == [("a.x", b"81", True)]


def test_a_long_text_is_whole_where_last_messages_are_kept(hot_path: HotPath) -> None:
    document = b'{"hpa": 950, "text": "' + b"x" * 1_000 + b'"}'
    for keeps_all, expected in ((True, [("a.x", document, True)]), (False, [])):
        exchange = make(hot_path, keeps_all)
        read(exchange, producer_of(1), "a.x", document)
        ear = Ear()
        subscribe_where(exchange, ear, "$.hpa > 900")
        assert ear.heard == expected
