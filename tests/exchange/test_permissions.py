import pytest
from hypothesis import given

from fumarole.core.topic import matches, parse_pattern, split
from fumarole.exchange.permissions import Permissions
from tests.core.strategies import patterns, topics


@pytest.mark.parametrize(
    ("allow", "deny", "topic", "allowed"),
    [
        (None, (), "anything", True),
        ((), (), "anything", False),
        (("a.>",), (), "a.b", True),
        (("a.>",), (), "a", False),
        (None, ("a.>",), "a.b", False),
        (None, ("a.>",), "b", True),
        (("a.>",), ("a.secret",), "a.secret", False),
        (("a.>",), ("a.secret",), "a.open", True),
        (("a",), (), "", False),
        (None, ("secret.>",), "_COMMANDS_.secret.x", False),
        (None, ("secret.>",), "_QUERIES_.secret.x", False),
        (None, ("secret.>",), "_QUERIES_.open.x", True),
        (("open.*",), (), "_COMMANDS_.open.x", False),
    ],
)
def test_topics(allow: tuple[str, ...] | None, deny: tuple[str, ...], topic: str, allowed: bool) -> None:
    assert Permissions(allow, deny).allows(topic) is allowed


@pytest.mark.parametrize(
    ("allow", "deny", "pattern", "allowed"),
    [
        (None, (), ">", True),
        ((), (), "a", False),
        (("a.>",), (), "a.*", True),
        (("a.>",), (), ">", False),
        (("a.*",), (), "a.>", False),
        (None, ("secret.>",), ">", True),
        (None, ("secret.>",), "secret.x", False),
        (None, ("secret.>",), "secret.>", False),
        (None, ("secret.*",), "secret.>", True),
    ],
)
def test_patterns(allow: tuple[str, ...] | None, deny: tuple[str, ...], pattern: str, allowed: bool) -> None:
    assert Permissions(allow, deny).allows_pattern(parse_pattern(pattern)) is allowed


@given(patterns, patterns, topics)
def test_whoever_may_subscribe_may_see_at_most_what_is_allowed(allow: str, pattern: str, topic: str) -> None:
    permissions = Permissions((allow,))
    if permissions.allows_pattern(parse_pattern(pattern)) and matches(parse_pattern(pattern), split(topic)):
        assert permissions.allows(topic)
