"""F6: what decides the set, and what is left to ask of each message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.query.canonical import canonical
from fumarole.core.query.holds import could_hold, holds
from fumarole.core.query.parse import parse
from fumarole.core.query.parts import message_query, set_query
from fumarole.core.query.tree import Metadata, Query, fields, keys
from tests.conformance.messages import MESSAGE_CASES, MessageCase, Sent
from tests.core.query.messages import message, message_of, queries, sents
from tests.core.query.strategies import metadata


@pytest.mark.parametrize(
    ("text", "decides", "left"),
    [
        ("Kind = 'so2'", "Kind = 'so2'", None),
        ("$value > 80", None, "$value > 80"),
        ("Kind = 'so2' AND $value > 80", "Kind = 'so2'", "$value > 80"),
        ("NOT (Kind != 'so2' OR NOT $value > 80)", "Kind = 'so2'", "$value > 80"),
        ("Kind = 'so2' OR $value > 80", None, "$value > 80 OR Kind = 'so2'"),
        ("NOT (Kind = 'so2' AND $value > 80)", None, "Kind != 'so2' OR $value <= 80"),
        ("a = 1 AND (b = 1 OR $size > 9)", "a = 1", "$size > 9 OR b = 1"),
        ("a = 1 AND $size > 9 OR a = 2 AND $value > 1", "a IN (1, 2)", "a = 1 AND $size > 9 OR a = 2 AND $value > 1"),
        ("a = 1 AND $.x BETWEEN 1 AND 2 AND NOT $.y IN (1, 2)", "a = 1", "$.x >= 1 AND $.x <= 2 AND $.y NOT IN (1, 2)"),
        ("(a = 1 OR b = 1) AND (a = 1 OR b = 1 OR $value = 1)", "a = 1 OR b = 1", "a = 1 OR b = 1 OR $value = 1"),
    ],
)
def test_parts(text: str, decides: str | None, left: str | None) -> None:
    query = parse(text)
    assert set_query(query) == (None if decides is None else canonical(parse(decides)))
    assert message_query(query) == (None if left is None else canonical(parse(left)))


def in_set(query: Query, producer: Metadata) -> bool:
    decides = set_query(query)
    return decides is None or holds(decides, producer) is True


@pytest.mark.parametrize("case", MESSAGE_CASES, ids=lambda case: case.name)
def test_the_table(case: MessageCase) -> None:
    query = parse(case.query)
    assert (could_hold(query, case.metadata) is True) is case.is_in_set
    assert in_set(query, case.metadata) is case.is_in_set


@given(queries, st.lists(metadata, min_size=1, max_size=5))
def test_the_set_equals_its_definition(query: Query, producers: list[Metadata]) -> None:
    for producer in producers:
        assert in_set(query, producer) is (could_hold(query, producer) is True)


@given(queries, metadata, st.lists(sents, min_size=1, max_size=5))
def test_what_is_left_decides_for_producers_in_the_set(query: Query, producer: Metadata, sent: list[Sent]) -> None:
    left = message_query(query)
    for each in sent:
        one = message(each, producer)
        is_left = left is None or holds(left, one) is True
        assert (in_set(query, producer) and is_left) is (holds(query, one) is True)


@given(queries, metadata, st.lists(sents, min_size=1, max_size=5))
def test_whatever_is_delivered_is_of_a_producer_in_the_set(query: Query, producer: Metadata, sent: list[Sent]) -> None:
    """The theorem of F6."""
    if any(holds(query, message(each, producer)) is True for each in sent):
        assert could_hold(query, producer) is True


@given(queries)
def test_each_part_asks_for_what_it_says(query: Query) -> None:
    decides, left = set_query(query), message_query(query)
    assert decides is None or not fields(decides)
    assert (left is None) is (not fields(query))
    assert left is None or fields(left) == fields(query)
    assert keys(query) >= (keys(decides) if decides else frozenset()) | (keys(left) if left else frozenset())


@given(queries, metadata)
def test_without_tests_of_the_message_the_set_is_the_query(query: Query, producer: Metadata) -> None:
    if not fields(query):
        assert could_hold(query, producer) is holds(query, producer)
        assert set_query(query) == canonical(query)


def test_both_parts_of_a_case_are_true_where_it_is() -> None:
    assert any(case.holds and not fields(parse(case.query)) for case in MESSAGE_CASES) is False
    delivered = [case for case in MESSAGE_CASES if case.holds]
    assert all(case.is_in_set for case in delivered)
    assert all(holds(left, message_of(case)) for case in delivered if (left := message_query(parse(case.query))))
