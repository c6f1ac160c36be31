"""Q2: the mapping between MQTT topics and topics of the exchange, its two identities, and filters as patterns."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fumarole.core.errors import PatternError
from fumarole.core.mqtt_topics import LONGEST_NAME, name_of, patterns_of, topic_of
from fumarole.core.topic import CHANNEL, OPEN, STRICT, Grammar, check_topic, matches, parse_pattern, split

TABLE: list[tuple[str, str, str]] = [
    ("volcanoes/usa/atka", "volcanoes.usa.atka", "volcanoes.usa.atka"),
    ("/", ".", "."),
    ("/a//b/", ".a..b.", ".a..b."),
    ("$EMPTY", "", ""),
    ("plant 4/v1.2", "plant%204.v1%2E2", "plant%204.v1%2E2"),
    ("50%/*/>", "50%25.%2A.%3E", "50%25.%2A.%3E"),
    ("küche", "k%C3%BCche", "küche"),
    ("a:b/c,d", "a%3Ab.c%2Cd", "a:b.c,d"),
    ("%2E", "%252E", "%252E"),
    ("火山/🌋", "%E7%81%AB%E5%B1%B1.%F0%9F%8C%8B", "火山.🌋"),
    ("a\u2028b\x85c\x01", "a%E2%80%A8b%C2%85c%01", "a%E2%80%A8b%C2%85c%01"),
    ("a$b", "a%24b", "a$b"),
    ("$SYS/broker", "$SYS.broker", "$SYS.broker"),
]


@pytest.mark.parametrize(("name", "strict", "opened"), TABLE, ids=[row[0] for row in TABLE])
def test_table(name: str, strict: str, opened: str) -> None:
    assert (topic_of(name, STRICT), topic_of(name, OPEN)) == (strict, opened)
    assert (name_of(strict, STRICT), name_of(opened, OPEN)) == (name, name)


OUT: list[tuple[str, Grammar, str | None]] = [
    ("a%41", STRICT, "a%41"),
    ("a%2F%2B%23", STRICT, "a%2F%2B%23"),
    ("a/b+c#", CHANNEL, "a%2Fb%2Bc%23"),
    ("a%C3", STRICT, "a%C3"),
    ("a%C3%41", STRICT, "a%C3%41"),
    ("a%00", STRICT, "a%00"),
    ("a%ED%A0%80", STRICT, "a%ED%A0%80"),
    ("%24SYS.x", STRICT, "%24SYS/x"),
    ("a%C3%BC", CHANNEL, "a%C3%BC"),
    ("x" * LONGEST_NAME, STRICT, "x" * LONGEST_NAME),
    ("x" * (LONGEST_NAME + 1), STRICT, None),
    ("ü" * (LONGEST_NAME // 2 + 1), CHANNEL, None),
]


@pytest.mark.parametrize(("topic", "grammar", "name"), OUT, ids=[f"{row[0][:8]}, {len(row[0])}" for row in OUT])
def test_the_way_out(topic: str, grammar: Grammar, name: str | None) -> None:
    """Only what the way in makes is decoded; what is no MQTT topic is none."""
    assert name_of(topic, grammar) == name


_names = st.text(
    st.one_of(
        st.sampled_from("/.%*>$ ab2EF\x85\u2028ü"),
        st.characters(exclude_categories=["Cs"], exclude_characters="\0+#"),
    ),
    min_size=1,
    max_size=12,
)


@given(_names, st.sampled_from(Grammar))
def test_an_mqtt_topic_comes_back_as_it_was(name: str, grammar: Grammar) -> None:
    assert name_of(topic_of(name, grammar), grammar) == name


@given(_names)
def test_every_mqtt_topic_is_a_topic_of_a_strict_namespace(name: str) -> None:
    """But for the server's own."""
    assume(not name.startswith("$"))
    check_topic(topic_of(name))
    check_topic(topic_of(name, OPEN), OPEN)


@given(st.text("-_aZ09.", max_size=12))
def test_a_strict_topic_comes_back_as_it_was(topic: str) -> None:
    """Of T1, without `%`."""
    name = name_of(topic)
    assert name is not None
    assert topic_of(name) == topic


FILTERS: list[tuple[str, tuple[str, ...]]] = [
    ("a/b", ("a.b",)),
    ("+", ("*",)),
    ("#", (">",)),
    ("a/+/c", ("a.*.c",)),
    ("a/#", ("a", "a.>")),
    ("+/#", ("*", "*.>")),
    ("/#", (".>",)),
    ("//#", (".", "..>")),
    ("a/", ("a.",)),
    ("$EMPTY", ("",)),
    ("a*/>", ("a%2A.%3E",)),
    ("küche/#", ("k%C3%BCche", "k%C3%BCche.>")),
]


@pytest.mark.parametrize(("text", "patterns"), FILTERS, ids=[row[0] for row in FILTERS])
def test_filters(text: str, patterns: tuple[str, ...]) -> None:
    assert patterns_of(text) == patterns


WRONG: list[tuple[str, int]] = [("", 0), ("a#", 1), ("#/a", 0), ("a/#/b", 2), ("a+", 1), ("+a/b", 0), ("a/b+/c", 3)]


@pytest.mark.parametrize(("text", "position"), WRONG, ids=[row[0] for row in WRONG])
def test_wrong_filters(text: str, position: int) -> None:
    with pytest.raises(PatternError) as caught:
        patterns_of(text)
    assert caught.value.position == position


def _mqtt_matches(levels: list[str], names: list[str]) -> bool:
    """Does a filter match a topic? The definition, of MQTT."""
    if levels == ["#"]:
        return True
    if not levels or not names:
        return levels == names
    return levels[0] in ("+", names[0]) and _mqtt_matches(levels[1:], names[1:])


_level = st.sampled_from(["", "a", "b", "ü", "a.b"])


@given(
    st.lists(st.one_of(_level, st.just("+")), min_size=1, max_size=4),
    st.booleans(),
    st.lists(_level, min_size=1, max_size=4),
)
def test_a_filter_matches_what_its_patterns_match(levels: list[str], is_open: bool, names: list[str]) -> None:
    """And never two of its patterns one topic: they are one entity."""
    levels = [*levels, "#"] if is_open else levels
    assume(levels != [""])
    assume(names != [""])  # no MQTT topic
    topic = topic_of("/".join(names))
    found = [pattern for pattern in patterns_of("/".join(levels)) if matches(parse_pattern(pattern), split(topic))]
    assert bool(found) == _mqtt_matches(levels, names)
    assert len(found) <= 1
