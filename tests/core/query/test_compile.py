import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.query.compile import compiled
from fumarole.core.query.holds import holds
from fumarole.core.query.parse import parse
from fumarole.core.query.tree import Metadata, Query
from tests.conformance.messages import MESSAGE_CASES, MessageCase, Sent
from tests.conformance.queries import CASES, Case
from tests.core.query import messages
from tests.core.query.strategies import metadata, queries


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_table(case: Case) -> None:
    assert compiled(parse(case.query))(case.metadata) is (case.holds is True)


@given(queries, st.lists(metadata, min_size=1, max_size=5))
def test_equals_the_definition(query: Query, producers: list[Metadata]) -> None:
    """M11: a producer is selected where the query is true, and neither where it is false nor where it is unknown."""
    selects = compiled(query)
    for producer in producers:
        assert selects(producer) is (holds(query, producer) is True)


@pytest.mark.parametrize("case", MESSAGE_CASES, ids=lambda case: case.name)
def test_the_table_of_messages(case: MessageCase) -> None:
    """F6."""
    assert compiled(parse(case.query))(messages.message_of(case)) is (case.holds is True)


@given(messages.queries, metadata, st.lists(messages.sents, min_size=1, max_size=5))
def test_equals_the_definition_for_messages(query: Query, producer: Metadata, sent: list[Sent]) -> None:
    selects = compiled(query)
    for each in sent:
        one = messages.message(each, producer)
        assert selects(one) is (holds(query, one) is True)
