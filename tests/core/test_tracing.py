"""The header `traceparent`, as W3C has it (O3)."""

from __future__ import annotations

import pytest

from fumarole.core import headers
from fumarole.core.tracing import TraceContext, is_traceparent, sampled

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01"
CONTEXT = TraceContext(bytes.fromhex(TRACE), bytes.fromhex(SPAN))

# Value, is it one, is it sampled.
VALUES = {
    "sampled": (GOOD, True, True),
    "not sampled": (f"00-{TRACE}-{SPAN}-00", True, False),
    "other flags too": (f"00-{TRACE}-{SPAN}-ff", True, True),
    "other flags only": (f"00-{TRACE}-{SPAN}-fe", True, False),
    "a later version": (f"cc-{TRACE}-{SPAN}-01", True, True),
    "a later version with more": (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", True, True),
    "a later version with more, not set apart": (f"cc-{TRACE}-{SPAN}-01.what", False, False),
    "this version with more": (f"00-{TRACE}-{SPAN}-01-more", False, False),
    "the version that there is not": (f"ff-{TRACE}-{SPAN}-01", False, False),
    "upper case": (GOOD.upper(), False, False),
    "no trace": (f"00-{'0' * 32}-{SPAN}-01", False, False),
    "no span": (f"00-{TRACE}-{'0' * 16}-01", False, False),
    "a short trace": (f"00-{TRACE[1:]}-{SPAN}-01", False, False),
    "a long span": (f"00-{TRACE}-{SPAN}0-01", False, False),
    "no flags": (f"00-{TRACE}-{SPAN}", False, False),
    "digits of another script": (f"00-{TRACE[:-1]}٣-{SPAN}-01", False, False),
    "nothing": ("", False, False),
    "too long": (f"cc-{TRACE}-{SPAN}-01-{'x' * 600}", False, False),
}


@pytest.mark.parametrize(("value", "is_one", "is_sampled"), VALUES.values(), ids=VALUES.keys())
def test_values(value: str, is_one: bool, is_sampled: bool) -> None:
    assert is_traceparent(value) == is_one
    block = headers.build([("Unit", "C"), ("traceparent", value), ("Other", "1")])
    assert sampled(block) == (CONTEXT if is_sampled else None)


def test_it_is_found_by_its_name_only() -> None:
    assert sampled(headers.build([("Traceparent", GOOD)])) == CONTEXT  # as clients write it that capitalise names
    assert sampled(headers.build([("TRACEPARENT", GOOD)])) is None
    assert sampled(headers.build([("x-traceparent", GOOD)])) is None
    assert sampled(headers.build([("Note", f"traceparent: {GOOD}")])) is None
    assert sampled(b"") is None


def test_the_last_one_counts() -> None:
    other = f"00-{TRACE}-{SPAN}-00"
    assert sampled(headers.build([("traceparent", GOOD), ("traceparent", other)])) is None
    assert sampled(headers.build([("traceparent", other), ("traceparent", GOOD)])) == CONTEXT


def test_a_line_end_does_not_come_in_with_a_value() -> None:
    assert not is_traceparent(f"cc-{TRACE}-{SPAN}-01-\r\nProducer: x")
