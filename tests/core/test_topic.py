import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.errors import PatternError, TopicError
from fumarole.core.topic import (
    MANY,
    ONE,
    SOME,
    Glob,
    Grammar,
    check_length,
    check_topic,
    covers,
    fits,
    literal_prefix,
    matches,
    parse_amqp,
    parse_pattern,
    split,
    split_amqp,
)
from tests.conformance.tables import AMQP_BINDINGS, AMQP_KEYS, NATIVE, Match
from tests.core.strategies import patterns, topics


@pytest.mark.parametrize("row", NATIVE, ids=lambda row: row.name)
def test_native_table(row: Match) -> None:
    """T4, T5, T6."""
    assert matches(parse_pattern(row.pattern), split(row.topic)) is row.matches


@pytest.mark.parametrize(("key", "bindings"), AMQP_KEYS.items())
def test_amqp_table(key: str, bindings: str) -> None:
    """T7."""
    found = [name for name, text in AMQP_BINDINGS.items() if matches(parse_amqp(text), split_amqp(key))]
    assert found == bindings.split()


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("a.b", ("a", "b")),
        ("", ("",)),
        ("a..b", ("a", "", "b")),
        ("*.>", (ONE, SOME)),
        (">", (SOME,)),
        ("foo*", (Glob("foo", (), ""),)),
        ("*bar", (Glob("", (), "bar"),)),
        ("a*b*c", (Glob("a", ("b",), "c"),)),
        ("**", (ONE,)),
        ("a**b", (Glob("a", (), "b"),)),
    ],
)
def test_parse_pattern(text: str, pattern: tuple[object, ...]) -> None:
    assert parse_pattern(text) == pattern


def test_amqp_wildcards_are_whole_words() -> None:
    assert parse_amqp("*.#.a*.#b") == (ONE, MANY, "a*", "#b")
    assert parse_amqp("") == ()


@pytest.mark.parametrize(
    ("text", "position"),
    [(">.a", 0), ("a.>.b", 2), ("a.b>", 3), (">>", 0), ("a b", 1), ("a.b\n", 3), ("ü", 0), ("$a", 0), ("a.\x00", 2)],
)
def test_a_wrong_pattern_is_refused_with_the_position(text: str, position: int) -> None:
    with pytest.raises(PatternError, match=f"at position {position}") as refused:
        parse_pattern(text)
    assert refused.value.position == position


@pytest.mark.parametrize("topic", ["", "a", "a.b", "A-b_9.c", "..", "a..b", ".a."])
def test_strict_topics(topic: str) -> None:
    """T1, T3."""
    check_topic(topic)


@pytest.mark.parametrize(
    ("topic", "position"), [("a*", 1), (">", 0), ("a b", 1), ("ä", 0), ("a\r\nPING", 1), ("a$", 1), ("a\x00", 1)]
)
def test_strict_topics_refused(topic: str, position: int) -> None:
    with pytest.raises(TopicError) as refused:
        check_topic(topic)
    assert refused.value.position == position


@pytest.mark.parametrize("topic", ["a", "Ätna.süd", "火山.東", "a..b", "$x", "a/b:c"])
def test_channels(topic: str) -> None:
    """T2."""
    check_topic(topic, Grammar.CHANNEL)
    assert matches(parse_pattern(topic, Grammar.CHANNEL), split(topic))


@pytest.mark.parametrize(
    ("topic", "position"),
    [
        *[
            ("", 0),
            (".a", 0),
            ("a.", 1),
            ("a b", 1),
            ("a\u00a0b", 1),
            ("a\u2028", 1),
            ("a\x7f", 1),
            ("a*", 1),
            (">", 0),
        ],
        *[("a.\ud800", 2), ("\udfff", 0)],
    ],
)
def test_channels_refused(topic: str, position: int) -> None:
    with pytest.raises(TopicError) as refused:
        check_topic(topic, Grammar.CHANNEL)
    assert refused.value.position == position


@pytest.mark.parametrize(("text", "position"), [("a b", 1), (".*", 0), ("a.\ud800.>", 2), ("*\udfff", 1)])
def test_patterns_of_channels_refused(text: str, position: int) -> None:
    with pytest.raises(PatternError) as refused:
        parse_pattern(text, Grammar.CHANNEL)
    assert refused.value.position == position


@pytest.mark.parametrize("text", ["", "a" * 8, "温度ab", "\ud800ab"])
def test_lengths(text: str) -> None:
    """L2."""
    check_length(text, 8)


@pytest.mark.parametrize(("text", "position"), [("a" * 9, 8), ("温度abc", 4), ("温度計", 2), ("a.>" * 1000, 8)])
def test_lengths_refused(text: str, position: int) -> None:
    with pytest.raises(TopicError, match=f"more than 8 bytes, at position {position}"):
        check_length(text, 8)


@given(st.text(max_size=8), st.sampled_from(Grammar))
def test_a_topic_is_a_pattern_that_matches_itself_or_is_refused(text: str, grammar: Grammar) -> None:
    try:
        check_topic(text, grammar)
    except TopicError:
        return
    assert matches(parse_pattern(text, grammar), split(text))


@given(patterns, topics)
def test_a_pattern_matches_only_topics_with_its_literal_prefix(text: str, topic: str) -> None:
    pattern = parse_pattern(text)
    prefix = literal_prefix(pattern)
    if matches(pattern, split(topic)) and prefix:
        assert re.match(re.escape(prefix) + r"(\.|$)", topic)


@given(patterns, topics)
def test_a_pattern_fits_what_it_matches(text: str, topic: str) -> None:
    """T8."""
    assert fits(parse_pattern(text), split(topic)) == matches(parse_pattern(text), split(topic))


@given(patterns, patterns, topics)
def test_what_covers_matches_more(wide: str, narrow: str, topic: str) -> None:
    if covers(parse_pattern(wide), parse_pattern(narrow)) and matches(parse_pattern(narrow), split(topic)):
        assert matches(parse_pattern(wide), split(topic))


@pytest.mark.parametrize(
    ("wide", "narrow", "result"),
    [
        (">", "a.>", True),
        ("a.>", "a.b.*", True),
        ("a.>", "a", False),
        ("a.*", "a.>", False),
        ("a.*", "a.b", True),
        ("a.*", "a.b*", True),
        ("a*", "ab", True),
        ("a*", "b", False),
        ("a", "*", False),
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", False),
        ("a.b.c", "a.b", False),
    ],
)
def test_covers(wide: str, narrow: str, result: bool) -> None:
    assert covers(parse_pattern(wide), parse_pattern(narrow)) is result


@given(st.lists(st.text("ab", max_size=2), min_size=2, max_size=5), st.text("ab", max_size=8))
def test_a_glob_fits_what_it_matches(parts: list[str], word: str) -> None:
    glob = Glob(parts[0], tuple(filter(None, parts[1:-1])), parts[-1])
    assert glob.fits(word) == glob.matches(word)
