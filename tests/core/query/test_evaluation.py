from collections.abc import Generator

from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.query import evaluation
from fumarole.core.query.evaluation import Evaluation, answered
from fumarole.core.query.index import QueryIndex
from fumarole.core.query.parse import parse
from fumarole.core.query.tree import Metadata, Query
from tests.core.query.strategies import metadata, queries


@given(st.lists(queries, max_size=6), metadata)
def test_slices_give_the_answers_that_one_look_gives(some: list[Query], values: Metadata) -> None:
    index = QueryIndex()
    standings = [index.add(query) for query in some]
    made = Evaluation(values)
    for _ in made.steps(standings):
        assert made.is_under_way
    assert not made.is_under_way
    assert made.answers == {each: each.selects(values) for each in standings}
    assert {each: outcome(answered(each, values)) for each in standings} == made.answers


def outcome(steps: Generator[None, None, bool]) -> bool:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return bool(done.value)


def test_there_is_a_pause_after_each_dear_test() -> None:
    index = QueryIndex()
    where = " OR ".join(f"K MATCHES '.*a.{{12}}b{number}'" for number in range(4))
    dear, cheap = index.add(parse(where)), index.add(parse("K = 'x'"))
    made = Evaluation({"K": "ab" * 2_000})
    called: list[bool] = []
    steps = made.steps([dear, cheap])
    next(steps)
    made.when_done(lambda: called.append(made.is_under_way))
    assert len(list(steps)) >= 3
    assert called == [False]
    assert made.answers == {dear: False, cheap: False}


def test_very_many_cheap_queries_are_a_slice_each_few() -> None:
    index = QueryIndex()
    standings = [index.add(parse(f"K != {number}")) for number in range(4 * evaluation.IN_A_SLICE // 11)]
    assert 3 <= len(list(Evaluation({"K": -1}).steps(standings))) <= 4


def test_answers_are_for_the_same_metadata_only() -> None:
    made = Evaluation({"K": 1, "L": "a"})
    assert made.is_of({"L": "a", "K": 1})
    assert made.is_of({"L": "a", "K": 1.0})
    assert not made.is_of({"L": "a", "K": True})
    assert not made.is_of({"L": "a"})
