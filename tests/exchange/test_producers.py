import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from fumarole.core import headers
from fumarole.core.publication import FORGOTTEN, Publication
from fumarole.core.query.holds import holds
from fumarole.core.query.parse import parse
from fumarole.core.query.tree import COST_OF_MATCHES
from fumarole.core.topic import matches, parse_pattern, split
from fumarole.exchange import producers as producers_module
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.permissions import Permissions
from fumarole.exchange.producer import size_of
from fumarole.exchange.producers import LOOKED_AT_ONCE, Producers
from fumarole.exchange.readings import Reading, ReadingError, reading_topic
from fumarole.exchange.slices import Slices
from fumarole.fastpath.hot_path import HotPath
from tests.exchange.fakes import Listener
from tests.random_examples import examples

A, B, C = (f"0000000{n}-0000-4000-8000-000000000000" for n in range(3))


class Watcher(Listener):
    """An outlet that keeps the set it was told of, and everything it heard in order."""

    def __init__(self, name: str = "") -> None:
        super().__init__(name)
        self.set: set[str] = set()
        self.story: list[Any] = []

    def tell(self, consumer: Consumer, new: tuple[str, ...], gone: tuple[str, ...]) -> None:
        assert not self.set.intersection(new)
        assert self.set.issuperset(gone)
        self.set = self.set.union(new).difference(gone)
        self.story.append((new, gone))

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        super().accept(consumer, publication)
        self.story.append(publication.reading)


