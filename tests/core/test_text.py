import doctest
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given

import fumarole
from fumarole.core import text, topic
from fumarole.core.query.holds import holds
from fumarole.core.query.tree import Metadata, Query, show
from fumarole.core.topic import Pattern, parse_pattern, split
from tests.conformance.tables import NATIVE, Match
from tests.core.query.strategies import metadata, queries
from tests.core.strategies import patterns, topics


@pytest.mark.parametrize("module", [fumarole, text])
def test_examples(module: ModuleType) -> None:
    """The lines that the documentation begins with."""
    failed, tried = doctest.testmod(module)
    assert (failed, tried > 2) == (0, True)


@pytest.mark.parametrize("row", NATIVE, ids=lambda row: row.name)
def test_native_table(row: Match) -> None:
    """T4, T5, T6."""
    assert fumarole.matches(row.pattern, row.topic) is row.matches


@given(patterns, topics)
def test_text_matches_as_its_words_do(pattern: str, name: str) -> None:
    """T8."""
    assert fumarole.matches(pattern, name) == topic.matches(parse_pattern(pattern), split(name))


def test_channels() -> None:
    """T2."""
    assert fumarole.matches("Ätna.*", "Ätna.süd", grammar="channel")
    with pytest.raises(fumarole.PatternError, match="at position 0"):
        fumarole.matches("Ätna.*", "Ätna.süd")
    with pytest.raises(ValueError, match="loose"):
        fumarole.matches("a", "a", grammar="loose")  # type: ignore[arg-type]


def test_what_is_wrong_is_said_with_its_position() -> None:
    with pytest.raises(fumarole.PatternError, match="at position 2") as pattern:
        fumarole.matches("a.>.b", "a.b")
    assert pattern.value.position == 2
    with pytest.raises(fumarole.TopicError, match="at position 2") as name:
        fumarole.matches("a.>", "a.*")
    assert name.value.position == 2
    with pytest.raises(fumarole.QueryError, match="at position 5") as query:
        fumarole.Query("Room ~ 4")
    assert query.value.position == 5


@pytest.mark.parametrize("function", [topic.matches, topic.fits])
def test_text_is_no_parsed_pattern(function: Callable[[Pattern, Sequence[str]], bool]) -> None:
    """It would be taken for a sequence of letters, and silently match nothing."""
    with pytest.raises(TypeError, match="for text use"):
        function("a.*", "a.b")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        function(("a", "b"), "a.b")
    with pytest.raises(TypeError):
        function("a.b", ["a", "b"])  # type: ignore[arg-type]


@given(queries, metadata)
def test_a_query_holds_where_it_is_true(query: Query, values: Metadata) -> None:
    """M10: false and unknown are no reason to be selected."""
    assert fumarole.Query(show(query)).holds(values) is (holds(query, values) is True)


def test_a_query_says_what_it_is() -> None:
    query = fumarole.Query("has Room or Kind = 'gas'")
    assert (repr(query), query.text) == ("Query(\"has Room or Kind = 'gas'\")", "has Room or Kind = 'gas'")
    assert query.keys == {"Room", "Kind"}
    assert query.explain().splitlines() == ["OR", "├─ HAS Room", "└─ Kind = 'gas'", "", "keys: Kind, Room"]


def test_metadata_that_is_none() -> None:
    """M3: a key whose value is None is not there, and what metadata cannot have is an error."""
    query = fumarole.Query("Room is null")
    assert query.holds({})
    assert query.holds({"Room": None})
    assert not query.holds({"Room": "410"})
    wrong: list[Any] = [[], float("nan"), 2**64, b"410"]
    for value in wrong:
        with pytest.raises(TypeError, match="the metadata value of 'Room' is"):
            query.holds({"Room": value})


def test_a_query_of_messages() -> None:
    """F6: without a message, what is asked of it is unknown."""
    query = fumarole.Query("$value > 20 and $topic like 'volcanoes.%' and Room = '410'")
    assert query.holds({"Room": "410"}, b"21.5", "volcanoes.usa")
    assert not query.holds({"Room": "410"}, b"19.5", "volcanoes.usa")
    assert not query.holds({"Room": "410"}, b"21.5")
    assert not query.holds({"Room": "411"}, b"21.5", "volcanoes.usa")
    assert not query.holds({"Room": "410"})
    assert query.keys == {"Room"}
