"""Tests on messages in the exchange (F6): the set by metadata, delivery by the whole query."""

import random
from collections.abc import Iterable
from functools import partial
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fumarole.core.publication import Publication
from fumarole.core.query.holds import could_hold, holds
from fumarole.core.query.index import StandingQuery
from fumarole.core.query.message import Message
from fumarole.core.query.parse import parse
from fumarole.core.query.parts import VALUE
from fumarole.core.query.tree import Field, Metadata, Query, show
from fumarole.core.topic import matches, parse_pattern, split
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.filters import FEW, Filters
from fumarole.exchange.parts import Parts
from fumarole.exchange.pieces import PLANS_KEPT
from fumarole.exchange.plans import Plan
from fumarole.exchange.readings import Reading, reading_topic
from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled
from tests.core.query import messages
from tests.core.query.strategies import joined, metadata
from tests.core.query.test_message import numbers
from tests.exchange.fakes import Listener
from tests.exchange.test_producers import Watcher, watch

A, B, C = (f"0000000{n}-0000-4000-8000-000000000000" for n in range(3))


@pytest.fixture
def exchange(hot_path: HotPath) -> Exchange:
    return Exchange("default", parts=hot_path.parts)


def read(exchange: Exchange, identity: str, payload: bytes = b"1", topic: str = "", **news: Any) -> int:
    reading = Reading(identity, news, payload.decode())
    publication = Publication(topic or reading_topic(identity), payload, reading=reading)
    return exchange.publish_reading(publication, exchange.plans(), 0.0)


def heard(watcher: Watcher) -> list[str]:
    return [str(said.value) for said in watcher.story if isinstance(said, Reading)]


def test_the_set_is_by_metadata_and_the_message_by_both(exchange: Exchange) -> None:
    watcher, _ = watch(exchange, "Kind = 'so2' AND $value > 80")
    assert read(exchange, A, b"81", Kind="co2") == 0
    assert read(exchange, A, b"80", Kind="so2") == 0
    assert watcher.set == {A}
    assert read(exchange, A, b"81") == 1
    assert read(exchange, A, b"x") == 0
    assert read(exchange, A, b"90", Kind=None) == 0
    assert watcher.story == [((A,), ()), Reading(A, {}, "81"), ((), (A,))]


def test_a_test_of_the_message_alone_has_everybody_in_its_set(exchange: Exchange) -> None:
    read(exchange, A)
    watcher, _ = watch(exchange, "$.air.hpa < 900")
    assert watcher.set == {A}
    read(exchange, B, b'{"air": {"hpa": 880}}')
    assert watcher.set == {A, B}
    read(exchange, A, b'{"air": {"hpa": 901}}')
    exchange.producers.forget(A)
    assert watcher.set == {B}
    assert heard(watcher) == ['{"air": {"hpa": 880}}']


def test_a_message_that_passes_nothing_is_unheard(exchange: Exchange) -> None:
    """D3."""
    watch(exchange, "$value > 80")
    read(exchange, A, b"1")
    assert exchange.counters.unheard == 1
    read(exchange, A, b"81")
    assert (exchange.counters.unheard, exchange.counters.routed) == (1, 1)


def test_what_is_asked_may_depend_on_the_metadata(exchange: Exchange) -> None:
    """As it is when the message comes, its own news included (M5)."""
    watcher, _ = watch(exchange, "Low = true AND $value > 1 OR $value > 10")
    read(exchange, A, b"5")
    read(exchange, A, b"6", Low=True)
    read(exchange, A, b"7")
    read(exchange, A, b"8", Low=False)
    read(exchange, A, b"11")
    assert heard(watcher) == ["6", "7", "11"]
    assert watcher.set == {A}


def test_consumers_with_and_without_filters_and_patterns(exchange: Exchange) -> None:
    plain, _ = watch(exchange, "Kind = 'so2'")
    above, _ = watch(exchange, "Kind = 'so2' AND $value > 80")
    same, _ = watch(exchange, "$value > 80 AND Kind = 'so2'")
    elsewhere, _ = watch(exchange, "Kind = 'so2' AND $value > 80", pattern="other.*")
    topics, _ = watch(exchange, "$topic LIKE 'other.%'")
    read(exchange, A, b"81", Kind="so2")
    read(exchange, A, b"79", "other.x")
    read(exchange, A, b"82", "other.x")
    assert heard(plain) == ["81", "79", "82"]
    assert heard(above) == heard(same) == ["81", "82"]
    assert heard(elsewhere) == ["82"]
    assert heard(topics) == ["79", "82"]


def test_of_a_group_one_of_those_whose_query_is_true(exchange: Exchange) -> None:
    low, _ = watch(exchange, "$value < 50", group="g")
    high, _ = watch(exchange, "$value >= 50", group="g")
    both, _ = watch(exchange, "HAS $value", group="g")
    for number in range(100):
        read(exchange, A, str(number).encode())
    read(exchange, A, b"x")
    assert sorted(int(value) for one in (low, high, both) for value in heard(one)) == list(range(100))
    assert all(int(value) < 50 for value in heard(low))
    assert all(int(value) >= 50 for value in heard(high))
    assert min(map(len, map(heard, (low, high, both)))) >= 20
    assert exchange.counters.unheard == 1


