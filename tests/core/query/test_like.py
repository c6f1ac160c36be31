from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.query.holds import like
from fumarole.core.query.like import like_test


@given(st.text("aab%%__\n", max_size=7), st.lists(st.text("aab\n🌋", max_size=6), min_size=1, max_size=5))
def test_equals_the_definition(pattern: str, texts: list[str]) -> None:
    test = like_test(pattern)
    assert [test(text) for text in texts] == [like(pattern, text) for text in texts]


def runs_of(characters: str) -> st.SearchStrategy[str]:
    """Some of them once, some a hundred times in a row."""
    run = st.builds(str.__mul__, st.sampled_from(characters), st.sampled_from([1, 1, 2, 100]))
    return st.lists(run, max_size=7).map("".join)


@given(runs_of("aab_\n"), runs_of("aab_"), st.lists(runs_of("aab\n🌋"), min_size=1, max_size=3))
def test_long_ones_equal_the_definition(one: str, other: str, texts: list[str]) -> None:
    pattern = f"a%{one}%{other}%_"
    test = like_test(pattern)
    for text in (*texts, f"a{one}🌋", f"aa{other}{one}{other}{texts[0]}"):
        assert test(text) == like(pattern, text)


def test_many_wildcards_stay_cheap() -> None:
    """Backtracking would not come through this."""
    assert not like_test("%a" * 300 + "%b_%")("a" * 3000)
    assert like_test("%a" * 300 + "%b_%")("a" * 3000 + "bc")


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("a_" * 500 + "b", "a" * 8000),
        ("_a" * 500 + "b", ("a" * 700 + "x") * 11),
        ("".join(map(chr, range(0x4E00, 0x4F00))) + "_!", "".join(map(chr, range(0x4E00, 0x4F00))) * 10),
    ],
    ids=["every place looks good", "and some do not", "very many characters"],
)
def test_long_parts_are_found_without_trying_each_place(part: str, text: str) -> None:
    """A text as long as metadata may be takes no longer than its letters do, whatever stands in the pattern."""
    patterns = [like_test(f"%{part[number:]}%") for number in range(40)]
    began = process_time()
    assert not any(holds(text) for holds in patterns)
    assert process_time() - began < 0.1
    assert all(holds(text + part) for holds in patterns)
    assert all(like_test(f"%{part[:40]}%{part}%")(text + part + text + part) for _ in range(3))
