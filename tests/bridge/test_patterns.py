"""What covers what, and which native patterns stand for an AMQP one."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.bridge.patterns import all_native, covers, native
from fumarole.core.topic import matches, parse_amqp, parse_wildcards, split, split_amqp

PATTERNS = st.lists(st.sampled_from(["a", "b", "*", "#"]), min_size=1, max_size=4).map(".".join)
KEYS = ["", *(".".join(words) for length in range(1, 6) for words in itertools.product("abz", repeat=length))]


@pytest.mark.parametrize(
    ("wide", "narrow", "covered"),
    [
        pytest.param("#", "a.#.b", True, id="everything"),
        pytest.param("test.#", "test", True, id="the word alone"),
        pytest.param("test.#", "test.*.#", True, id="narrower"),
        pytest.param("test.#", "#", False, id="wider"),
        pytest.param("test.#", "tes#", False, id="a word, no wildcard"),
        pytest.param("a.*", "a.#", False, id="one is not many"),
        pytest.param("a.#", "a.*", True, id="many are one"),
        pytest.param("#.*", "*.#", True, id="the same, otherwise"),
        pytest.param("*.#.*", "#.*.*", True, id="two or more"),
        pytest.param("a.#.b", "a.b", True, id="none between"),
        pytest.param("a.#.b", "a.#.c.b", True, id="some between"),
        pytest.param("a.#.b", "a.#", False, id="the end is missing"),
        pytest.param("", "", True, id="the empty key"),
        pytest.param("*", "", False, id="a word is not the empty key"),
    ],
)
def test_covers(wide: str, narrow: str, covered: bool) -> None:
    assert covers(wide, narrow) is covered


@given(PATTERNS, PATTERNS)
def test_what_is_covered_matches_no_more(wide: str, narrow: str) -> None:
    if covers(wide, narrow):
        for key in KEYS:
            words = split_amqp(key)
            assert matches(parse_amqp(wide), words) or not matches(parse_amqp(narrow), words)


@given(PATTERNS)
def test_native_patterns_match_all_of_it_once(pattern: str) -> None:
    natives = [parse_wildcards(each) for each in native(pattern)]
    for key in KEYS:
        times = sum(matches(each, split(key)) for each in natives)
        assert times <= 1
        assert times or not matches(parse_amqp(pattern), split_amqp(key))


def test_several() -> None:
    assert all_native(["a.#", "b.*", "a.#.c"]) == ["a", "a.>", "b.*"]
    assert all_native(["a", "#"]) == [">"]