def test_a_consumer_that_leaves_gets_nothing_more(exchange: Exchange) -> None:
    watcher, consumer = watch(exchange, "$value > 80")
    other, _ = watch(exchange, "$value > 80")
    read(exchange, A, b"81")
    exchange.unsubscribe(consumer)
    read(exchange, A, b"82")
    assert heard(watcher) == ["81"]
    assert heard(other) == ["81", "82"]


class Link(Listener):
    """To another node."""

    def __init__(self) -> None:
        super().__init__("link")
        self.forwarded: list[tuple[bytes, bytes]] = []

    def tell(self, *_: object) -> None:
        """That node knows its sets by itself."""

    def forward(self, courier: Consumer, key: bytes, publication: Publication) -> None:
        self.forwarded.append((key, publication.payload))


def elsewhere(exchange: Exchange, link: Link, courier: Consumer, where: str, group: str = "") -> None:
    """As `cluster.registry` does with a consumer of another node."""
    consumer = exchange.consumer(link, ">", group, b"default\x01" + group.encode())
    consumer.courier = courier
    exchange.subscribe(consumer, parse(where))


def test_what_no_consumer_elsewhere_asks_for_goes_nowhere(exchange: Exchange) -> None:
    """C3."""
    link = Link()
    courier = exchange.consumer(link, "", "", b"default")
    elsewhere(exchange, link, courier, "$value > 80")
    elsewhere(exchange, link, courier, "$value > 90")
    for payload in (b"79", b"85", b"95", b"x"):
        read(exchange, A, payload)
    assert link.forwarded == [(b"default", b"85"), (b"default", b"95")]
    assert exchange.counters.unheard == 2


def test_a_group_over_nodes(exchange: Exchange) -> None:
    """G2: the node that got it chooses among those whose query is true, wherever they are."""
    link = Link()
    courier = exchange.consumer(link, "", "", b"default")
    elsewhere(exchange, link, courier, "$value >= 50", "g")
    here, _ = watch(exchange, "$value < 50", group="g")
    for number in range(100):
        read(exchange, A, str(number).encode())
    assert heard(here) == [str(number) for number in range(50)]
    assert [int(payload) for _, payload in link.forwarded] == list(range(50, 100))


def test_what_another_node_forwards_is_asked_again(exchange: Exchange) -> None:
    """It goes to those here whose query is true, and to no others: the other node had to choose one of ours."""
    low, _ = watch(exchange, "$value < 50", group="g")
    high, _ = watch(exchange, "$value >= 50", group="g")
    alone, _ = watch(exchange, "$value = 7")
    read(exchange, A, b"x")
    producer = exchange.producers.get(A)
    assert producer is not None
    for number in range(100):
        publication = Publication("t", str(number).encode(), reading=Reading(A, {}, number))
        plan = exchange.plan_for_message(publication, producer, b"t", exchange.plans())
        exchange.deliver(plan, publication, ("g",))
    assert heard(low) == [str(number) for number in range(50)]
    assert heard(high) == [str(number) for number in range(50, 100)]
    assert heard(alone) == ["7"]


@pytest.mark.parametrize("many", [FEW - 1, FEW + 1, 100])
def test_many_filters(exchange: Exchange, many: int) -> None:
    """One by one, or by the index: who passes is the same, and the plans that are kept stay few."""
    watchers = [watch(exchange, f"$value > {number}")[0] for number in range(many)]
    others = [watch(exchange, f"Kind = 'x' AND $.f{number} = 1")[0] for number in range(many)]
    chance = random.Random(7)
    said = [chance.randrange(-5, many + 5) for _ in range(3 * PLANS_KEPT)]
    for value in said:
        read(exchange, A, str(value).encode())
    for number, watcher in enumerate(watchers):
        assert heard(watcher) == [str(value) for value in said if value > number]
    assert [heard(other) for other in others] == [[]] * many
    read(exchange, A, b'{"f3": 1}', Kind="x")
    assert [bool(heard(other)) for other in others] == [number == 3 for number in range(many)]


def both_parts() -> list[Parts]:
    fast = compiled()
    assert fast is not None
    return [PLAIN.parts, fast.parts]


said_numbers = st.one_of(numbers, st.sampled_from([-1, 0, 1, 2, 2.5, 2**53, 2**53 + 1, 1e20])).map(str)
said_others = st.sampled_from(["", "null", "true", "false", '"a"', '"b"', "[1]", "{}", '{"y": 1}', "1e999", "x"])
X = Field("", ("x",))


