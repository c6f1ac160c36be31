"""Keyed groups (F8). Ordinary groups are tested with the exchange (`test_exchange.py`)."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest

from fumarole.core.publication import Publication
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.groups import key_of
from fumarole.exchange.permissions import Permissions
from fumarole.exchange.readings import Reading
from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled
from fumarole.sessions.kubemq import KubemqService
from tests.desk import Desk, MqttClient, MsgPackClient
from tests.exchange.fakes import Listener
from tests.sessions.http.web import Web
from tests.sessions.kubemq_door import NOW, Door

IDS = [f"2f1c0a52-6d0f-4c8e-9a5e-{number:012}" for number in range(40)]
TOPICS = [f"volcanoes.{number}" for number in range(200)]


@pytest.fixture
def exchange(hot_path: HotPath) -> Exchange:
    return Exchange("default", parts=hot_path.parts)


def join(exchange: Exchange, name: str, group: str, pattern: str = ">", sees: Permissions | None = None) -> Consumer:
    consumer = exchange.consumer(Listener(name), pattern, group, name.encode(), sees)
    exchange.subscribe(consumer)
    return consumer


def publish(exchange: Exchange, topic: str, producer: str = "", origin: Listener | None = None) -> int:
    publication = Publication(topic, b"1")
    if producer:
        publication.reading = Reading(producer, {}, 1)
    return exchange.publish(exchange.plans().find(topic.encode()), publication, origin)


def who_gets(exchange: Exchange, members: list[Consumer], topic: str, producer: str = "") -> str:
    """The one member that does."""
    before = [len(member.outlet.heard) for member in members]  # type: ignore[attr-defined]
    publish(exchange, topic, producer)
    found = [
        member.outlet.label
        for member, count in zip(members, before, strict=True)
        if len(member.outlet.heard) > count  # type: ignore[attr-defined]
    ]
    assert len(found) == 1
    return found[0]


def test_a_topic_stays_with_its_member(exchange: Exchange) -> None:
    members = [join(exchange, name, "g@topic") for name in "abcdefgh"]
    first = {topic: who_gets(exchange, members, topic) for topic in TOPICS}
    assert {topic: who_gets(exchange, members, topic, IDS[0]) for topic in reversed(TOPICS)} == first
    assert set(first.values()) == set("abcdefgh")


def test_a_producer_stays_with_its_member_whatever_its_topics(exchange: Exchange) -> None:
    members = [join(exchange, name, "g@producer") for name in "abcd"]
    found = defaultdict(set)
    for topic in TOPICS[:20]:
        for identity in IDS:
            found[identity].add(who_gets(exchange, members, topic, identity))
    assert all(len(names) == 1 for names in found.values())
    assert len(set().union(*found.values())) == 4
    without = {topic: who_gets(exchange, members, topic) for topic in TOPICS}
    assert without == {topic: who_gets(exchange, members, topic) for topic in TOPICS}, "keyed by the topic then"
    assert len(set(without.values())) == 4


def test_three_groups(exchange: Exchange) -> None:
    for name in ("g", "g@topic", "g@producer", "g@other"):
        join(exchange, name, name)
    assert publish(exchange, "a") == 4


def test_only_the_keys_of_those_who_come_and_go_move(exchange: Exchange) -> None:
    members = [join(exchange, name, "g@topic") for name in "abcdefgh"]
    chance = Random(1)
    owner = {topic: who_gets(exchange, members, topic) for topic in TOPICS}
    for number in range(20):
        if number % 2:
            gone = members.pop(chance.randrange(len(members)))
            exchange.unsubscribe(gone)
            after = {topic: who_gets(exchange, members, topic) for topic in TOPICS}
            moved = {owner[topic] for topic in TOPICS if after[topic] != owner[topic]}
            assert moved == {gone.outlet.label}
        else:
            members.append(join(exchange, f"new{number}", "g@topic"))
            after = {topic: who_gets(exchange, members, topic) for topic in TOPICS}
            moved = {after[topic] for topic in TOPICS if after[topic] != owner[topic]}
            assert moved == {f"new{number}"}
        owner = after


def test_who_comes_back_gets_its_keys_again(exchange: Exchange) -> None:
    members = [join(exchange, name, "g@topic") for name in "abcd"]
    before = {topic: who_gets(exchange, members, topic) for topic in TOPICS}
    exchange.unsubscribe(members[1])
    exchange.unsubscribe(members[1])
    members[1] = join(exchange, "b", "g@topic", "volcanoes.*")
    assert {topic: who_gets(exchange, members, topic) for topic in TOPICS} == before


def test_a_full_outbox_moves_no_key(exchange: Exchange) -> None:
    members = [join(exchange, name, "g@topic") for name in "abcd"]
    before = {topic: who_gets(exchange, members, topic) for topic in TOPICS}
    members[0].outlet.healthy = members[2].outlet.healthy = False  # type: ignore[attr-defined]
    assert {topic: who_gets(exchange, members, topic) for topic in TOPICS} == before


def test_health_is_pattern_and_permission(exchange: Exchange) -> None:
    members = [
        join(exchange, "a", "g@topic", "volcanoes.1*"),
        join(exchange, "b", "g@topic", ">", Permissions(None, ("volcanoes.2*",))),
        join(exchange, "c", "g@topic"),
    ]
    for topic in TOPICS:
        found = who_gets(exchange, members, topic)
        assert found != "a" or topic.startswith("volcanoes.1")
        assert found != "b" or not topic.startswith("volcanoes.2")
    assert all(member.outlet.heard for member in members)  # type: ignore[attr-defined]


def test_a_publisher_that_wants_no_echo_is_passed_over(exchange: Exchange) -> None:
    silent = Listener("silent", echo=False)
    consumer = exchange.consumer(silent, ">", "g@topic", b"1")
    exchange.subscribe(consumer)
    assert publish(exchange, "a", origin=silent) == 0
    join(exchange, "b", "g@topic")
    assert [publish(exchange, topic, origin=silent) for topic in TOPICS] == [1] * len(TOPICS)
    assert not silent.heard


def test_both_forms_and_every_order_choose_alike() -> None:
    """The compiled choice and the definition, whatever the names of the groups and of the topics."""
    chance = Random(7)
    for _ in range(100):
        group = chance.choice(["g@topic", "g@producer", "@topic", "a@b@producer", "é@producer", "x" * 250 + "@@@topic"])
        count = chance.randint(1, 12)
        found = []
        topics = ["", *(chance.choice("aéx") * chance.randint(1, 30) for _ in range(10))]
        for hot_path in (PLAIN, compiled()):
            assert hot_path is not None
            exchange = Exchange("default", parts=hot_path.parts)
            members = [join(exchange, str(number), group) for number in range(count)]
            choose = exchange._groups[group].choose
            found.append(
                [
                    choose(tuple(some), 1, None, publication).outlet.label  # type: ignore[union-attr]
                    for publication in (*messages(topics), *messages(topics, IDS[3]))
                    for some in (members, members[::-1])
                ]
            )
        assert found[0] == found[1]
        assert found[0][::2] == found[0][1::2]


def messages(topics: list[str], producer: str = "") -> list[Publication]:
    made = [Publication(topic, b"") for topic in topics]
    for each in made:
        each.reading = Reading(producer, {}, 1) if producer else None
    return made


def test_keys() -> None:
    one, other = (messages(["a"], identity)[0] for identity in IDS[:2])
    assert key_of("g@topic", one) == key_of("g@topic", other) == key_of("g@producer", messages(["a"])[0])
    assert key_of("g@producer", one) != key_of("g@producer", other)


@pytest.mark.parametrize("kind", ["topic", "producer"])
def test_members_of_all_doors_share_the_keys(hot_path: HotPath, kind: str) -> None:
    """At every door the group has the same name, whatever the grammar of the namespace."""
    desk = Desk(hot_path)
    web, kubemq = Web(desk), Door(desk)
    group = f"workers@{kind}"
    nats = desk.connect().say(f"SUB v.> {group} 1\r\n")
    msgpack = MsgPackClient(desk).say({"topic": "v.>", "group": group})
    mqtt = MqttClient(desk)
    mqtt.subscribe(f"$share/{group}/v/+")
    browser = web.connect().sends("GET", f"/v1/stream?topic=v.>&group={group}")
    browser.hears(), msgpack.hears()
    service = KubemqService(desk.node, "default", lambda: "id", NOW)
    receiver = kubemq.receiver("v.>", group, service.open("", None))
    assert receiver.outbox is not None
    outbox = receiver.outbox
    publisher, other = desk.connect(), MsgPackClient(desk)

    def heard() -> list[int]:
        return [
            nats.hears().count(b"MSG v."),
            len(msgpack.hears()),
            len(mqtt.hears()),
            len([name for name, _ in browser.events() if name in {"message", "reading"}]),
            len(outbox.take()) > 0,
        ]

    owners = set()
    for number, identity in enumerate(IDS):
        found = []
        for part in range(3):
            topic = f"v.{number}" if kind == "topic" else f"v.{number}-{part}"
            if part:
                other.say({"id": identity, "metadata": {}, "value": 1, "topic": topic})
            else:
                block = f"NATS/1.0\r\nProducer: {identity}\r\n\r\n"
                publisher.say(f"HPUB {topic} {len(block)} {len(block) + 1}\r\n{block}1\r\n")
            found.append(heard())
        assert sum(found[0]) == 1
        assert found == [found[0]] * 3
        owners.add(tuple(found[0]))
    assert len(owners) == 5
