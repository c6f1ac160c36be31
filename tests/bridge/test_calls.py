"""R1: calls end with their last reply or when their time is up. Time is a number."""

from __future__ import annotations

import pytest

from fumarole.bridge.calls import MOST_CALLS, STALE_KEPT, Caller, Calls
from fumarole.bridge.errors import BridgeRefusedError

ONE, TWO = Caller(b"client", b"1"), Caller(b"client", b"2")


def test_as_many_replies_as_were_wanted() -> None:
    calls = Calls()
    calls.open("c", ONE, 2, 10.0)
    assert calls.reply("c") == (ONE, False)
    assert calls.reply("c") == (ONE, True)
    assert calls.reply("c") is None
    assert (len(calls), calls.next_due(), calls.sweep(99.0)) == (0, None, [])


def test_all_that_come_in_time() -> None:
    calls = Calls()
    calls.open("c", ONE, None, 10.0)
    calls.open("d", TWO, 1, 5.0)
    for _ in range(100):
        assert calls.reply("c") == (ONE, False)
    assert calls.next_due() == 5.0
    assert calls.sweep(4.999) == []
    assert calls.sweep(10.0) == [TWO, ONE]
    assert calls.reply("c") is None
    assert calls.reply("unknown") is None


def test_a_client_has_only_so_many() -> None:
    calls = Calls()
    for number in range(MOST_CALLS):
        calls.open(str(number), ONE, 1, 10.0)
    with pytest.raises(BridgeRefusedError, match="1000 calls of yours"):
        calls.open("more", ONE, 1, 10.0)
    calls.open("other", Caller(b"other", b"1"), 1, 10.0)
    calls.close("5")
    calls.open("more", ONE, 1, 10.0)
    assert len(calls.sweep(10.0)) == len(range(MOST_CALLS)) + 1
    assert not calls._of_client


def test_calls_that_were_answered_are_not_kept_until_their_time() -> None:
    calls = Calls()
    calls.open("slow", TWO, None, 1_800.0)
    for number in range(10_000):
        calls.open(str(number), ONE, 1, 3_600.0 - number % 7)
        assert calls.reply(str(number)) == (ONE, True)
    assert len(calls._due) <= STALE_KEPT + 5
    assert calls.next_due() == 1_800.0
    assert calls.sweep(3_600.0) == [TWO]
