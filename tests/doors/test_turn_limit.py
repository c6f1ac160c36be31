"""When a turn of the loop has had enough."""

import asyncio
from functools import partial

import pytest

from fumarole.doors.turn_limit import MOMENT, NO_LIMIT, WORTH_A_LOOK, TurnLimit


class Batches:
    """Batches that take so long each, and what became of them."""

    def __init__(self, seconds: float) -> None:
        self.now = 0.0
        self.done: list[int] = []
        self.limit = TurnLimit(clock=lambda: self.now)
        self._seconds = seconds

    def come(self, number: int) -> None:
        """As the pump does."""
        if self.limit.is_over:
            self.limit.put_off(partial(self.take_in, number))
        else:
            self.take_in(number)

    def take_in(self, number: int) -> None:
        self.done.append(number)
        self.now += self._seconds
        self.limit.busy += self._seconds
        if self.limit.busy > self.limit.worth_a_look:
            self.limit.look()


async def test_a_turn_has_a_bound_and_the_order_stays() -> None:
    batches = Batches(0.3 * MOMENT)
    for number in range(20):
        batches.come(number)
    counts = [len(batches.done)]
    while len(batches.done) < 20:
        await asyncio.sleep(0)
        counts.append(len(batches.done))
    assert counts == [4, 8, 12, 16, 20]
    assert batches.done == list(range(20))


async def test_batches_of_later_turns_have_the_first_half_of_a_turn_too() -> None:
    """So those that were put off delay no other, and are delayed by none."""
    batches = Batches(MOMENT)
    for number in range(6):
        batches.come(number)
    await asyncio.sleep(0)
    batches.come(6)
    assert batches.done == [0, 1, 2, 6]
    for _ in range(3):
        await asyncio.sleep(0)
    assert batches.done == [0, 1, 2, 6, 3, 4, 5]


async def test_short_turns_are_never_over() -> None:
    batches = Batches(0.9 * WORTH_A_LOOK)
    for number in range(50):
        batches.come(number)
        assert batches.done[-1] == number
        await asyncio.sleep(0)


async def test_one_that_raises_holds_up_no_other() -> None:
    batches = Batches(MOMENT)
    asyncio.get_running_loop().set_exception_handler(lambda _, __: None)

    def fail() -> None:
        raise ValueError("a fault of ours")

    for number in range(2):
        batches.come(number)
    batches.limit.put_off(fail)
    batches.come(2)
    for _ in range(3):
        await asyncio.sleep(0)
    assert batches.done == [0, 1, 2]


@pytest.mark.parametrize("seconds", [MOMENT, 1000 * MOMENT])
def test_links_have_no_limit(seconds: float) -> None:
    assert not seconds > NO_LIMIT.worth_a_look
    assert not NO_LIMIT.is_over