class Historian(Listener):
    """An outlet that keeps what it hears."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Publication] = []

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        self.kept.append(publication)


def watch(exchange: Exchange, where: str, pattern: str = ">", group: str = "") -> tuple[Watcher, Consumer]:
    watcher = Watcher()
    consumer = exchange.consumer(watcher, pattern, group, b"1")
    exchange.subscribe(consumer, parse(where))
    watcher.set = set(exchange.producers.members(consumer))
    return watcher, consumer


def read(exchange: Exchange, identity: str, value: float = 1.0, topic: str = "", **metadata: Any) -> int:
    reading = Reading(identity, metadata, value)
    return exchange.publish_reading(
        Publication(topic or reading_topic(identity), b"", reading=reading), exchange.plans(), 0.0
    )


@pytest.fixture
def exchange(hot_path: HotPath) -> Exchange:
    return Exchange("default", parts=hot_path.parts)


def test_the_order_of_one_reading(exchange: Exchange) -> None:
    """M5: merged, told, forwarded under the new set. M6: once."""
    watcher, _ = watch(exchange, "Room = '410'")
    read(exchange, A, 1.0, Room="409")
    read(exchange, A, 2.0, Room="410")
    read(exchange, A, 3.0)
    read(exchange, A, 4.0, Room="411")
    assert watcher.story == [((A,), ()), Reading(A, {"Room": "410"}, 2.0), Reading(A, {}, 3.0), ((), (A,))]


def test_the_first_set(exchange: Exchange) -> None:
    """M4."""
    read(exchange, A, Kind="a")
    read(exchange, B, Kind="b")
    assert watch(exchange, "Kind = 'a'")[0].set == {A}
    assert watch(exchange, "Kind = 'c'")[0].set == set()


def test_metadata_is_merged(exchange: Exchange) -> None:
    """M3: added, replaced, deleted by nil, untouched by an empty map."""
    read(exchange, A, Room="410", Kind="t")
    read(exchange, A, Room="411")
    read(exchange, A, Kind=None)
    read(exchange, A)
    producer = exchange.producers.get(A)
    assert producer is not None
    assert producer.metadata == {"Room": "411", "_online": False}
    watcher, _ = watch(exchange, "Kind IS NULL")
    assert watcher.set == {A}


def test_no_diff_without_a_change(exchange: Exchange) -> None:
    watcher, _ = watch(exchange, "Room = '410'")
    read(exchange, A, Room="410")
    read(exchange, A, Room="410")
    read(exchange, A, Floor=4)
    assert [each for each in watcher.story if not isinstance(each, Reading)] == [((A,), ())]


def test_a_reading_is_a_publication(exchange: Exchange) -> None:
    """M8."""
    listener = Listener()
    exchange.subscribe(exchange.consumer(listener, "readings.*", "", b"1"))
    assert read(exchange, A) == 1
    assert read(exchange, A, topic="volcanoes.atka") == 0
    assert listener.heard == [(b"1", f"readings.{A}")]


def test_topic_and_query_together(exchange: Exchange) -> None:
    """M2: both must hold."""
    watcher, _ = watch(exchange, "Kind = 't'", "volcanoes.*")
    read(exchange, A, 1.0, Kind="t")
    read(exchange, A, 2.0, "volcanoes.atka")
    read(exchange, B, 3.0, "volcanoes.atka", Kind="x")
    assert [each.value for each in watcher.story if isinstance(each, Reading)] == [2.0]


def test_a_group_shares_across_queries_and_topics(exchange: Exchange) -> None:
    """G1, M2: one of all whose topic and query hold, however they asked."""
    one, _ = watch(exchange, "Kind = 't'", group="g")
    two, _ = watch(exchange, "Kind = 't' OR Kind = 'u'", group="g")
    plain = Listener()
    exchange.subscribe(exchange.consumer(plain, "readings.>", "g", b"1"))
    for _ in range(90):
        assert read(exchange, A, Kind="t") == 1
    counts = [len(one.heard), len(two.heard), len(plain.heard)]
    assert sum(counts) == 90
    assert min(counts) >= 25


def test_a_disconnect_is_no_change_but_forgetting_is(exchange: Exchange) -> None:
    """M7."""
    watcher, _ = watch(exchange, "Kind = 't'")
    read(exchange, A, Kind="t")
    assert exchange.producers.forget(A)
    assert not exchange.producers.forget(A)
    assert watcher.story[-1] == ((), (A,))
    assert len(exchange.producers) == 0
    read(exchange, A)
    assert watcher.set == set(), "its metadata is gone with it"


def test_a_farewell_takes_back_what_was_said(exchange: Exchange) -> None:
    """M7: for those who keep a history, one message on a topic of the exchange's own."""
    history = Historian()
    exchange.subscribe(exchange.consumer(history, FORGOTTEN, "history", b"1"))
    read(exchange, A, Kind="t", Ünit=5)
    assert not exchange.producers.forget(B)
    assert exchange.producers.forget(A)
    (farewell,) = history.kept
    assert (farewell.topic, farewell.payload, farewell.reading) == (FORGOTTEN, A.encode(), None)
    producer, metadata = headers.parse(farewell.headers)
    assert producer == ("Producer", A)
    assert (metadata[0], json.loads(metadata[1])) == ("Metadata", {"Kind": None, "Ünit": None})
    read(exchange, B, Kind="t")
    assert exchange.producers.forget_here(B), "another node has said it"
    assert len(history.kept) == 1


def test_described_without_a_reading(exchange: Exchange) -> None:
    """M3: merged as with a reading, and the sets follow (M4)."""
    watcher, _ = watch(exchange, "Kind = 't'")
    exchange.producers.describe(A, {"Kind": "t", "Room": 4}, 1.0)
    described = exchange.producers.describe(A, {"Room": None}, 2.0)
    assert (described.metadata, described.value, described.heard) == ({"Kind": "t", "_online": False}, None, 2.0)
    assert watcher.story == [((A,), ())]
    assert list(exchange.producers.unsaved) == [A]


def test_silence_is_forgotten_where_there_is_a_time_for_it() -> None:
    """M7."""
    producers = Producers(ttl=10.0)
    producers.hear(Reading(A, {}, 1), 0.0)
    producers.hear(Reading(B, {}, 1), 1.0)
    producers.hear(Reading(A, {}, 1), 5.0)
    assert producers.expire(9.9) == 0
    assert producers.expire(11.0) == 1
    assert [each.identity for each in producers] == [A]
    assert producers.expire(14.9) == 0
    assert producers.expire(15.0) == 1