@settings(max_examples=150)
@given(
    st.sampled_from([VALUE, X]).flatmap(
        lambda field: st.tuples(st.just(field), st.lists(joined(messages.tests_of(field)), min_size=1, max_size=4))
    ),
    st.lists(st.one_of(said_numbers, said_numbers, said_others), min_size=1, max_size=40),
)
def test_by_the_value_of_one_field_is_the_same(asked: tuple[Field, list[Query]], said: list[str]) -> None:
    """Whichever piece a value falls in, and whether its plan was made for another value of that piece."""
    field, texts = asked
    payloads = [(text if field == VALUE else f'{{"x": {text}}}').encode() for text in said]
    exchange = Exchange("default")
    consumers: dict[StandingQuery, list[Consumer]] = {}
    for query in texts:
        consumer = watch(exchange, show(query))[1]
        assert consumer.standing is not None
        consumers.setdefault(consumer.standing, []).append(consumer)
    for parts in both_parts():
        filters = Filters(consumers, exchange.producers.queries, partial(plan_of, parts), parts)
        assert filters.pieces is not None
        for payload in payloads:
            message = Message(Publication("", payload), {})
            passed = [each for standing, each in consumers.items() if holds(standing.query, message) is True]
            found = filters.plan_of(Message(Publication("", payload), {}, filters.reads))
            assert found.consumers == tuple(chain.from_iterable(passed))


def plan_of(parts: Parts, consumers: Iterable[Consumer]) -> Plan:
    return parts.plan(tuple(consumers))


def test_what_it_takes_is_reckoned(exchange: Exchange) -> None:
    """A6: the payload that has to be parsed is the publisher's to answer for."""
    watch(exchange, "$.a = 1")
    read(exchange, A, b"{}")
    before = exchange.index.looked_at
    read(exchange, A, b"{" + b" " * 8_000 + b"}")
    assert 1_000 <= exchange.index.looked_at - before < 1_100
    before = exchange.index.looked_at
    read(exchange, A, b"{" + b" " * 80_000 + b"}")
    assert exchange.index.looked_at - before < 10


def test_tests_of_more_than_one_field_have_no_pieces(exchange: Exchange) -> None:
    for asks, has in (
        (("$.a = 1", "$.a > 7 or $.a is null"), True),
        (("$value = 1", "$value > 7"), True),
        (("$.a = 1", "$.b > 7"), False),
        (("$.a = 1", "$value > 7"), False),
        (("Room = '4' or $.a = 1",), False),
        (("$size > 1",), False),
    ):
        watched = [watch(exchange, text)[1] for text in asks]
        consumers = {consumer.standing: [consumer] for consumer in watched if consumer.standing is not None}
        filters = Filters(consumers, exchange.producers.queries, lambda some: Plan(tuple(some)), exchange._parts)
        assert (filters.pieces is not None) is has


PATTERNS = [">", "a", "*", "readings.*"]
TOPICS = ["", "a", "b", "a.b", f"readings.{A}"]
step = st.tuples(st.sampled_from([A, B]), st.sampled_from(messages.PAYLOADS), st.sampled_from(TOPICS), metadata)
standing = st.tuples(messages.queries, st.sampled_from(PATTERNS), st.sampled_from(["", "", "g"]))


def play(hot_path: HotPath, standings: list[tuple[Query, str, str]], steps: list[Any]) -> None:
    exchange = Exchange("default", parts=hot_path.parts)
    known: dict[str, Metadata] = {}
    watchers: list[tuple[Watcher, Consumer]] = []
    asked: list[tuple[Query, str, str]] = []
    half = len(standings) // 2
    for at, (identity, payload, topic, news) in enumerate(steps):
        for query, pattern, group in standings[:half] if at == 0 else standings[half:] if at == 2 else ():
            watchers.append(watch(exchange, show(query), pattern, group))
            asked.append((query, pattern, group))
        before = [len(watcher.story) for watcher, _ in watchers]
        read(exchange, identity, payload, topic, **news)
        known[identity] = {**known.get(identity, {}), **news}
        publication = Publication(topic or reading_topic(identity), payload, reading=Reading(identity, {}, ""))
        message = Message(publication, known[identity])
        passes = [
            holds(query, message) is True and matches(parse_pattern(pattern), split(publication.topic))
            for query, pattern, _ in asked
        ]
        got = [
            any(isinstance(said, Reading) for said in watcher.story[was:])
            for (watcher, _), was in zip(watchers, before, strict=True)
        ]
        alone = [number for number, (_, _, group) in enumerate(asked) if not group]
        assert [got[number] for number in alone] == [passes[number] for number in alone]
        members = [number for number, (_, _, group) in enumerate(asked) if group]
        chosen = [number for number in members if got[number]]
        assert len(chosen) == any(passes[number] for number in members)
        assert all(passes[number] for number in chosen)
        for (watcher, _), (query, _, _) in zip(watchers, asked, strict=True):
            assert watcher.set == {each for each, about in known.items() if could_hold(query, about) is True}


@settings(max_examples=150)
@given(st.lists(standing, max_size=6), st.lists(step, max_size=6))
def test_equals_the_definition(standings: list[tuple[Query, str, str]], steps: list[Any]) -> None:
    play(PLAIN, standings, steps)
    fast = compiled()
    assert fast is not None
    play(fast, standings, steps)
