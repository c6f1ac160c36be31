import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from fumarole.doors import flushing
from fumarole.doors.flushing import (
    FEW,
    FEW_OF_MUCH,
    LARGE_BATCH,
    LAST_BATCH,
    MOST_AT_ALL,
    MOST_MEANWHILE,
    SAME_TURN,
    FlushAtOnce,
    FlushTogether,
    flush,
)

SMALL = 16


class Owner:
    """Of an outbox. A flush of it may make others ready."""

    def __init__(self, ready: list[Any], *makes_ready: "Owner") -> None:
        self.ready = ready
        self.makes_ready = makes_ready
        self.flushed = 0

    def flush(self) -> None:
        self.flushed += 1
        self.ready.extend(self.makes_ready)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(flushing, "monotonic", lambda: now[0])
    monkeypatch.setattr(LAST_BATCH, "at", 0.0)
    return now


def test_those_that_become_ready_meanwhile_are_flushed_too() -> None:
    ready: list[Any] = []
    last = Owner(ready)
    first = Owner(ready, last, last)
    ready.append(first)
    flush(ready)
    assert (first.flushed, last.flushed, ready) == (1, 2, [])


@pytest.mark.parametrize(
    ("size", "pause", "at_once"),
    [
        pytest.param(LARGE_BATCH, 0.0, True, id="large, same turn"),
        pytest.param(LARGE_BATCH - 1, 0.0, False, id="small, same turn"),
        pytest.param(SMALL, SAME_TURN / 2, False, id="small, a little later in the same turn"),
        pytest.param(SMALL, 2 * SAME_TURN, True, id="small, another turn"),
    ],
)
async def test_at_once_or_together(clock: list[float], size: int, pause: float, at_once: bool) -> None:
    ready: list[Any] = []
    together = FlushTogether(ready, deque())
    together.batch_done(clock[0], SMALL)
    owner = Owner(ready)
    for _ in range(3):
        ready.append(owner)
        clock[0] += 1.0
        LAST_BATCH.at = clock[0] - pause
        assert together.batch_done(clock[0], size) == clock[0]
    assert owner.flushed == 3 * at_once
    await asyncio.sleep(0)
    assert owner.flushed == 3
    assert not ready


async def test_nodes_of_one_process_do_not_wait_for_each_other(clock: list[float]) -> None:
    owners = []
    for _ in range(2):
        ready: list[Any] = []
        together = FlushTogether(ready, deque())
        LAST_BATCH.at = clock[0]
        owners.append(Owner(ready))
        ready.append(owners[-1])
        together.batch_done(clock[0], SMALL)
    assert [owner.flushed for owner in owners] == [0, 0]
    await asyncio.sleep(0)
    assert [owner.flushed for owner in owners] == [1, 1]


def test_a_link_never_waits(clock: list[float]) -> None:
    ready: list[Any] = []
    owner = Owner(ready)
    ready.append(owner)
    assert FlushAtOnce(ready, deque()).batch_done(clock[0], SMALL) == clock[0]
    assert (owner.flushed, LAST_BATCH.at) == (1, 0.0)


class Slow(Owner):
    """Its flush takes as long as a slice may."""

    def __init__(self, ready: list[Any], clock: list[float], *makes_ready: Owner) -> None:
        super().__init__(ready, *makes_ready)
        self.clock = clock

    def flush(self) -> None:
        super().flush()
        self.clock[0] += flushing.MOMENT


class Crowd:
    """Consumers of one message, each of which takes a slice to flush."""

    def __init__(self, clock: list[float], count: int = FEW + 3) -> None:
        self.clock = clock
        self.ready: list[Any] = []
        self.late: deque[Any] = deque()
        self.together = FlushTogether(self.ready, self.late)
        self.owners = [Slow(self.ready, clock) for _ in range(count)]

    def publish(self, size: int = SMALL) -> None:
        """To all of them."""
        self.ready += self.owners
        self.bring(self.together, size)

    def bring(self, policy: Any, size: int = SMALL) -> None:
        """A batch comes in a turn of its own."""
        self.clock[0] += 1.0
        policy.batch_done(self.clock[0], size)

    def flushed(self) -> list[int]:
        return [owner.flushed for owner in self.owners]


async def test_very_many_are_flushed_in_slices(clock: list[float]) -> None:
    crowd = Crowd(clock)
    crowd.publish()
    for number in range(len(crowd.owners)):
        assert sum(crowd.flushed()) == number
        await asyncio.sleep(0)
    assert set(crowd.flushed()) == {1}
    assert not crowd.late
    await asyncio.sleep(0)
    assert set(crowd.flushed()) == {1}


async def test_few_are_flushed_while_many_wait(clock: list[float]) -> None:
    crowd = Crowd(clock)
    crowd.publish()
    other = Owner(crowd.ready)
    crowd.ready.append(other)
    crowd.bring(crowd.together)
    assert (other.flushed, sum(crowd.flushed())) == (1, 0)


