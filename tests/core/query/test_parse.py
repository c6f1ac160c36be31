import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.limits import DEEPEST_QUERY, Limits
from fumarole.core.query.canonical import canonical
from fumarole.core.query.compile import compiled
from fumarole.core.query.errors import QueryError
from fumarole.core.query.holds import holds
from fumarole.core.query.index import QueryIndex
from fumarole.core.query.parse import parse, parse_without_message
from fumarole.core.query.tree import (
    KEYWORDS,
    And,
    Between,
    Compare,
    Field,
    Has,
    In,
    IsNull,
    Like,
    Matches,
    Not,
    Or,
    Query,
    constant,
    explain,
    show,
)
from tests.conformance.queries import REFUSALS, Refusal

ONE = constant(1)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("a = 1", Compare("a", "=", ONE)),
        ("a <> 1", Compare("a", "!=", ONE)),
        ("a IN (1, '1', true)", In("a", (ONE, constant("1"), constant(True)))),
        ("a NOT IN (1)", Not(In("a", (ONE,)))),
        ("a BETWEEN 1 AND 2", Between("a", ONE, constant(2))),
        ("a NOT BETWEEN 1 AND 2", Not(Between("a", ONE, constant(2)))),
        ("a LIKE 'x%'", Like("a", "x%")),
        ("a NOT LIKE 'x%'", Not(Like("a", "x%"))),
        ("a MATCHES '^x'", Matches("a", "^x")),
        ("a NOT MATCHES '^x'", Not(Matches("a", "^x"))),
        ("HAS a", Has("a")),
        ("a IS NULL", IsNull("a")),
        ("a IS NOT NULL", Not(IsNull("a"))),
        ("NOT NOT HAS a", Not(Not(Has("a")))),
        ("HAS a AND HAS b AND HAS c", And((Has("a"), Has("b"), Has("c")))),
        ("HAS a AND (HAS b AND HAS c)", And((Has("a"), And((Has("b"), Has("c")))))),
        ("HAS a OR HAS b AND NOT HAS c", Or((Has("a"), And((Has("b"), Not(Has("c"))))))),
        ("a BETWEEN 1 AND 1 AND HAS b", And((Between("a", ONE, ONE), Has("b")))),
        ("(((HAS a)))", Has("a")),
        ("a", Compare("a", "=", constant(True))),
        ("not a and `b`", And((Not(Compare("a", "=", constant(True))), Compare("b", "=", constant(True))))),
        ("$value > 1", Compare(Field("value"), ">", ONE)),
        ("$.a.`b c` IN (1)", In(Field("", ("a", "b c")), (ONE,))),
        (
            "$.a IS NOT NULL AND $size BETWEEN 1 AND 1",
            And((Not(IsNull(Field("", ("a",)))), Between(Field("size"), ONE, ONE))),
        ),
        ("`$value` > 1", Compare("$value", ">", ONE)),
    ],
)
def test_trees(text: str, query: Query) -> None:
    assert parse(text) == query


def test_keys_and_texts_are_plain_text_in_the_tree() -> None:
    """Not tokens, which would keep the parser's state alive."""
    query = parse("`a` IN ('x') OR b LIKE 'y' OR HAS $.c.`d`")
    assert isinstance(query, Or)
    one, other, field = query.terms
    assert isinstance(one, In)
    assert isinstance(other, Like)
    assert isinstance(field, Has)
    assert isinstance(field.key, Field)
    assert {type(one.key), type(one.constants[0].value), type(other.key), type(other.pattern)} == {str}
    assert {*map(type, field.key.path), type(field.key.name)} == {str}


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_bad_queries(refusal: Refusal) -> None:
    with pytest.raises(QueryError) as refused:
        parse(refusal.query)
    assert refused.value.position == refusal.position
    assert refused.value.found.startswith(refusal.found)
    assert refusal.expected in refused.value.expected
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize(
    ("text", "position", "found"),
    [("$value > 5", 0, "`$value`"), ("a = 1 AND (HAS b OR NOT $.a.`x y`)", 24, "`$.a.`x y``")],
)
def test_tests_of_the_message_are_refused_where_there_is_none(text: str, position: int, found: str) -> None:
    with pytest.raises(QueryError) as refused:
        parse_without_message(text)
    assert (refused.value.position, refused.value.found) == (position, found)
    assert "there is no message" in refused.value.expected
    assert parse_without_message("`$value` = 1") == parse("`$value` = 1")


