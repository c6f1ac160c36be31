import pytest

from fumarole.client.topics import KEPT, DecodedTopics, EncodedTopics, encode_pattern, encode_topic
from fumarole.core.errors import PatternError, TopicError


@pytest.mark.parametrize(
    ("topic", "encoded"),
    [
        ("a.b", b"a.b"),
        ("", b"$EMPTY"),
        (".a..b.", b".a..b."),
        ("vulkán.ö", "vulkán.ö".encode()),
        ("$FUM.stats", b"$FUM.stats"),
    ],
)
def test_topics(topic: str, encoded: bytes) -> None:
    assert encode_topic(topic) == encoded
    assert EncodedTopics()[topic] == encoded
    assert encode_pattern(topic) == encoded


@pytest.mark.parametrize(
    ("topic", "position"),
    [("a b", 1), ("a\r\nPING", 1), ("a\n", 1), ("\ta", 0), ("a\0", 1), ("a\u2028b", 1), ("a\x85b", 1), ("a.\ud800", 2)],
)
def test_what_would_break_a_line_is_refused(topic: str, position: int) -> None:
    with pytest.raises(TopicError) as refused:
        encode_topic(topic)
    assert refused.value.position == position
    with pytest.raises(PatternError) as refused:
        encode_pattern(topic)
    assert refused.value.position == position


@pytest.mark.parametrize(("pattern", "position"), [("a.*", 2), (">", 0), ("foo*", 3)])
def test_wildcards_are_for_patterns(pattern: str, position: int) -> None:
    assert encode_pattern(pattern) == pattern.encode()
    with pytest.raises(TopicError, match="wildcard") as refused:
        encode_topic(pattern)
    assert refused.value.position == position


def test_decoding_is_the_reverse() -> None:
    decoded = DecodedTopics()
    assert [decoded[encode_topic(topic)] for topic in ("", "a.b", "ö")] == ["", "a.b", "ö"]


def test_what_is_kept_is_bounded() -> None:
    encoded, decoded = EncodedTopics(), DecodedTopics()
    for number in range(KEPT + 10):
        assert encoded[f"a.{number}"] == f"a.{number}".encode()
        assert decoded[f"a.{number}".encode()] == f"a.{number}"
    assert len(encoded) <= KEPT
    assert len(decoded) <= KEPT
