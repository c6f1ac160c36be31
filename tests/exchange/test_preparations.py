"""A6: a change of metadata whose queries are dear waits for their answers, and then it is made at once (M5)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis.stateful import rule

from fumarole.core.publication import Publication
from fumarole.core.query import evaluation
from fumarole.core.query.evaluation import Unprepared
from fumarole.core.query.parse import parse
from fumarole.exchange import preparations
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.presence import Speaking
from fumarole.exchange.producers import Producers
from fumarole.exchange.quotas import Account
from fumarole.exchange.readings import Reading, reading_topic
from fumarole.exchange.slices import Slices
from tests.exchange.test_producers import A, SetsBitByBit, Watcher, put_off
from tests.random_examples import examples

DEAR = "K MATCHES '.*a.{12}b1' OR K MATCHES '.*a.{12}b2' OR K = 'x'"
TEXT = "ab" * 4_000


class Place:
    """An exchange whose slices the test takes."""

    def __init__(self) -> None:
        self.slices = put_off()
        self.exchange = Exchange("default", producers=Producers(slices=self.slices))
        self.account = Account()
        self.account.waits = True
        self.speaking = Speaking()

    def watch(self, where: str) -> Watcher:
        watcher = Watcher()
        self.exchange.subscribe(self.exchange.consumer(watcher, ">", "", b"1"), parse(where))
        self.finish()
        return watcher

    def finish(self) -> None:
        while self.slices.step():
            pass

    def read(self, value: float = 1.0, **metadata: Any) -> int:
        publication = Publication(reading_topic(A), b"", reading=Reading(A, metadata, value))
        plans = self.exchange.plans()
        return self.exchange.publish_reading(publication, plans, 0.0, None, self.account, self.speaking)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(preparations, "AT_ONCE", 10_000)
    return Place()


def test_nothing_has_happened_before_the_queries_are_answered(place: Place) -> None:
    watcher = place.watch(f"{DEAR} OR L = 1")
    with pytest.raises(Unprepared) as waiting:
        place.read(K=TEXT, L=1)
    assert place.exchange.producers.get(A) is None
    assert watcher.story == []
    done: list[int] = []
    waiting.value.evaluation.when_done(lambda: done.append(place.read(K=TEXT, L=1)))
    place.finish()
    assert done == [1]
    assert watcher.story == [((A,), ()), Reading(A, {"K": TEXT, "L": 1}, 1.0)]
    with pytest.raises(Unprepared):
        place.read(K=TEXT + "a", L=2)
    place.finish()
    place.read(K=TEXT + "a", L=2)
    assert watcher.story[2:] == [((), (A,))]


def test_short_texts_wait_for_nothing(place: Place) -> None:
    watcher = place.watch(DEAR)
    place.read(K="x")
    place.read(K="y")
    assert watcher.story == [((A,), ()), Reading(A, {"K": "x"}, 1.0), ((), (A,))]


def test_who_cannot_wait_is_served_at_once(place: Place) -> None:
    place.watch(DEAR)
    place.account.waits = False
    place.read(K=TEXT)


def test_a_query_that_came_meanwhile_is_answered_when_the_reading_comes_again(place: Place) -> None:
    place.watch(DEAR)
    with pytest.raises(Unprepared):
        place.read(K=TEXT, L=1)
    watcher = place.watch("K MATCHES '.*a.{12}b4' OR L = 1")
    with pytest.raises(Unprepared):
        place.read(K=TEXT, L=1)
    place.finish()
    place.read(K=TEXT, L=1)
    assert watcher.story == [((A,), ()), Reading(A, {"K": TEXT, "L": 1}, 1.0)]


def test_who_makes_ever_new_queries_does_not_keep_others_waiting_for_ever(place: Place) -> None:
    place.watch(DEAR)
    rounds = 0
    while rounds < 100:
        try:
            place.read(K=TEXT)
            break
        except Unprepared:
            rounds += 1
            place.watch(f"K MATCHES '.*a.{{12}}b.{{{rounds}}}9'")
    assert 0 < rounds <= preparations.MOST_ROUNDS


def test_a_second_reading_waits_behind_the_first(place: Place) -> None:
    watcher = place.watch(f"{DEAR} OR L = 1")
    with pytest.raises(Unprepared) as first:
        place.read(1.0, K=TEXT)
    with pytest.raises(Unprepared) as second:
        place.read(2.0, K=TEXT, L=1)
    assert second.value.evaluation is first.value.evaluation
    place.finish()
    place.read(1.0, K=TEXT)
    with pytest.raises(Unprepared):
        place.read(2.0, K=TEXT + "a", L=1)
    place.finish()
    place.read(2.0, K=TEXT + "a", L=1)
    assert watcher.story == [((A,), ()), Reading(A, {"K": TEXT + "a", "L": 1}, 2.0)]


def test_a_departure_waits_too(place: Place) -> None:
    """F5: `_online` is a key like others, and who asks for it may ask for more."""
    place.exchange.producers.presence.grace = 0.0
    place.account.waits = False
    place.read(K=TEXT)
    watcher = place.watch(f"NOT _online AND ({DEAR} OR L IS NULL)")
    place.exchange.producers.presence.leave(place.speaking)
    assert watcher.story == []
    place.finish()
    assert watcher.story == [((A,), ())]


def test_a_new_query_looks_at_a_long_text_in_slices(place: Place) -> None:
    place.account.waits = False
    place.read(K=TEXT, L=1)
    producers = place.exchange.producers
    watcher = Watcher()
    consumer = place.exchange.consumer(watcher, ">", "", b"1")
    place.exchange.subscribe(consumer, parse(f"{DEAR} OR L = 1"))
    assert not producers.is_whole(consumer)
    place.slices.step()
    place.read(K=TEXT + "a")
    place.finish()
    assert producers.is_whole(consumer)
    assert list(producers.members(consumer)) == [A]


class SetsPrepared(SetsBitByBit):
    """Every change waits, and what happens meanwhile changes nothing of what is told."""

    def __init__(self) -> None:
        super().__init__()
        self.account = Account()
        self.account.waits = True
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(preparations, "AT_ONCE", 0)
        self.patch.setattr(evaluation, "IN_A_SLICE", 0)

    def publish(self, identity: str, metadata: dict[str, Any]) -> None:
        while True:
            reading = Publication(reading_topic(identity), b"", reading=Reading(identity, metadata, 1.0))
            try:
                self.exchange.publish_reading(reading, self.exchange.plans(), 0.0, None, self.account)
                return
            except Unprepared as change:
                while change.evaluation.is_under_way:
                    self.slices.step()

    @rule()
    def rest(self) -> None:
        while self.slices.step():
            pass

    def teardown(self) -> None:
        super().teardown()
        self.patch.undo()


TestSetsPrepared = SetsPrepared.TestCase
TestSetsPrepared.settings = examples(100, stateful_step_count=30)


def test_slices_without_a_loop_make_nobody_wait() -> None:
    slices = Slices()
    exchange = Exchange("default", producers=Producers(slices=slices))
    assert exchange.producers.preparations.may_be_dear({"K": TEXT}) is False