async def test_many_that_come_while_others_wait_wait_behind_them(clock: list[float]) -> None:
    crowd = Crowd(clock)
    crowd.publish()
    later = [Owner(crowd.ready) for _ in range(FEW + 1)]
    crowd.ready += later
    crowd.bring(crowd.together)
    assert [owner.flushed for owner in later] == [0] * len(later)
    while crowd.late:
        assert sum(owner.flushed for owner in later) == 0 or set(crowd.flushed()) == {1}
        await asyncio.sleep(0)
    assert [owner.flushed for owner in later] == [1] * len(later)


async def test_those_that_become_ready_in_a_slice_are_flushed_too(clock: list[float]) -> None:
    crowd = Crowd(clock)
    last = Owner(crowd.ready)
    crowd.owners[-1].makes_ready = (last,)
    crowd.publish()
    for _ in crowd.owners:
        await asyncio.sleep(0)
    assert (last.flushed, crowd.ready) == (1, [])


def goes_on(calls: list[list[int]], past: int) -> bool:
    return len(calls) > past


async def until(is_reached: Callable[[], bool], turns: int = 1000) -> None:
    """Turns of the loop pass."""
    for _ in range(turns):
        if is_reached():
            return
        await asyncio.sleep(0)
    raise AssertionError("not reached")


@pytest.mark.parametrize("policy", [FlushTogether, FlushAtOnce])
@pytest.mark.parametrize("size", [LARGE_BATCH, MOST_MEANWHILE, MOST_AT_ALL])
async def test_a_large_batch_to_many_is_flushed_in_slices_too(clock: list[float], policy: Any, size: int) -> None:
    """H1: however much a batch brings to very many consumers, a turn of the loop flushes a slice of them."""
    crowd = Crowd(clock, FEW_OF_MUCH + 1)
    brings = policy(crowd.ready, crowd.late)
    crowd.ready += crowd.owners
    crowd.bring(brings, size)
    for number in range(len(crowd.owners)):
        assert sum(crowd.flushed()) == number
        await asyncio.sleep(0)
    assert set(crowd.flushed()) == {1}


@pytest.mark.parametrize("policy", [FlushTogether, FlushAtOnce])
async def test_a_large_batch_to_a_hundred_is_flushed_at_once(clock: list[float], policy: Any) -> None:
    crowd = Crowd(clock, FEW_OF_MUCH)
    crowd.ready += crowd.owners
    crowd.bring(policy(crowd.ready, crowd.late), LARGE_BATCH)
    assert set(crowd.flushed()) == {1}


@pytest.mark.parametrize("policy", [FlushTogether, FlushAtOnce])
async def test_who_brings_much_waits_in_line(clock: list[float], policy: Any) -> None:
    crowd, went_on = Crowd(clock), list[list[int]]()
    brings = policy(crowd.ready, crowd.late)
    for turn in range(2):  # the second time it counts from the beginning
        crowd.publish()
        for _ in range(0, MOST_MEANWHILE, LARGE_BATCH // 2):
            assert not brings.must_wait()
            crowd.bring(brings, LARGE_BATCH // 2)
        crowd.bring(brings, SMALL)
        assert brings.must_wait()
        brings.when_flushed(lambda: went_on.append(crowd.flushed()))
        later = [Owner(crowd.ready) for _ in range(FEW + 1)]
        crowd.ready += later
        crowd.bring(crowd.together)
        await until(partial(goes_on, went_on, turn))
        assert went_on[turn] == [turn + 1] * len(crowd.owners)
        await until(lambda: not crowd.late)
        assert {owner.flushed for owner in later} == {1}
        crowd.bring(brings, SMALL)
        assert not brings.must_wait()


async def test_others_bring_on_while_one_waits_in_line(clock: list[float]) -> None:
    """What was brought before the line was stood in counts no more when its end is reached, and what came later does."""
    crowd, went_on = Crowd(clock, FEW_OF_MUCH + 1), list[None]()
    crowd.publish(MOST_MEANWHILE)
    crowd.publish()
    assert crowd.together.must_wait()
    crowd.together.when_flushed(lambda: went_on.append(None))
    crowd.publish(MOST_MEANWHILE)  # what was flushed meanwhile stands behind the line now
    await until(lambda: bool(went_on))
    assert crowd.late
    crowd.bring(crowd.together, 0)
    assert not crowd.together.must_wait()
    crowd.bring(crowd.together, SMALL)
    assert crowd.together.must_wait()


@pytest.mark.parametrize("policy", [FlushTogether, FlushAtOnce])
async def test_what_outboxes_cannot_hold_is_flushed_at_once(clock: list[float], policy: Any) -> None:
    """Very many connections may bring a batch each before one of them has to wait."""
    crowd, went_on = Crowd(clock), list[None]()
    brings = policy(crowd.ready, crowd.late, MOST_AT_ALL)
    for number in range(1, 3):
        crowd.publish()
        crowd.bring(brings, MOST_AT_ALL)
        assert brings.must_wait()
        brings.when_flushed(lambda: went_on.append(None))
        assert set(crowd.flushed()) == {number - 1}
        crowd.bring(brings, SMALL)
        assert (set(crowd.flushed()), len(crowd.late)) == ({number}, 0)
        assert not brings.must_wait()
        assert len(went_on) == number - 1
        await asyncio.sleep(0)
        assert len(went_on) == number
