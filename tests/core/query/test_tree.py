import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.query.parse import parse
from fumarole.core.query.tree import (
    And,
    Compare,
    Field,
    Has,
    In,
    IsNull,
    Kind,
    Like,
    Not,
    Or,
    Query,
    Value,
    constant,
    explain,
    fields,
    keys,
    kind_of,
    show,
    show_key,
)
from tests.conformance.queries import CASES
from tests.core.query.strategies import any_tests, any_text, queries


@given(queries)
def test_text_and_tree_again(query: Query) -> None:
    assert parse(show(query)) == query


@given(any_tests)
def test_any_text_and_number_and_tree_again(query: Query) -> None:
    assert parse(show(query)) == query
    assert parse(show(Not(query))) == Not(query)


def test_the_tables_queries_again() -> None:
    for text in {case.query for case in CASES}:
        assert parse(show(parse(text))) == parse(text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (Compare("a", "=", constant("it's")), "a = 'it''s'"),
        (Not(Compare("a", "!=", constant(1.5))), "NOT a != 1.5"),
        (Not(In("a", (constant(1), constant(True)))), "a NOT IN (1, true)"),
        (Not(IsNull("a")), "a IS NOT NULL"),
        (Not(Has("and")), "NOT HAS `and`"),
        (Not(Not(Like("a`b", "%"))), "NOT `a``b` NOT LIKE '%'"),
        (And((Or((Has("a"), Has("b"))), And((Has("c"), Has("d"))))), "(HAS a OR HAS b) AND (HAS c AND HAS d)"),
        (Or((And((Has("a"), Has("b"))), Or((Has("c"), Has("d"))))), "HAS a AND HAS b OR (HAS c OR HAS d)"),
        (Not(And((Has("a"), Not(Or((Has("b"), Has("c"))))))), "NOT (HAS a AND NOT (HAS b OR HAS c))"),
    ],
)
def test_show(query: Query, text: str) -> None:
    assert show(query) == text
    assert parse(text) == query


@pytest.mark.parametrize("key", ["a", "order", "Place/Room", "~a-b", "a$x", ".a", "Gerät", "_"])
def test_plain_keys(key: str) -> None:
    assert show_key(key) == key


@pytest.mark.parametrize(
    "key", ["", "a b", "1st", "$x", "$value", "$.a", "$", "-a", "and", "NULL", "a\n", "a'", "e\u0301", "٣x"]
)
def test_keys_in_back_quotes(key: str) -> None:
    assert show_key(key) == f"`{key}`"


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (Field("value"), "$value"),
        (Field("", ("a",)), "$.a"),
        (Field("", ("pressure", "2nd", "and")), "$.pressure.2nd.and"),
        (Field("", ("a b", "", "c.d", "e`f")), "$.`a b`.``.`c.d`.`e``f`"),
        (Field("", ("$a", "x~y/z%-_", "温度")), "$.$a.x~y/z%-_.温度"),
    ],
)
def test_names_of_the_message(field: Field, text: str) -> None:
    """F6."""
    assert show_key(field) == text
    assert parse(f"HAS {text}") == Has(field)


@given(st.lists(any_text, min_size=1, max_size=4).map(tuple))
def test_any_path_and_tree_again(path: tuple[str, ...]) -> None:
    assert parse(show(Has(Field("", path)))) == Has(Field("", path))


@pytest.mark.parametrize(
    ("value", "kind"),
    [("", Kind.TEXT), (0, Kind.NUMBER), (0.0, Kind.NUMBER), (True, Kind.TRUTH), (False, Kind.TRUTH)],
)
def test_kinds(value: Value, kind: Kind) -> None:
    assert kind_of(value) is kind


@given(st.sampled_from([1, 1.0, True, "1", 0, False, ""]), st.sampled_from([1, 1.0, True, "1", 0, False, ""]))
def test_constants_are_equal_within_their_kind(one: Value, other: Value) -> None:
    assert (constant(one) == constant(other)) is (one == other and kind_of(one) is kind_of(other))
    assert (In("a", (constant(one),)) == In("a", (constant(other),))) is (constant(one) == constant(other))


def test_keys() -> None:
    assert keys(parse("a = 1 AND NOT (b IN (2) OR HAS `c d`) OR e IS NULL AND a > 3")) == {"a", "b", "c d", "e"}


def test_fields() -> None:
    query = parse("a = 1 AND NOT ($value > 2 OR $.x.y = 1) OR `$size` = 1")
    assert fields(query) == {Field("value"), Field("", ("x", "y"))}
    assert keys(query) == {"a", "$size"}
    assert fields(parse("a = 1")) == frozenset()


def test_trees_do_not_change() -> None:
    with pytest.raises(AttributeError):
        Has("a").key = "b"  # type: ignore[misc]


def test_explain() -> None:
    assert explain(parse("a=1 and (b>2 or not (c='x' and d is null)) and not has `e f`")) == (
        "AND\n"
        "├─ a = 1\n"
        "├─ OR\n"
        "│  ├─ b > 2\n"
        "│  └─ NOT\n"
        "│     └─ AND\n"
        "│        ├─ c = 'x'\n"
        "│        └─ d IS NULL\n"
        "└─ NOT HAS `e f`\n"
        "\n"
        "keys: a, b, c, d, `e f`"
    )


def test_explain_names_of_the_message() -> None:
    assert explain(parse("$.x.y = 1 or a and $value > 2")) == (
        "OR\n├─ $.x.y = 1\n└─ AND\n   ├─ a = true\n   └─ $value > 2\n\nkeys: a\nmessage: $.x.y, $value"
    )
    assert explain(parse("$value > 2")) == "$value > 2\n\nmessage: $value"
