import math

import msgpack
from hypothesis import example, given
from hypothesis import strategies as st

from fumarole.core.values import wrong_number, wrong_text, wrong_value

TEXT = st.text(st.characters(), max_size=3)
"""Halves of surrogate pairs included, which `st.text` alone leaves out."""


def can_be_told(value: object) -> bool:
    try:
        return bool(msgpack.unpackb(msgpack.packb(value)) == value)
    except (UnicodeEncodeError, OverflowError):
        return False


@given(TEXT)
@example("\ud800")
@example("\udf0b\ud83c")
def test_text_is_what_others_can_be_told(text: str) -> None:
    assert (wrong_text(text) == "") is can_be_told(text)
    assert wrong_value(text) == wrong_text(text)


@given(st.integers())
@example(2**64 - 1)
@example(2**64)
@example(-(2**63))
@example(-(2**63) - 1)
@example(10**400)
def test_whole_numbers_are_what_others_can_be_told(number: int) -> None:
    assert (wrong_number(number) == "") is can_be_told(number)
    assert wrong_value(number) == wrong_number(number)


@given(st.floats())
def test_other_numbers_are_finite(number: float) -> None:
    """M10."""
    assert (wrong_number(number) == "") is math.isfinite(number)
    assert wrong_value(number) == wrong_number(number)


def test_other_kinds() -> None:
    """M3."""
    assert [wrong_value(value) for value in (True, False, None)] == ["", "", ""]
    others: tuple[object, ...] = (b"", [], {}, 1j)
    assert all(wrong_value(value).startswith("neither text") for value in others)
