import pytest

from fumarole.core.errors import FumaroleError
from fumarole.core.query.errors import QueryError
from fumarole.core.query.parse import parse


def refusal(text: str) -> QueryError:
    with pytest.raises(QueryError) as refused:
        parse(text)
    return refused.value


def test_the_sentence() -> None:
    refused = refusal("Room = Soda")
    assert isinstance(refused, FumaroleError)
    assert str(refused) == ("found `Soda`, expected a value (text in quotes, a number, true or false), at position 7")


CARETS = {
    "at the start": ("= 1", "= 1\n^"),
    "inside": ("Room = Soda AND a = 1", "Room = Soda AND a = 1\n       ^"),
    "at the end": ("Room =", "Room =\n      ^"),
    "nothing": ("", "\n^"),
    "of several lines only one": ("a = 1 AND\nb = c AND\nd = 1", "b = c AND\n    ^"),
    "under wide characters": ("火山 = x", "火山 = x\n       ^"),
    "under marks": ("`e\u0301` = x", "`e\u0301` = x\n      ^"),
    "control characters": ("a\t= \x1b[31m", "a\N{REPLACEMENT CHARACTER}= \N{REPLACEMENT CHARACTER}[31m\n    ^"),
    "a long query": (
        "a = '" + "x" * 100 + "' AND b = c AND " + "y" * 100,
        "x" * 40 + "' AND b = c AND " + "y" * 14 + "\n" + " " * 50 + "^",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "shown"), CARETS.values(), ids=CARETS)
def test_the_caret(text: str, shown: str) -> None:
    refused = refusal(text)
    assert refused.caret() == f"{shown}\n{refused}"


def test_little_of_a_long_word_is_repeated() -> None:
    assert refusal("a = " + "x" * 1000).found == f"`{'x' * 31}…`"