def test_who_falls_silent_together_is_forgotten_bit_by_bit() -> None:
    """M7, and no standstill for it, however many there are, and however many are told."""
    exchange = Exchange("default", producers=Producers(ttl=10.0))
    producers = exchange.producers
    for number in range(10):
        producers.hear(Reading(f"{number}{A[1:]}", {"Kind": "t"}, 1), 0.0)
    assert [producers.expire(10.0, most=4), producers.is_due(10.0)] == [4, True]
    watch(exchange, "HAS Kind")
    assert [producers.expire(10.0, most=4), producers.is_due(10.0)] == [2, True], "to tell somebody is work, too"
    producers.hear(Reading(f"9{A[1:]}", {}, 1), 10.0)
    assert [producers.expire(10.0), producers.is_due(10.0)] == [3, False]
    assert [each.identity[0] for each in producers] == ["9"]


def test_who_comes_and_goes_is_waited_for_once() -> None:
    """M7, and no more memory for a producer that is forgotten and speaks again, however often."""
    producers = Producers(ttl=10.0)
    for number in range(100):
        producers.hear(Reading(A, {}, 1), number / 10)
        producers.forget(A)
    producers.hear(Reading(A, {}, 1), 10.0)
    assert len(producers._due) == 1
    assert producers.expire(19.9) == 0
    assert len(producers._due) == 1
    assert producers.expire(20.0) == 1
    assert not producers._due
    producers.hear(Reading(A, {}, 1), 21.0)
    assert producers.expire(30.9) == 0
    assert producers.expire(31.0) == 1


def test_topics_and_patterns_of_any_depth(exchange: Exchange) -> None:
    """T3."""
    deep = ".".join(["a"] * 5_000)
    exact, _ = watch(exchange, "Kind = 't'", deep)
    wider, _ = watch(exchange, "Kind = 't'", deep[:-1] + ">")
    other, _ = watch(exchange, "Kind = 't'", deep + ".a")
    assert read(exchange, A, 1.0, deep, Kind="t") == 2
    assert (len(exact.heard), len(wider.heard), len(other.heard)) == (1, 1, 0)


def test_many_stars_in_a_word_take_no_time(exchange: Exchange) -> None:
    """T5: linear, whatever pattern one stranger and whatever topic another has chosen."""
    watcher, _ = watch(exchange, "Kind = 't'", "*a" * 100 + "b")
    began = time.process_time()
    assert read(exchange, A, 1.0, "a" * 4_000, Kind="t") == 0
    assert time.process_time() - began < 0.1
    assert read(exchange, A, 2.0, "a" * 4_000 + "b") == 1
    assert len(watcher.heard) == 1


def test_equivalent_queries_share(exchange: Exchange) -> None:
    one, first = watch(exchange, "Kind = 't' AND Room = '1'")
    two, second = watch(exchange, "room = 1 or (Room=\"1\"   and Kind='t')")
    three, third = watch(exchange, "Room=\"1\"   and (Kind='t')")
    assert first.standing is third.standing
    assert first.standing is not second.standing
    read(exchange, A, Kind="t", Room="1")
    assert one.set == two.set == three.set == {A}
    for consumer in (first, second, third):
        exchange.unsubscribe(consumer)
    assert exchange.producers._members == {}
    assert exchange.producers._subscribed == {}
    assert not exchange.producers.get(A).standings  # type: ignore[union-attr]


def test_limits(exchange: Exchange) -> None:
    producers = Producers(most_keys=3, most_bytes=100)
    producers.hear(Reading(A, {"a": 1, "b": 2, "c": 3}, 1), 0.0)
    for metadata, text in (({"d": 4}, "more than 3 metadata keys"), ({"a": "x" * 100}, "more than 100 bytes")):
        with pytest.raises(ReadingError, match=text):
            producers.hear(Reading(A, metadata, 1), 0.0)
    producers.hear(Reading(A, {"a": None, "d": 4}, 1), 0.0)
    with pytest.raises(ReadingError):
        producers.hear(Reading(B, {str(n): n for n in range(4)}, 1), 0.0)
    assert producers.get(B) is None, "nothing has happened"


