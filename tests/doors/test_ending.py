"""When connections that have ended are taken apart."""

import asyncio
from functools import partial

import pytest

from fumarole.doors.ending import MOMENT, EndAtOnce, EndInTurns


class Ends:
    """Connections that take so long to take apart."""

    def __init__(self, seconds: float) -> None:
        self.done: list[int] = []
        self.now = 0.0
        self._seconds = seconds

    def end(self, number: int) -> None:
        self.now += self._seconds
        self.done.append(number)


async def test_a_turn_has_a_bound_and_the_order_stays() -> None:
    ends = Ends(0.3 * MOMENT)
    policy = EndInTurns(lambda: ends.now)
    for number in range(10):
        policy.take(partial(ends.end, number))
    counts = [len(ends.done)]
    while len(ends.done) < 10:
        await asyncio.sleep(0)
        counts.append(len(ends.done))
    assert counts == [4, 8, 10]
    assert ends.done == list(range(10))


async def test_those_of_later_turns_queue_behind_those_that_wait() -> None:
    ends = Ends(MOMENT)
    policy = EndInTurns(lambda: ends.now)
    for number in range(3):
        policy.take(partial(ends.end, number))
    await asyncio.sleep(0)
    policy.take(partial(ends.end, 3))
    assert ends.done == [0, 1]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert ends.done == [0, 1, 2, 3]


async def test_few_of_each_turn_end_at_once() -> None:
    ends = Ends(0.9 * MOMENT)
    policy = EndInTurns(lambda: ends.now)
    for number in range(5):
        policy.take(partial(ends.end, number))
        assert ends.done[-1] == number
        await asyncio.sleep(0)


async def test_one_that_raises_holds_up_no_other() -> None:
    ends = Ends(MOMENT)
    policy = EndInTurns(lambda: ends.now)
    asyncio.get_running_loop().set_exception_handler(lambda _, __: None)

    def fail() -> None:
        ends.now += MOMENT
        raise ValueError("a fault of ours")

    with pytest.raises(ValueError, match="ours"):
        policy.take(fail)
    policy.take(partial(ends.end, 1))
    policy.take(fail)
    policy.take(partial(ends.end, 2))
    for _ in range(5):
        await asyncio.sleep(0)
    assert ends.done == [1, 2]


def test_of_links_each_ends_at_once() -> None:
    ends = Ends(1.0)
    for number in range(3):
        EndAtOnce().take(partial(ends.end, number))
    assert ends.done == [0, 1, 2]
