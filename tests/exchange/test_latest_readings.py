"""The newest readings of named producers, of all nodes: the frames between them are those of tests/cluster/test_fresh_state.py."""

from __future__ import annotations

from random import Random

import pytest

from fumarole.core.publication import Publication
from fumarole.exchange.latest_readings import PATIENCE, LatestReadings
from fumarole.exchange.permissions import Permissions
from fumarole.exchange.readings import Reading
from fumarole.exchange.retained import Kept
from tests.cluster.test_fresh_state import Place, settle

IDS = [f"2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e6{digit}" for digit in range(4)]


def say(place: Place, identity: str, value: float, topic: str = "") -> None:
    """A reading, of which only this node hears."""
    publication = Publication(topic or f"readings.{identity}", str(value).encode())
    publication.reading = Reading(identity, {}, value)
    place.exchange.publish_reading(publication, place.exchange.plans(), place.seconds)
    place.exchange.timers.run(place.seconds)


def known(place: Place, *identities: str) -> None:
    """What a cluster tells every node: there are such producers."""
    for identity in identities:
        place.exchange.producers.describe(identity, {}, place.seconds)


def values(found: dict[str, Kept]) -> dict[str, str]:
    return {identity: kept.payload.decode() for identity, kept in found.items()}


@pytest.fixture
def places() -> dict[str, Place]:
    made: dict[str, Place] = {}
    for name in "abc":
        known(Place(name, made), *IDS)
    return made


@pytest.mark.parametrize("seed", range(10))
def test_of_each_producer_the_newest_of_all_nodes(places: dict[str, Place], seed: int) -> None:
    chance = Random(seed)
    newest: dict[str, str] = {}
    for number in range(chance.randrange(12)):
        Place.seconds += 1.0
        identity = chance.choice(IDS)
        say(chance.choice(list(places.values())), identity, float(number))
        newest[identity] = str(float(number))
    for place in places.values():
        place.exchange.timers.run(Place.seconds)
    answers: list[dict[str, str]] = []
    asked = IDS[:3]
    LatestReadings(places["a"].exchange, asked, None, lambda found: answers.append(values(found))).begin()
    assert answers == []
    settle(places, chance)
    assert answers == [{identity: value for identity, value in newest.items() if identity in asked}]


def test_a_node_alone_answers_at_once(places: dict[str, Place]) -> None:
    alone = Place("z", {})
    known(alone, IDS[0])
    say(alone, IDS[0], 1.5)
    answers: list[dict[str, str]] = []
    LatestReadings(alone.exchange, IDS, None, lambda found: answers.append(values(found))).begin()
    assert answers == [{IDS[0]: "1.5"}]


def test_nodes_that_do_not_answer_are_left_out(places: dict[str, Place]) -> None:
    say(places["a"], IDS[0], 1.0)
    Place.seconds += 1.0
    say(places["b"], IDS[0], 2.0)
    answers: list[dict[str, str]] = []
    exchange = places["a"].exchange
    LatestReadings(exchange, IDS, None, lambda found: answers.append(values(found))).begin()
    while places["a"].hear("c") or places["c"].hear("a"):
        pass
    exchange.timers.run(exchange.timers.now() + PATIENCE - 0.01)
    assert answers == []
    exchange.timers.run(exchange.timers.now() + 0.02)
    assert answers == [{IDS[0]: "1.0"}]
    settle(places, Random(1))
    assert len(answers) == 1


def test_readings_that_may_not_be_received_are_told_by_no_node(places: dict[str, Place]) -> None:
    say(places["a"], IDS[0], 1.0, "open.a")
    say(places["b"], IDS[1], 2.0, "hidden.b")
    say(places["b"], IDS[2], 3.0, "open.c")
    answers: list[dict[str, str]] = []
    sees = Permissions(("open.>",))
    LatestReadings(places["a"].exchange, IDS, sees, lambda found: answers.append(values(found))).begin()
    settle(places, Random(1))
    assert answers == [{IDS[0]: "1.0", IDS[2]: "3.0"}]