def test_the_size_of_metadata_is_in_bytes() -> None:
    producers = Producers(most_bytes=17)
    producers.describe(A, {"Ü": "温度", "n": 7}, 0.0)
    with pytest.raises(ReadingError, match="more than 17 bytes"):
        producers.describe(A, {"n": "123456789"}, 0.0)
    with pytest.raises(ReadingError, match="more than 17 bytes"):
        producers.describe(A, {"Ü": "温度計"}, 0.0)


said = st.dictionaries(
    st.sampled_from(["Ü", "n", "Room", "_online"]),
    st.sampled_from([None, True, 1, 1.0, 2.5, "", "a", "温度", "x" * 40]),
)


@examples(200)
@given(st.lists(st.tuples(said, st.sampled_from(["describe", "learn", "refuse"])), max_size=12))
def test_the_size_is_kept_as_metadata_changes(steps: list[tuple[dict[str, Any], str]]) -> None:
    producers = Producers(most_bytes=100)
    for metadata, how in steps:
        if how == "learn":
            known = {key: value for key, value in metadata.items() if value is not None and key != "_online"}
            producers.learn(A, known, 0.0)
        else:
            with suppress(ReadingError):
                producers.describe(A, metadata | {"n": "n" * 101} if how == "refuse" else metadata, 0.0)
        producer = producers.get(A)
        if producer is not None:
            assert producer.bytes == size_of(producer.metadata) == producers.usage.used.get("metadata_bytes", 0)


QUERIES = [
    "Kind = 'a'",
    "Kind != 'a'",
    "Room > 3",
    "Kind = 'a' AND Room > 3",
    "Room IS NULL",
    "NOT Room = 4",
    "HAS Kind OR Room = 1",
]
some_metadata = st.dictionaries(
    st.sampled_from(["Kind", "Room"]), st.sampled_from(["a", "b", 1, 4, 4.0, True, None]), max_size=2
)


class Sets(RuleBasedStateMachine):
    """Joins, updates, deletions, forgetting: a set built from its diffs is always what the definition says (M4)."""

    consumers = Bundle("consumers")

    def __init__(self) -> None:
        super().__init__()
        self.exchange = Exchange("default")
        self.watchers: dict[Consumer, tuple[Watcher, str]] = {}

    @rule(target=consumers, where=st.sampled_from(QUERIES))
    def subscribe(self, where: str) -> Consumer:
        watcher, consumer = watch(self.exchange, where)
        self.watchers[consumer] = watcher, where
        return consumer

    @rule(consumer=consumes(consumers))
    def unsubscribe(self, consumer: Consumer) -> None:
        self.exchange.unsubscribe(consumer)
        del self.watchers[consumer]

    @rule(identity=st.sampled_from([A, B, C]), metadata=some_metadata)
    def read(self, identity: str, metadata: dict[str, Any]) -> None:
        for watcher, _ in self.watchers.values():
            watcher.heard.clear()
        self.publish(identity, metadata)
        for watcher, _ in self.watchers.values():
            assert len(watcher.heard) == (identity in watcher.set)

    def publish(self, identity: str, metadata: dict[str, Any]) -> None:
        read(self.exchange, identity, **metadata)

    @rule(identity=st.sampled_from([A, B, C]))
    def forget(self, identity: str) -> None:
        self.exchange.producers.forget(identity)

    @invariant()
    def sets_are_right(self) -> None:
        for watcher, where in self.watchers.values():
            query = parse(where)
            assert watcher.set == {each.identity for each in self.exchange.producers if holds(query, each.metadata)}


TestSets = Sets.TestCase
TestSets.settings = examples(150, stateful_step_count=30)

