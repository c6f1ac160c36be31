"""The topic of a producer's latest reading is known on every node, also on one that gets no reading (A3, C6)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from fumarole.cluster import whereabouts
from fumarole.cluster.whereabouts import LATELY_SECONDS, TOPIC_BYTES
from fumarole.core.query.parse import parse
from fumarole.exchange.node import Node
from fumarole.exchange.permissions import Permissions, User
from fumarole.exchange.readings import reading_topic
from fumarole.protocols.cluster_protocol import MOST_MICROSECONDS, Described, Frame, Moved, Producers, Spoken
from fumarole.sessions.service_request import Request
from fumarole.sessions.services import answer
from tests.cluster.test_metadata import CAME, PRODUCER, WENT, Place, places
from tests.exchange.test_producers import Watcher, guard
from tests.exchange.test_views import Client, begin

OWN = reading_topic(PRODUCER)
PLANT, SECRET = "plant.boiler", "secret.boiler"
NOT_SECRET = Permissions(None, ("secret.>",))
ONLY_PLANT = Permissions(("plant.>",))
"""The producer's own topic is not allowed: only that of its latest reading shows it."""
BOILER = {"Kind": "a"}
"""What the query of `guard` selects."""


def hear_all(*of: Place) -> None:
    for place in of:
        place.hear_all()


def listed(place: Place, sees: Permissions | None) -> list[str]:
    """What `$FUM.producers` answers to a user with these permissions."""
    said: list[dict[str, Any]] = []
    user = User("ada", "default", subscribe=sees)
    assert answer("$FUM.producers", Request(Node(place.name, "1"), place.exchange, user, "", 0.0, 1), said.append)
    return [each["id"] for each in said[0]["producers"]]


def topic(place: Place) -> str:
    producer = place.producers.get(PRODUCER)
    assert producer is not None
    return producer.latest()[0]


def by_metadata(place: Place, on: str) -> None:
    place.tell({"Other": on}, on)


def alone(place: Place, on: str) -> None:
    place.tell({}, on)


@pytest.mark.parametrize("move", [alone, by_metadata])
def test_the_other_node_shows_and_hides_by_the_topic_of_a_reading_that_it_never_gets(
    move: Callable[[Place, str], None],
) -> None:
    a, b = places("a", "b")
    a.tell(BOILER)
    b.hear_all()
    hidden, shown, plain = (guard(b.exchange, sees) for sees in (NOT_SECRET, ONLY_PLANT, None))
    client, everything = Client(), {PRODUCER}
    begin(b.exchange, "select Kind where Kind = 'a'", client, NOT_SECRET)
    assert (hidden.set, shown.set, plain.set) == (everything, set(), everything)

    move(a, SECRET)
    b.hear_all()
    assert (hidden.set, shown.set) == (set(), set())
    assert client.told[-1] == {"New": [], "Del": [["a"]]}
    assert [listed(b, sees) for sees in (NOT_SECRET, ONLY_PLANT, None)] == [[], [], [PRODUCER]]
    assert guard(b.exchange, NOT_SECRET).set == set()

    move(a, PLANT)
    b.hear_all()
    assert (hidden.set, shown.set) == (everything, everything)
    assert client.told[-1] == {"New": [["a"]], "Del": []}
    assert [listed(b, sees) for sees in (NOT_SECRET, ONLY_PLANT)] == [[PRODUCER]] * 2
    assert guard(b.exchange, ONLY_PLANT).set == everything

    move(a, OWN)
    b.hear_all()
    assert (hidden.set, shown.set) == (everything, set())
    assert hidden.story == [WENT, CAME]
    assert shown.story == [CAME, WENT]
    assert plain.story == []


def test_a_producer_is_first_known_with_its_topic() -> None:
    a, b = places("a", "b")
    hidden, shown = guard(b.exchange, NOT_SECRET), guard(b.exchange, ONLY_PLANT)
    a.tell(BOILER, SECRET)
    b.hear_all()
    assert (hidden.story, shown.story) == ([], [])
    a.forget()
    a.tell(BOILER, PLANT)
    b.hear_all()
    assert (hidden.story, shown.story) == ([CAME], [CAME])


def test_metadata_and_topic_that_change_at_once_are_one_diff() -> None:
    """No set is told of what holds in between only."""
    a, b = places("a", "b")
    a.tell({"Kind": "b"}, PLANT)
    b.hear_all()
    watcher = guard(b.exchange, ONLY_PLANT)
    a.tell(BOILER, SECRET)
    a.tell({"Kind": "b"}, PLANT)
    b.hear_all()
    assert watcher.story == []
    a.tell(BOILER, PLANT)
    a.tell({"Kind": "b"}, SECRET)
    b.hear_all()
    assert watcher.story == [CAME, WENT]


def test_a_node_that_comes_later_is_told() -> None:
    """With the rest of what is known, also where its metadata is known already."""
    a, b, late = places("a", "b", "c")
    a.tell(BOILER)
    hear_all(b, late)
    a.tell({}, SECRET)
    b.hear_all()
    late.waiting["a"].clear()
    assert listed(late, NOT_SECRET) == [PRODUCER]
    late.meet_anew(b)
    late.hear_all()
    assert listed(late, NOT_SECRET) == []
    newest = Place("d", [b])
    newest.meet_anew(b)
    newest.hear_all()
    assert listed(newest, NOT_SECRET) == []