@given(
    st.lists(
        st.sampled_from(
            [
                *KEYWORDS,
                "a",
                "b",
                "1",
                "'x'",
                "(",
                ")",
                ",",
                "=",
                "<",
                "`c`",
                "-",
                "''",
                '"',
                ".5",
                "$value",
                "$.a",
                "$.",
                "$x",
            ]
        ),
        max_size=12,
    ).map(" ".join)
)
def test_whatever_is_written_is_a_query_or_refused_where_it_went_wrong(text: str) -> None:
    outcome = outcome_of(text)
    if isinstance(outcome, QueryError):
        assert 0 <= outcome.position <= len(text)
        # What stands before that place is the beginning of some query: another token there is refused there as well.
        again = outcome_of(text[: outcome.position] + "#")
        assert isinstance(again, QueryError)
        assert again.position == outcome.position
    else:
        assert parse(show(outcome)) == outcome


@given(st.text(max_size=20))
def test_any_text_is_a_query_or_refused(text: str) -> None:
    outcome = outcome_of(text)
    if isinstance(outcome, QueryError):
        assert str(outcome).isprintable()
        assert len(outcome.caret().splitlines()) == 3
    else:
        assert parse(show(outcome)) == outcome


def outcome_of(text: str) -> Query | QueryError:
    try:
        return parse(text)
    except QueryError as refused:
        return refused


# Limits.

LIMITS = Limits(query_length=100, query_depth=3, query_tests=4, query_values=3, query_pattern=5, query_regexes=2)
WITHIN = {
    "length": "a = '" + "x" * 94 + "'",
    "tests of the message": "$value = 1 OR $.a = 2 OR HAS $.b OR c",
    "length in bytes": "a = '" + "ü" * 47 + "'",
    "parentheses": "(((a = 1)))",
    "parentheses, again and again": "((a = 1)) AND ((a = 1)) AND (a IN (1))",
    "NOTs": "NOT NOT NOT a = 1",
    "NOT and parentheses": "NOT (NOT a = 1) AND NOT NOT NOT a = 1",
    "NOT of a test": "((NOT a NOT IN (1)))",
    "tests": "a = 1 OR a = 2 OR a = 3 OR a = 4",
    "values": "a IN (1, 2, 3) AND b IN (1, 2, 3)",
    "pattern": "a LIKE 'xxxxx' AND a MATCHES 'xxxxx' AND a = 'xxxxxx'",
    "pattern with its quotes doubled": "a LIKE ''''''''''''",
    "pattern in bytes": "a LIKE 'xüü'",
    "regular expressions": "a MATCHES 'x' OR a NOT MATCHES 'y' OR a LIKE 'x'",
}
BEYOND = {
    "length": ("a = '" + "x" * 95 + "'", 100, "a query of 101 bytes", "at most 100"),
    "length in bytes": ("a = '" + "ü" * 48 + "'", 52, "a query of 102 bytes", "at most 100"),
    "parentheses": ("((((a = 1))))", 3, "nesting of depth 4", "at most 3"),
    "parentheses of a list": ("(((a IN (1))))", 8, "nesting of depth 4", "at most 3"),
    "NOTs": ("NOT NOT NOT NOT a = 1", 12, "nesting of depth 4", "at most 3"),
    "NOT and parentheses": ("NOT (NOT (a = 1))", 9, "nesting of depth 4", "at most 3"),
    "tests": ("a = 1 OR a = 2 OR HAS a OR (a = 4) OR a = 5", 38, "test number 5", "at most 4"),
    "tests of the message": ("$value = 1 OR $.a OR HAS $.b OR c OR $.d", 37, "test number 5", "at most 4"),
    "values": ("a IN (1, 2) AND b IN (1, 2, 3, 4)", 29, "value number 4", "at most 3"),
    "LIKE pattern": ("a LIKE 'xxxxxx'", 7, "a pattern with a size in bytes of 6", "at most 5"),
    "MATCHES pattern": ("a NOT MATCHES 'xxxüü'", 14, "a pattern with a size in bytes of 7", "at most 5"),
    "regular expressions": (
        "a MATCHES 'x' OR a NOT MATCHES 'y' OR a MATCHES 'x'",
        48,
        "regular expression number 3",
        "at most 2",
    ),
}