DEAR = " OR ".join(f"None MATCHES 'x{number}'" for number in range(LOOKED_AT_ONCE // COST_OF_MATCHES))
"""True of no producer, and so much work that producers are looked at one at a time."""


def put_off() -> Slices:
    """Steps of these are taken by the test."""
    slices = Slices()
    slices.put_off = lambda: None
    return slices


class SetsBitByBit(Sets):
    """The same where a set becomes whole only after a while: then it is told, and before that nothing (M4)."""

    consumers = Bundle("consumers")

    def __init__(self) -> None:
        super().__init__()
        self.slices = put_off()
        self.exchange = Exchange("default", producers=Producers(slices=self.slices))
        self.early: dict[Consumer, tuple[Watcher, str]] = {}

    @rule(target=consumers, where=st.sampled_from(QUERIES))
    def subscribe(self, where: str) -> Consumer:
        watcher = Watcher()
        consumer = self.exchange.consumer(watcher, ">", "", b"1")
        self.early[consumer] = watcher, where
        self.exchange.subscribe(consumer, parse(f"({where}) OR {DEAR}"))
        self.exchange.producers.when_whole(consumer, lambda: self.whole(consumer))
        return consumer

    def whole(self, consumer: Consumer) -> None:
        if consumer in self.early:
            self.watchers[consumer] = watcher, _ = self.early.pop(consumer)
            watcher.set = set(self.exchange.producers.members(consumer))

    @rule(consumer=consumes(consumers))
    def unsubscribe(self, consumer: Consumer) -> None:
        self.exchange.unsubscribe(consumer)
        self.watchers.pop(consumer, None)
        self.early.pop(consumer, None)

    @rule()
    def step(self) -> None:
        self.slices.step()

    @rule(identity=st.sampled_from([A, B, C]), metadata=some_metadata)
    def read(self, identity: str, metadata: dict[str, Any]) -> None:
        for watcher, _ in self.early.values():
            watcher.heard.clear()
        super().read(identity, metadata)
        producer = self.exchange.producers.get(identity)
        assert producer is not None
        for watcher, where in self.early.values():
            assert len(watcher.heard) == (holds(parse(where), producer.metadata) is True)

    @invariant()
    def nothing_is_told_early(self) -> None:
        for watcher, _ in self.early.values():
            assert all(isinstance(each, Reading) for each in watcher.story)

    def teardown(self) -> None:
        while self.slices.step():
            pass
        assert not self.early
        self.sets_are_right()
        for consumer in self.watchers:
            self.exchange.unsubscribe(consumer)
        assert not any(each.standings for each in self.exchange.producers)


TestSetsBitByBit = SetsBitByBit.TestCase
TestSetsBitByBit.settings = examples(150, stateful_step_count=30)


def test_whoever_stands_for_more_gets_more(exchange: Exchange) -> None:
    """As the entry of another node does; its set is not worked out again for that."""
    read(exchange, A, Kind="a")
    (one, _), (many, consumer) = (watch(exchange, where, group="g") for where in ("Kind = 'a'", "HAS Kind"))
    exchange.recount(consumer, 3)
    for _ in range(400):
        read(exchange, A)
    assert (abs(len(one.heard) - 100) < 3, len(one.heard) + len(many.heard)) == (True, 400)
    plain = [Listener(), Listener()]
    consumers = [exchange.consumer(listener, "plain", "h", b"1") for listener in plain]
    for each in consumers:
        exchange.subscribe(each)
    exchange.recount(consumers[0], 3)
    for _ in range(400):
        exchange.publish(exchange.plans().find(b"plain"), Publication("plain", b""))
    assert abs(len(plain[0].heard) - 300) < 3


def test_a_query_that_nobody_stands_on_any_more_is_put_to_no_more_producers() -> None:
    slices = put_off()
    exchange = Exchange("default", producers=Producers(slices=slices))
    for identity in (A, B, C):
        read(exchange, identity, Kind="a")
    consumers = [watch(exchange, f"Kind = 'a' OR {DEAR}")[1] for _ in range(2)]
    assert list(exchange.producers.members(consumers[1])) == [A]
    exchange.unsubscribe(consumers[0])
    assert slices.step()
    assert list(exchange.producers.members(consumers[1])) == [A, B]
    exchange.unsubscribe(consumers[1])
    assert not slices.step()
    assert not exchange.producers.filling
    assert not any(each.standings for each in exchange.producers)


@given(st.lists(some_metadata, max_size=8))
def test_a_plan_is_remembered_only_while_it_holds(changes: list[dict[str, Any]]) -> None:
    exchange = Exchange("default")
    watcher, _ = watch(exchange, "Kind = 'a'")
    for metadata in changes:
        before = len(watcher.heard)
        read(exchange, A, **metadata)
        read(exchange, A)
        assert len(watcher.heard) - before == 2 * (A in watcher.set)


# What a user may receive (A3).

OWN_A = Permissions((reading_topic(A),))
OPEN = Permissions(("open.>",))
NOT_A = Permissions(None, (reading_topic(A),))
NOT_SECRET = Permissions(None, ("secret.>",))
MAY = {"own": OWN_A, "open": OPEN, "not a": NOT_A, "not secret": NOT_SECRET}


def guard(exchange: Exchange, sees: Permissions | None, where: str = "Kind = 'a'") -> Watcher:
    watcher = Watcher()
    consumer = exchange.consumer(watcher, ">", "", b"1", sees)
    exchange.subscribe(consumer, parse(where))
    watcher.set = set(exchange.producers.members(consumer))
    return watcher


def test_a_set_shows_only_whom_the_user_may_receive(exchange: Exchange) -> None:
    """A3: neither what is in it first, nor what comes and goes, nor who is forgotten."""
    read(exchange, A, Kind="a")
    hidden, shown = guard(exchange, Permissions(("open.>",))), guard(exchange, None)
    assert (hidden.set, shown.set) == (set(), {A})
    read(exchange, A, Kind="b")
    read(exchange, A, Kind="a")
    exchange.producers.forget(A)
    read(exchange, B, Kind="a")
    assert hidden.story == []
    assert [each for each in shown.story if isinstance(each, tuple) and not isinstance(each, Reading)] == [
        ((), (A,)),
        ((A,), ()),
        ((), (A,)),
        ((B,), ()),
    ]


def test_a_reading_on_another_topic_shows_or_hides_its_producer(exchange: Exchange) -> None:
    """A3: a change of that is a New or a Del, before the reading itself (M5)."""
    read(exchange, A, Kind="a")
    watcher = guard(exchange, OPEN)
    read(exchange, A, 2.0, "open.x")
    read(exchange, A, 3.0, "open.y")
    read(exchange, A, 4.0, "closed")
    read(exchange, A, 5.0)
    assert watcher.story == [((A,), ()), Reading(A, {}, 2.0), Reading(A, {}, 3.0), ((), (A,))]


def test_metadata_and_topic_that_change_at_once_are_one_diff(exchange: Exchange) -> None:
    read(exchange, A, 1.0, "open.x", Kind="b")
    watcher = guard(exchange, OPEN)
    read(exchange, A, 2.0, "closed", Kind="a")
    read(exchange, A, 3.0, "open.x", Kind="b")
    assert watcher.story == []
    read(exchange, A, 4.0, "open.x", Kind="a")
    read(exchange, A, 5.0, "closed", Kind="b")
    assert watcher.story == [((A,), ()), Reading(A, {"Kind": "a"}, 4.0), ((), (A,))]


def test_who_may_not_receive_a_producer_does_not_get_its_readings_by_a_query(exchange: Exchange) -> None:
    """Though the topic is allowed, its producer's own is denied: it is in no set, and M5 goes by the set."""
    watcher = guard(exchange, NOT_A)
    read(exchange, A, 1.0, "open.x", Kind="a")
    read(exchange, B, 2.0, "open.x", Kind="a")
    assert watcher.story == [((B,), ()), Reading(B, {"Kind": "a"}, 2.0)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([A, B]),
            st.sampled_from(["", "open.x", "secret.x", "closed"]),
            st.sampled_from([{}, {"Kind": "a"}, {"Kind": "b"}]),
            st.booleans(),
        ),
        max_size=12,
    ),
    st.sampled_from(sorted(MAY)),
)
@examples(60)
def test_what_was_told_is_the_set_that_the_definition_gives(said: list[Any], may: str) -> None:
    """After each reading: those that the query selects, and that the rules show."""
    exchange, sees = Exchange("default"), MAY[may]
    watcher = guard(exchange, sees)
    for number, (identity, topic, metadata, is_forgotten) in enumerate(said):
        if is_forgotten:
            exchange.producers.forget(identity)
        else:
            read(exchange, identity, float(number), topic, **metadata)
        expected = set()
        for producer in exchange.producers:
            own, latest = reading_topic(producer.identity), producer.latest()[0]
            is_allowed = any(sees.allow is None or fits_one(sees.allow, each) for each in (own, latest))
            is_denied = any(fits_one(sees.deny, each) for each in (own, latest))
            if producer.metadata.get("Kind") == "a" and is_allowed and not is_denied:
                expected.add(producer.identity)
        assert watcher.set == expected


