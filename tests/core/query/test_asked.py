import random

from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.query import tree
from fumarole.core.query.asked import Asked
from fumarole.core.query.parse import parse
from fumarole.core.query.tree import Field, Metadata, Query, show_key
from tests.conformance.messages import Sent
from tests.core.query.messages import message, queries, sents
from tests.core.query.strategies import metadata


def asked(*texts: str) -> Asked:
    made = Asked()
    for text in texts:
        made.add(parse(text))
    return made


def names(made: Asked, payload: bytes, producer: Metadata) -> set[str]:
    return {show_key(key) for key in made.names(message(Sent(payload), producer))}


def test_a_message_is_asked_for_what_it_has() -> None:
    made = asked("$value > 80", "$.air.hpa < 900", "$.air.x = 1 AND $.water = 2", "Room = '4' OR $.air.hpa < 900")
    assert names(made, b'{"air": {"hpa": 880}}', {}) == {"$value", "$.air.hpa", "$.air.x"}
    assert names(made, b"5", {"Room": "5", "Floor": 1}) == {"$value", "Room"}


@given(st.lists(queries, max_size=4), sents, metadata)
def test_nothing_that_it_has_is_left_out(texts: list[Query], sent: Sent, producer: Metadata) -> None:
    made = Asked()
    for query in texts:
        made.add(query)
    one = message(sent, producer)
    found = list(made.names(one))
    assert len(found) == len(set(found))
    assert {key for query in texts for test in tree.tests(query) if (key := test.key) in one} <= set(found)


@given(st.lists(queries, max_size=6), st.randoms(use_true_random=False))
def test_nothing_is_left(texts: list[Query], chance: random.Random) -> None:
    made = Asked()
    for query in texts:
        made.add(query)
    assert bool(made) is bool(texts)
    for query in chance.sample(texts, len(texts)):
        made.remove(query)
    assert not made


def test_very_many_fields_cost_a_message_without_them_nothing() -> None:
    made = asked(*[f"$.f{number}.x = 1" for number in range(1_000)])
    assert names(made, b'{"f7": {"x": 1}, "y": 2}', {}) == {show_key(Field("", ("f7", "x")))}
    assert names(made, b"21.5", {}) == set()