@pytest.mark.parametrize("text", WITHIN.values(), ids=WITHIN)
def test_within_limits(text: str) -> None:
    """L2."""
    assert parse(text, LIMITS) == parse(text)


@pytest.mark.parametrize(("text", "position", "found", "expected"), BEYOND.values(), ids=BEYOND)
def test_beyond_limits(text: str, position: int, found: str, expected: str) -> None:
    parse(text)
    with pytest.raises(QueryError) as refused:
        parse(text, LIMITS)
    assert (refused.value.position, refused.value.found, refused.value.expected) == (position, found, expected)


HUGE = {
    "10,000 parentheses": "(" * 10_000 + "a = 1" + ")" * 10_000,
    "8,000 opening parentheses": "(" * 8_000,
    "8,000 closing parentheses": ")" * 8_000,
    "4,000 NOTs": "NOT " * 4_000 + "a = 1",
    "10,000 terms": " OR ".join(["a = 1"] * 10_000),
    "2,000 short terms": "OR ".join(["a=1 "] * 2_000),
    "8,000 values": f"a IN ({','.join('1' * 8_000)})",
    "a megabyte": "a = '" + "x" * 1_000_000 + "'",
    "16,000 quotes": "a = '" + "'" * 16_000,
    "16,000 digits": "a = " + "9" * 16_000,
    "16,000 decimals": "a = 0." + "9" * 16_000 + "x",
    "a huge exponent": "a = 1e" + "9" * 16_000,
    "white space": " " * 16_000,
    "8,000 keys in a path": "$" + ".a" * 8_000 + " = 1",
    "16,000 dots": "$" + "." * 16_000,
    "16,000 back-quotes in a path": "$.`" + "`" * 16_000,
}


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE)
def test_huge_queries_are_refused_at_once(text: str) -> None:
    parse("a = 1")
    start = time.process_time()
    with pytest.raises(QueryError):
        parse(text)
    assert time.process_time() - start < 0.1


@pytest.mark.parametrize(
    "opening", ["(a = 1 OR b = 2 AND ", "NOT (a = 1 OR b = 2 AND ", "NOT ", "(a = 1 OR NOT (b = 2 AND "]
)
def test_the_deepest_queries_can_be_used(opening: str) -> None:
    """Whatever recurses over a tree comes through the deepest that a setting allows."""
    step = opening.count("(") + opening.count("NOT")
    depth = DEEPEST_QUERY // step * step
    text = opening * (depth // step) + "c = 3" + ")" * opening.count("(") * (depth // step)
    query = parse(text, Limits(query_depth=depth))
    with pytest.raises(QueryError, match=f"found nesting of depth {depth}, expected at most {depth - 1}"):
        parse(text, Limits(query_depth=depth - 1))
    producer = {"a": 0, "b": 2, "c": 3}
    truth = holds(query, producer)
    assert truth is not None
    assert compiled(query)(producer) is truth
    assert holds(canonical(query), producer) is truth
    assert parse(show(query), Limits(query_depth=3 * DEEPEST_QUERY, query_length=10**6)) == query
    assert explain(query).endswith("c")
    assert repr(query)
    assert bool(QueryIndex().add(query).selects(producer)) is truth
