import pytest

from fumarole.core.query.holds import every, holds, like, opposite, some
from fumarole.core.query.parse import parse
from tests.conformance.messages import MESSAGE_CASES, MessageCase
from tests.conformance.queries import AND_TABLE, CASES, NOT_TABLE, OR_TABLE, Case
from tests.core.query.messages import message_of


def test_the_table_is_large_and_every_row_has_a_name_of_its_own() -> None:
    assert len(CASES) >= 150
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.holds for case in CASES} == {True, False, None}
    assert len({case.name for case in MESSAGE_CASES}) == len(MESSAGE_CASES)
    assert {case.holds for case in MESSAGE_CASES} == {True, False, None}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_table(case: Case) -> None:
    """M9, M10."""
    assert holds(parse(case.query), case.metadata) is case.holds


@pytest.mark.parametrize("case", MESSAGE_CASES, ids=lambda case: case.name)
def test_the_table_of_messages(case: MessageCase) -> None:
    """F6."""
    assert holds(parse(case.query), message_of(case)) is case.holds


def test_without_a_message_its_tests_are_unknown() -> None:
    assert holds(parse("$value > 5 OR $topic = 'x' OR NOT $.a = 1"), {"value": 6}) is None
    assert holds(parse("HAS $value"), {}) is False


def test_the_truth_tables() -> None:
    assert {pair: every(pair) for pair in AND_TABLE} == AND_TABLE
    assert {pair: some(pair) for pair in OR_TABLE} == OR_TABLE
    assert {truth: opposite(truth) for truth in NOT_TABLE} == NOT_TABLE


@pytest.mark.parametrize(
    ("pattern", "alike", "others"),
    [
        ("", [""], ["a"]),
        ("%", ["", "a", "ab"], []),
        ("_", ["a", "%"], ["", "ab"]),
        ("a%b", ["ab", "aab", "abb"], ["a", "b", "aba", "ba"]),
        ("a%_", ["ab", "aaa"], ["a", "ba"]),
    ],
)
def test_like(pattern: str, alike: list[str], others: list[str]) -> None:
    assert all(like(pattern, text) for text in alike)
    assert not any(like(pattern, text) for text in others)
