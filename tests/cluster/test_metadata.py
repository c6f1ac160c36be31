"""Metadata comes to the same on every node, in whatever order the nodes hear of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import groupby, pairwise
from random import Random
from typing import Any
from uuid import UUID

import pytest

from fumarole.cluster.metadata import GRAVE_SECONDS, PART, SAID_SECONDS, Metadata, author
from fumarole.core.limits import Limits
from fumarole.core.query.parse import parse
from fumarole.exchange.namespaces import NamespaceRules, Namespaces
from fumarole.exchange.presence import said_by_producer
from fumarole.exchange.producer import Producer
from fumarole.exchange.producers import HEARSAY
from fumarole.exchange.readings import Reading
from fumarole.protocols.cluster_protocol import Frame, Heard, Moved, Producers
from tests.exchange.test_producers import Watcher

PRODUCER = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
TTL = 5.0
STEP = 0.25
Said = Producers | Heard | Moved
CAME, WENT = ((PRODUCER,), ()), ((), (PRODUCER,))


class Place:
    """A node, as far as it matters here. What it says to another waits there until it is heard."""

    def __init__(self, name: str, places: list[Place], life: int = 1, ttl: float | None = None) -> None:
        namespaces = Namespaces(rules={"default": NamespaceRules(producer_ttl=ttl)})
        self.name, self.namespaces = name, namespaces
        self.metadata = Metadata(namespaces, author(name, life), self._say)
        metadata = self.metadata
        moved = metadata.whereabouts.changed
        namespaces.replicate(lambda *_: None, metadata.described, metadata.forgotten, moved=moved)
        exchange = namespaces.get("default")
        assert exchange is not None
        self.exchange, self.producers = exchange, exchange.producers
        self.waiting: dict[str, deque[Said]] = {}
        self.forgotten = 0
        self.producers.publish_forgotten = self._publish_forgotten
        self._places = places
        places.append(self)

    def _say(self, frame: Frame) -> None:
        assert isinstance(frame, Said)
        for place in self._places:
            if place is not self:
                place.waiting.setdefault(self.name, deque()).append(frame)

    def _publish_forgotten(self, _: Producer) -> None:
        self.forgotten += 1

    def watch(self) -> Watcher:
        """A consumer of a query that the producer satisfies wherever it is."""
        watcher = Watcher(self.name)
        self.exchange.subscribe(self.exchange.consumer(watcher, ">", "", b"1"), parse("Room = 'kitchen'"))
        return watcher

    def tick(self, now: float) -> None:
        self.producers.expire(now)
        self.metadata.tick(now)

    def tell(self, said: dict[str, Any], topic: str | None = None) -> None:
        self.producers.hear(Reading(PRODUCER, said, 1), self.metadata.now, topic)

    def forget(self) -> None:
        self.producers.forget(PRODUCER)

    def hear(self, whom: str) -> None:
        said = self.waiting[whom].popleft()
        if isinstance(said, Heard):
            self.metadata.heard(said)
        elif isinstance(said, Moved):
            self.metadata.move(said)
        else:
            self.metadata.learn(said)

    def meet_anew(self, other: Place) -> None:
        """Their link breaks: what was on its way is lost, and each tells the other everything."""
        for one, two in ((self, other), (other, self)):
            two.waiting[one.name] = deque(one.metadata.everything())

    def hear_all(self) -> None:
        for whom, waiting in self.waiting.items():
            while waiting:
                self.hear(whom)

    def known(self) -> dict[str, Any] | None:
        producer = self.producers.get(PRODUCER)
        return None if producer is None else said_by_producer(producer.metadata)


def places(*names: str, ttl: float | None = None) -> list[Place]:
    made: list[Place] = []
    for name in names:
        Place(name, made, ttl=ttl)
    return made


def steps(begin: float, end: float) -> Iterator[float]:
    return (begin + STEP * number for number in range(round((end - begin) / STEP)))


def pass_time(all_of: list[Place], now: float) -> None:
    """All are there, and hear each other well."""
    for place in all_of:
        place.tick(now)
    for place in all_of:
        place.hear_all()


def test_nothing_that_only_one_was_told_is_lost() -> None:
    a, b, c = all_of = places("a", "b", "c")
    a.tell({"Kind": "temperature", "Old": 1})
    for place in all_of:
        place.hear_all()
    a.tell({"Room": "kitchen"})
    b.tell({"Floor": 2, "Old": None})
    c.hear("b")
    c.hear("a")
    for place in all_of:
        place.hear_all()
    assert [place.known() for place in all_of] == [{"Kind": "temperature", "Room": "kitchen", "Floor": 2}] * 3


def test_of_one_key_the_newer_holds() -> None:
    a, b = all_of = places("a", "b")
    a.tell({"Room": "kitchen"})
    b.tell({"Room": "hall"})
    b.tell({"Room": "attic"})
    for place in all_of:
        place.hear_all()
    assert [place.known() for place in all_of] == [{"Room": "attic"}] * 2


def test_what_was_heard_is_not_brought_back_by_what_is_older() -> None:
    a, b, late = places("a", "b", "c")
    a.tell({"Room": "kitchen", "Floor": 1})
    b.hear_all()
    b.tell({"Room": None})
    late.hear("b")
    late.hear("a")
    assert late.known() == {"Floor": 1}


def test_versions_of_keys_are_forgotten_after_a_while() -> None:
    a, b = places("a", "b")
    a.tell({"Room": "kitchen"})
    b.hear_all()
    for place in (a, b):
        place.metadata.tick(SAID_SECONDS + GRAVE_SECONDS)
        place.metadata.tick(2 * (SAID_SECONDS + GRAVE_SECONDS))
        assert place.metadata._said == {}
    (said,) = a.metadata.everything()
    assert said.producers[0].said == {}


def test_what_was_said_before_it_was_forgotten_does_not_come_back() -> None:
    """In whatever order a node hears that a producer said something, was forgotten, and said something else."""
    a, b, c, late = all_of = places("a", "b", "c", "d")
    a.tell({"Kind": "temperature"})
    for place in all_of:
        place.hear_all()
    a.tell({"Room": "kitchen"})
    b.forget()
    c.hear("b")
    c.tell({"Floor": 1})
    for whom in ("a", "c", "b"):
        late.hear(whom)
    for place in all_of:
        place.hear_all()
    assert [place.known() for place in all_of] == [{"Floor": 1}] * 4


def test_who_says_that_it_was_forgotten_may_be_gone() -> None:
    """What the producer has said since tells of it too."""
    a, b, c, late = places("a", "b", "c", "d")
    a.tell({"Kind": "temperature", "Room": "kitchen"})
    for place in (b, c, late):
        place.hear_all()
    b.forget()
    c.hear("b")
    c.tell({"Floor": 1})
    late.waiting["b"].clear()
    late.hear_all()
    assert late.known() == {"Floor": 1}


@pytest.mark.parametrize("is_forgotten", [False, True], ids=["said", "forgotten"])
def test_what_a_node_said_before_it_was_gone_is_told_by_those_who_heard_it(is_forgotten: bool) -> None:
    a, b, c = places("a", "b", "c")
    a.tell({"Kind": "temperature"})
    for place in (b, c):
        place.hear_all()
    if is_forgotten:
        a.forget()
    else:
        a.tell({"Room": "kitchen"})
    b.hear_all()
    c.waiting["a"].clear()
    assert b.known() != c.known()
    for said in b.metadata.said_by({"a"}):
        if said is not None:
            c.metadata.learn(said)
    assert b.known() == c.known()


def test_what_is_to_be_told_again_is_looked_for_a_part_at_a_time() -> None:
    """Also where there is nothing of it: so many are there that it would keep others waiting."""
    a, b = places("a", "b")
    for number in range(PART + 1):
        a.producers.hear(Reading(str(UUID(int=number, version=4)), {"Room": "kitchen"}, 1), 0.0)
    b.hear_all()
    assert list(b.metadata.said_by({"c"})) == [None, None]
    told = list(b.metadata.said_by({"a"}))
    parts = [list(part) for is_end, part in groupby(told, key=lambda said: said is None) if not is_end]
    assert [sum(len(said.producers) for said in part if said) for part in parts] == [PART, 1]


def test_a_node_that_lives_again_gives_other_versions() -> None:
    """What it says before it has heard of what it said in its former life does not pass for that."""
    a, b = all_of = places("a", "b")
    a.tell({"Room": "kitchen"})
    b.hear_all()
    all_of.remove(a)
    again = Place("a", all_of, life=2)
    again.tell({"Room": "hall"})
    again.meet_anew(b)
    for place in all_of:
        place.hear_all()
    assert again.known() == b.known()


def test_what_was_kept_through_a_restart_of_all_comes_to_the_same() -> None:
    """Each has it from its own disk, and one of them was away when it last changed."""
    for order in ((0, 1), (1, 0)):
        pair = places("a", "b")
        kept: list[dict[str, Any]] = [{"Room": "kitchen"}, {"Room": "hall", "Floor": 1}]
        for place, metadata in zip(pair, kept, strict=True):
            place.producers.restore(PRODUCER, metadata, 0.0)
        for number in order:
            for said in pair[number].metadata.everything():
                pair[1 - number].metadata.learn(said)
        assert pair[0].known() == pair[1].known()
        assert pair[0].known() in kept


def test_a_producer_that_always_has_another_key_leaves_nothing_behind() -> None:
    limits = Limits()
    for length in (1, 3000):
        a, b = places("a", "b")
        names = [f"{'k' * length}{number}" for number in range(5 * limits.metadata_keys)]
        for gone, new in pairwise(names):
            a.tell({gone: None, new: 1})
            b.hear_all()
        for place in (a, b):
            ((stamps, _),) = place.metadata._said.values()
            assert len(stamps) <= 2 * limits.metadata_keys
            assert sum(map(len, stamps)) <= 2 * limits.metadata_bytes
            assert place.known() == {names[-1]: 1}


@pytest.mark.parametrize("speaker", [0, 1, 2])
def test_the_silent_are_forgotten_everywhere_and_once(speaker: int) -> None:
    """M7: by the node that heard it last."""
    all_of = places("a", "b", "c", ttl=TTL)
    watchers = [place.watch() for place in all_of]
    pass_time(all_of, 100.0)
    all_of[speaker].tell({"Room": "kitchen"})
    for now in steps(100.0, 100.0 + TTL + HEARSAY):
        pass_time(all_of, now)
        assert [place.known() for place in all_of] == [{"Room": "kitchen"}] * 3
    for now in steps(100.0 + TTL + HEARSAY, 160.0):
        pass_time(all_of, now)
        assert [place.known() for place in all_of] == [None] * 3
    assert [watcher.story for watcher in watchers] == [[CAME, WENT]] * 3
    assert [place.forgotten for place in all_of] == [place is all_of[speaker] for place in all_of]


def test_what_was_only_heard_of_is_not_told_on() -> None:
    a, b = all_of = places("a", "b", ttl=TTL)
    pass_time(all_of, 99.5)
    a.tell({"Room": "kitchen"})
    for now in steps(100.0, 104.0):
        a.tick(now)
        b.hear_all()
        b.tick(now)
        assert not a.waiting.get("b")


def test_who_speaks_now_and_then_somewhere_is_forgotten_nowhere() -> None:
    """Though what others hear of it comes late, and was in time before."""
    all_of = places("a", "b", "c", ttl=TTL)
    watchers = [place.watch() for place in all_of]
    speaks, said = 100.0, 0
    for now in steps(100.0, 160.0):
        pass_time(all_of, now)
        if now >= speaks:
            all_of[said % 2].tell({"Room": "kitchen"} if not said else {})
            speaks, said = now + TTL - STEP, said + 1
    assert said > 10
    assert [watcher.story for watcher in watchers] == [[CAME]] * 3


def test_the_silent_are_forgotten_though_the_node_that_heard_them_is_gone() -> None:
    """All others do at once what each does alone; no node is told twice."""
    a, b, c = all_of = places("a", "b", "c", ttl=TTL)
    pass_time(all_of, 100.0)
    a.tell({"Room": "kitchen"})
    all_of.remove(a)
    watchers = [place.watch() for place in all_of]
    for now in steps(100.0, 100.0 + TTL + 2 * HEARSAY):
        pass_time(all_of, now)
        assert b.known() == c.known() == {"Room": "kitchen"}
    for now in steps(100.0 + TTL + 2 * HEARSAY, 160.0):
        pass_time(all_of, now)
    assert b.known() is c.known() is None
    assert [watcher.story[-1] for watcher in watchers] == [WENT] * 2
    assert sum(watcher.story.count(WENT) for watcher in watchers) == 2
    b.tell({"Room": "hall"})
    c.hear_all()
    assert b.known() == c.known() == {"Room": "hall"}


@pytest.mark.parametrize("says", [{}, {"Floor": 1}], ids=["readings only", "something new"])
@pytest.mark.parametrize("told_by", ["b", "c"], ids=["who forgot it", "another that heard of that"])
def test_who_is_cut_off_forgets_nobody_that_others_hear(says: dict[str, Any], told_by: str) -> None:
    a, b, c = all_of = places("a", "b", "c", ttl=TTL)
    pass_time(all_of, 100.0)
    a.tell({"Room": "kitchen"})
    pass_time(all_of, 100.0)
    watcher = a.watch()
    for now in steps(100.0, 130.0):
        a.tick(now)
        a.tell(says)
        for place in (b, c):
            place.waiting["a"].clear()
        b.tick(now)
        c.hear_all()
        c.tick(now)
        b.hear_all()
    assert b.known() is c.known() is None
    a.waiting.clear()
    a.meet_anew(b if told_by == "b" else c)
    for _ in all_of:
        for place in all_of:
            place.hear_all()
    assert [place.known() for place in all_of] == [{"Room": "kitchen", **says}] * 3
    assert len({place.producers.get(PRODUCER).version for place in all_of}) == 1  # type: ignore[union-attr]
    assert watcher.story.count(WENT) == 0


def test_who_was_told_to_forget_a_producer_is_heeded_though_it_speaks_elsewhere() -> None:
    a, b = all_of = places("a", "b", ttl=TTL)
    pass_time(all_of, 100.0)
    a.tell({"Room": "kitchen"})
    pass_time(all_of, 101.0)
    b.forget()
    pass_time(all_of, 101.0)
    assert a.known() is b.known() is None


def hear_of_one(place: Place, random: Random) -> None:
    """The next thing that one of the others has said to it, if there is any."""
    whom = [name for name, waiting in place.waiting.items() if waiting]
    if whom:
        place.hear(random.choice(whom))


def check_agreed(all_of: list[Place]) -> None:
    assert all_of[0].known() == all_of[1].known() == all_of[2].known()
    versions = {place.producers.get(PRODUCER).version for place in all_of if place.known() is not None}  # type: ignore[union-attr]
    assert len(versions) <= 1


@pytest.mark.parametrize("seed", range(400))
def test_all_come_to_the_same(seed: int) -> None:
    """Three nodes are told anything at random (in every other case also to forget it), and hear of each other now and then, each in order, while links break."""
    random, all_of = Random(seed), places("a", "b", "c")
    for _ in range(40):
        place = random.choice(all_of)
        if random.random() < 0.4:
            keys = random.sample(["Room", "Floor", "Kind", "Unit"], random.randint(1, 2))
            place.tell({key: random.choice([None, 1, 2, 3]) for key in keys})
        elif seed % 2 and random.random() < 0.1:
            place.forget()
        elif random.random() < 0.1:
            place.meet_anew(random.choice([other for other in all_of if other is not place]))
        else:
            hear_of_one(place, random)
    for place in all_of:
        place.hear_all()
    check_agreed(all_of)


@pytest.mark.parametrize("seed", range(200))
def test_all_come_to_the_same_where_the_silent_are_forgotten(seed: int) -> None:
    """The same while time passes: each forgets who it has heard nothing of, and who was heard elsewhere comes back."""
    random, all_of, now = Random(seed), places("a", "b", "c", ttl=TTL), 100.0
    for _ in range(80):
        place = random.choice(all_of)
        now += random.choice([0.0, 0.1, 1.0, TTL])
        place.tick(now)
        if random.random() < 0.3:
            keys = random.sample(["Room", "Floor", "Kind", "Unit"], random.randint(0, 2))
            place.tell({key: random.choice([None, 1, 2, 3]) for key in keys})
        elif random.random() < 0.05:
            place.forget()
        elif random.random() < 0.2:
            place.meet_anew(random.choice([other for other in all_of if other is not place]))
        else:
            hear_of_one(place, random)
    while any(waiting for place in all_of for waiting in place.waiting.values()):
        for place in all_of:
            place.hear_all()
    check_agreed(all_of)