def test_what_a_lost_node_said_is_told_by_those_that_heard_it() -> None:
    a, b, c = places("a", "b", "c")
    a.tell(BOILER)
    hear_all(b, c)
    for place in (b, c):
        place.metadata.tick(2 * LATELY_SECONDS)
        place.metadata.tick(4 * LATELY_SECONDS)
    a.tell({}, SECRET)
    b.hear_all()
    c.waiting["a"].clear()
    assert not any(b.metadata.said_by({"c"}))
    for said in b.metadata.said_by({"a"}):
        if said is not None:
            c.metadata.learn(said)
    assert listed(c, NOT_SECRET) == []
    b.metadata.tick(6 * LATELY_SECONDS)
    assert b.metadata.whereabouts.lately == {}


def test_moves_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whereabouts, "LATELY_KEPT", 1)
    a, b = places("a", "b")
    a.tell(BOILER, SECRET)
    b.hear_all()
    for number in range(3):
        identity = PRODUCER[:-1] + str(number)
        said = Described(identity, 1, "a@1", {}, topic=SECRET, moved=(1, "a@1"))
        b.metadata.learn(Producers("default", (said,)))
        assert list(b.metadata.whereabouts.lately) == [("default", identity)]


@pytest.mark.parametrize("seed", range(30))
def test_all_come_to_the_same(seed: int) -> None:
    """Whichever nodes a producer publishes to at once, and in whatever order they hear of it."""
    random = Random(seed)
    all_of = places("a", "b", "c", "d")
    for _ in range(60):
        place = random.choice(all_of)
        if random.random() < 0.4:
            on = random.choice([OWN, PLANT, SECRET])
            place.tell(random.choice([{}, BOILER, {"Kind": "b"}]), on)
            assert topic(place) == on
        elif whom := [name for name, waiting in place.waiting.items() if waiting]:
            place.hear(random.choice(whom))
    hear_all(*all_of)
    assert len({topic(place) for place in all_of}) == 1


def test_each_change_of_topic_is_said_once_and_no_reading_more() -> None:
    a, _ = places("a", "b")
    said: list[Frame] = []
    a.metadata._say = a.metadata.whereabouts._say = said.append
    a.tell(BOILER, PLANT)
    assert len(said) == 1
    for on in (PLANT, PLANT, SECRET, SECRET, SECRET):
        a.tell({}, on)
    assert len(said) == 2
    a.tell({"Kind": "b"}, PLANT)
    assert len(said) == 3
    a.tell({}, PLANT)
    assert len(said) == 3


def test_a_value_never_goes_to_another_topic() -> None:
    """The other node knows the topic without the value, until a reading is forwarded to it."""
    a, b = places("a", "b")
    a.tell(BOILER)
    b.hear_all()
    producer = b.producers.known[PRODUCER]

    def forward(on: str, value: float) -> None:
        said = Spoken(b"default", on, "", b"", b"1", PRODUCER, {}, value, b"")
        b.metadata.deliver(said, b.exchange, (), lambda *_: None, "a")

    forward(OWN, 1.5)
    assert producer.latest() == (OWN, 1.5)
    a.tell({}, SECRET)
    b.hear_all()
    assert producer.latest() == (SECRET, None)
    forward(SECRET, 2.5)
    assert producer.latest() == (SECRET, 2.5)
    forward(PLANT, 3.5)  # of a node that has not heard of the newer one
    assert producer.latest() == (SECRET, 2.5)
    again = Moved("default", PRODUCER, SECRET, (MOST_MICROSECONDS, "a@1"))
    b.metadata.move(again)
    assert producer.latest() == (SECRET, 2.5)


@pytest.mark.parametrize(
    "said",
    [
        Moved("default", PRODUCER, "a b", (1 << 50, "a@1")),
        Moved("default", PRODUCER, "plant.>", (1 << 50, "a@1")),
        Moved("default", PRODUCER, "a" * (TOPIC_BYTES + 1), (1 << 50, "a@1")),
        Moved("default", PRODUCER, PLANT, (MOST_MICROSECONDS + 1, "a@1")),
        Moved("default", PRODUCER, PLANT, (-1, "")),
        Moved("default", "me", PLANT, (1 << 50, "a@1")),
        Moved("nowhere", PRODUCER, PLANT, (1 << 50, "a@1")),
    ],
    ids=["space", "wildcard", "long", "never", "old", "unknown", "namespace"],
)
def test_what_makes_no_sense_is_passed_over(said: Moved) -> None:
    a, b = places("a", "b")
    a.tell(BOILER, SECRET)
    b.hear_all()
    b.metadata.move(said)
    described = Described(PRODUCER, 1, "a@1", {"Kind": "a"}, topic=said.topic, moved=said.moved)
    if said.identity == PRODUCER and said.namespace == "default":
        b.metadata.learn(Producers("default", (described,)))
    assert topic(b) == SECRET
    assert [exchange.name for exchange in b.namespaces] == ["default"]
    assert list(b.producers.known) == [PRODUCER]


def test_the_empty_topic_is_not_the_own_one() -> None:
    a, b = places("a", "b")
    a.tell(BOILER)
    b.hear_all()
    a.tell({}, "")
    b.hear_all()
    assert topic(b) == ""


def test_a_query_that_is_not_whole_yet_counts_the_producer_once(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = places("a", "b")
    a.tell(BOILER, PLANT)
    b.hear_all()
    slices = b.namespaces.slices
    watcher = Watcher()
    steps: list[Any] = []
    monkeypatch.setattr(slices, "begin", steps.append)
    consumer = b.exchange.consumer(watcher, ">", "", b"1", NOT_SECRET)
    b.exchange.subscribe(consumer, parse("Kind = 'a'"))
    a.tell({}, SECRET)
    b.hear_all()
    for step in steps:
        for _ in step:
            pass
    assert set(b.producers.members(consumer)) == set()