def fits_one(rules: tuple[str, ...], topic: str) -> bool:
    return any(matches(parse_pattern(rule), split(topic)) for rule in rules)


def test_the_forgotten_are_told_to_those_who_may_receive_them(exchange: Exchange) -> None:
    """A3: `_FORGOTTEN` names a producer; and of a group, the one who may hear it is chosen."""
    everybody, other, member, stranger = Historian(), Historian(), Historian(), Historian()
    for historian, group, sees in (
        (everybody, "", None),
        (other, "", Permissions(("_FORGOTTEN", "open.>"))),
        (member, "g", Permissions(("_FORGOTTEN", reading_topic(A)))),
        (stranger, "g", Permissions(("_FORGOTTEN",))),
    ):
        exchange.subscribe(exchange.consumer(historian, FORGOTTEN, group, b"1", sees))
    for identity, topic in ((A, ""), (B, "open.x"), (C, "closed")):
        read(exchange, identity, 1.0, topic, Kind="a")
        exchange.producers.forget(identity)
    heard = [[each.payload.decode() for each in one.kept] for one in (everybody, other, member, stranger)]
    assert heard == [[A, B, C], [B], [A], []]


def test_another_node_forgets_and_those_here_who_may_receive_it_hear_of_it(exchange: Exchange) -> None:
    """The same for what is forwarded: here the producer may be gone already, so its last topic comes along."""
    there = Exchange("default")
    historian, own, nobody = Historian(), Historian(), Historian()
    there.subscribe(there.consumer(historian, FORGOTTEN, "", b"1"))
    for listener, sees in ((own, OPEN), (nobody, Permissions(("closed.>",)))):
        rules = Permissions((*(sees.allow or ()), FORGOTTEN))
        exchange.subscribe(exchange.consumer(listener, FORGOTTEN, "", b"1", rules))
    read(there, A, 1.0, "open.x", Kind="a")
    there.producers.forget(A)
    (said,) = historian.kept
    plan = exchange.own_plans().find(FORGOTTEN.encode())
    assert exchange.deliver(plan, Publication(FORGOTTEN, said.payload, "", said.headers), ()) == 1
    assert (len(own.kept), len(nobody.kept)) == (1, 0)


def test_a_large_set_is_taken_apart_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A6: meanwhile its producers publish, are forgotten, and the same query stands anew."""
    monkeypatch.setattr(producers_module, "EMPTIED_AT_ONCE", 10)
    slices = put_off()
    exchange = Exchange("default", producers=Producers(slices=slices))
    everybody = [f"{number:08}-0000-4000-8000-000000000000" for number in range(95)]
    for identity in everybody:
        read(exchange, identity, Kind="a")
    _, consumer = watch(exchange, "Kind = 'a'")
    while slices.step():
        pass
    exchange.unsubscribe(consumer)
    assert sum(len(each.standings) for each in exchange.producers) == 85
    assert read(exchange, everybody[50]) == read(exchange, everybody[50], Kind="b") == 0
    exchange.producers.forget(everybody[94])
    again, _ = watch(exchange, "Kind = 'a'")
    while slices.step():
        pass
    assert read(exchange, everybody[93]) == 1
    assert [len(each.standings) for each in exchange.producers] == [
        int(each != everybody[50]) for each in everybody[:94]
    ]
    assert len(again.heard) == 1
