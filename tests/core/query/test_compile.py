import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.query.compile import compiled
from fumarole.core.query.holds import holds
from fumarole.core.query.parse import parse
from fumarole.core.query.tree import Metadata, Query
from tests.conformance.queries import CASES, Case
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
