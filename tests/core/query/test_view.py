"""F7: views, from text, and what they hold."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.limits import Limits
from fumarole.core.query.errors import QueryError
from fumarole.core.query.holds import holds
from fumarole.core.query.parse import parse
from fumarole.core.query.tree import Metadata, constant
from fumarole.core.query.view import Diff, Entry, View, arrays, content, diff, is_view, joined, parse_view, show_view
from tests.core.query.strategies import any_queries, any_text, keys, metadata, queries

KIND = parse("Kind = 'thermostat'")


@pytest.mark.parametrize(
    ("text", "view"),
    [
        ("select Room where Kind = 'thermostat'", View(("Room",), False, KIND)),
        ("SELECT Room,Floor\nWHERE Kind='thermostat'", View(("Room", "Floor"), False, KIND)),
        ("select Region, count(*) where Kind = 'thermostat'", View(("Region",), True, KIND)),
        ("Select Region,COUNT ( * )where Kind = 'thermostat'", View(("Region",), True, KIND)),
        ("select `Room No.`, `where`, `$value` where Kind = 'thermostat'", View(("Room No.", "where", "$value"), False, KIND)),
        ("select count, select where Kind = 'thermostat'", View(("count", "select"), False, KIND)),
        ("select a where where = 1 AND select = 2", View(("a",), False, parse("where = 1 AND select = 2"))),
        ("select a where b", View(("a",), False, parse("b = true"))),
        ("select Place/Room, 温度 where `$value` > 1", View(("Place/Room", "温度"), False, parse("`$value` > 1"))),
    ],
)  # fmt: skip
def test_views(text: str, view: View) -> None:
    assert parse_view(text) == view
    assert parse_view(show_view(view)) == view
    assert is_view(text)


@pytest.mark.parametrize(
    ("text", "position", "sentence"),
    [
        ("", 0, "found the end, expected select, at position 0"),
        ("Room = 1", 0, "found `Room`, expected select, at position 0"),
        ("select", 6, "found the end, expected a key, at position 6"),
        ("select where a = 1", 7, "found `where`, expected a key, at position 7"),
        ("select count(*) where a = 1", 7, "found `count(*)`, expected a key, at position 7"),
        ("select * where a = 1", 7, "found `*`, expected a key, at position 7"),
        ("select Room", 11, "found the end, expected a comma or where, at position 11"),
        ("select Room Floor where a = 1", 12, "found `Floor`, expected a comma or where, at position 12"),
        ("select Room, where a = 1", 13, "found `where`, expected a key, at position 13"),
        ("select Room, and where a = 1", 13, "found `and`, expected a key, at position 13"),
        ("select Room, 'x' where a = 1", 13, "found `'x'`, expected a key, at position 13"),
        ("select Room, Room where a = 1", 13, "found `Room`, expected each key once, at position 13"),
        ("select Room, `Room` where a = 1", 13, "found ``Room``, expected each key once, at position 13"),
        ("select Room, count(*), Floor where a = 1", 21, "found `,`, expected where, at position 21"),
        ("select Room, count(a) where a = 1", 18, "found `(a)`, expected a comma or where, at position 18"),
        ("select Room, `Floor where a = 1", 13, "found ``Floor`, expected a key, at position 13"),
        ("select Room where", 17, "found the end, expected a test (a key, HAS, NOT or a parenthesis), at position 17"),
        ("select Room where a = b", 22, "found `b`, expected a value (text in quotes, a number, true or false), at position 22"),
        ("select a where b where c", 17, "found `where`, expected a comparison (= != <> < <= > >=), IN, BETWEEN, LIKE, MATCHES, IS, NOT, AND, OR or the end, at position 17"),
    ],
)  # fmt: skip
def test_bad_views(text: str, position: int, sentence: str) -> None:
    with pytest.raises(QueryError) as refused:
        parse_view(text)
    assert refused.value.position == position
    assert str(refused.value) == sentence
    assert refused.value.query == text


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("select Room where $value > 80", 18),
        ("select Room where a = 1 or not ($.x = 1)", 32),
        ("select $value where a = 1", 7),
    ],
)
def test_tests_of_the_message_are_refused(text: str, position: int) -> None:
    with pytest.raises(QueryError, match="no message") as refused:
        parse_view(text)
    assert refused.value.position == position


def test_limits() -> None:
    """L2."""
    text = "select a, b, c where a = 1"
    assert parse_view(text, Limits(view_keys=3)).keys == ("a", "b", "c")
    with pytest.raises(QueryError, match="found key number 3, expected at most 2, at position 13"):
        parse_view(text, Limits(view_keys=2))
    with pytest.raises(QueryError, match="found key number 17, expected at most 16"):
        parse_view("select " + ", ".join(f"k{number}" for number in range(1_000)) + " where a = 1")
    with pytest.raises(QueryError, match="found a query of 26 bytes, expected at most 25"):
        parse_view(text, Limits(query_length=25))
    with pytest.raises(QueryError, match="found test number 2, expected at most 1, at position 21"):
        parse_view("select a where a or  b", Limits(query_tests=1))


@pytest.mark.parametrize(
    "text", ["select " + "," * 16_000, "select " + "`" * 16_001, "select a" + " " * 16_000, "select " + "(" * 16_000]
)
def test_huge_views_are_refused_at_once(text: str) -> None:
    parse_view("select a where a = 1")
    start = time.process_time()
    with pytest.raises(QueryError):
        parse_view(text)
    assert time.process_time() - start < 0.1


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("select a where b", True),
        (" \n SELECT a", True),
        ("select", True),
        ("select where", True),
        ("select `a`", True),
        ("select inner where a", True),
        ("select = 1", False),
        ("select>1", False),
        ("select in (1, 2)", False),
        ("SELECT IS NOT NULL", False),
        ("select and a", False),
        ("selected", False),
        ("select.x = 1", False),
        ("`select` = 1", False),
        ("a = 'select'", False),
        ("", False),
    ],
)
def test_what_is_meant_to_be_a_view(text: str, answer: bool) -> None:
    assert is_view(text) is answer
    if not answer and text and text != "selected":
        parse(text)


views = st.builds(View, st.lists(keys, min_size=1, max_size=3, unique=True).map(tuple), st.booleans(), queries)
populations = st.lists(metadata, max_size=8)


@given(st.builds(View, st.lists(any_text, min_size=1, max_size=4, unique=True).map(tuple), st.booleans(), any_queries))
def test_text_and_view_again(view: View) -> None:
    assert parse_view(show_view(view)) == view


def test_the_example() -> None:
    view = parse_view("select Region, count(*) where Status = 'failed'")
    producers: list[Metadata] = [
        {"Region": "usa", "Status": "failed"},
        {"Region": "usa", "Status": "failed"},
        {"Region": "japan", "Status": "failed"},
        {"Region": "japan", "Status": "fine"},
        {"Status": "failed"},
    ]
    before = content(view, producers)
    assert arrays(before) == [[None, 1], ["japan", 1], ["usa", 2]]
    after = content(view, producers[1:])
    assert [arrays(each) for each in diff(before, after)] == [[["usa", 1]], [["usa", 2]]]
    assert arrays(content(View(view.keys, False, view.query), producers)) == [[None], ["japan"], ["usa"]]


def test_values_that_are_equal_are_one() -> None:
    view = parse_view("select a, count(*) where HAS b OR b IS NULL")
    found = content(view, [{"a": 1}, {"a": 1.0}, {"a": True}, {"a": "1"}, {"a": -0.0}, {"a": 0}, {}])
    assert sorted(map(repr, arrays(found))) == sorted(["['1', 1]", "[0, 2]", "[1, 2]", "[None, 1]", "[True, 1]"])


@given(views, populations)
def test_every_selected_producer_is_in_one_entry(view: View, producers: list[Metadata]) -> None:
    selected = [producer for producer in producers if holds(view.query, producer) is True]
    counts = {entry[:-1]: entry[-1] for entry in content(View(view.keys, True, view.query), producers)}
    assert sum(count.value for count in counts.values() if count and not isinstance(count.value, str)) == len(selected)
    assert content(View(view.keys, False, view.query), producers) == counts.keys()
    for producer in selected:
        values = [producer.get(key) for key in view.keys]
        assert tuple(None if value is None else constant(value) for value in values) in counts


@given(views, populations, st.randoms(use_true_random=False))
def test_the_order_of_producers_does_not_matter(view: View, producers: list[Metadata], chance: random.Random) -> None:
    shuffled = chance.sample(producers, len(producers))
    assert content(view, shuffled) == content(view, producers)
    assert arrays(content(view, shuffled)) == arrays(content(view, producers))


def applied(before: frozenset[Entry], change: Diff) -> frozenset[Entry]:
    assert change.gone <= before
    assert not change.new & before
    return (before - change.gone) | change.new


@given(views, populations, populations, populations)
def test_diffs(view: View, one: list[Metadata], two: list[Metadata], three: list[Metadata]) -> None:
    """None is lost, none is empty, and those that wait are joined (F7)."""
    first, second, third = (content(view, producers) for producers in (one, two, three))
    change, following = diff(first, second), diff(second, third)
    assert applied(first, change) == second
    assert bool(change) is (first != second)
    assert joined(change, following) == diff(first, third)


@given(views, populations, metadata)
def test_a_count_that_changes_goes_and_comes(view: View, producers: list[Metadata], more: Metadata) -> None:
    counted = View(view.keys, True, view.query)
    change = diff(content(counted, producers), content(counted, [*producers, more]))
    if holds(view.query, more) is True:
        assert len(change.new) == 1
        assert len(change.gone) <= 1
        assert {entry[:-1] for entry in change.gone} <= {entry[:-1] for entry in change.new}
    else:
        assert not change
