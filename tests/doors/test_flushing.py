import asyncio
from typing import Any

import pytest

from fumarole.doors import flushing
from fumarole.doors.flushing import LARGE_BATCH, LAST_BATCH, SAME_TURN, FlushAtOnce, FlushTogether, flush

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
    together = FlushTogether(ready)
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
        together = FlushTogether(ready)
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
    assert FlushAtOnce(ready).batch_done(clock[0], SMALL) == clock[0]
    assert (owner.flushed, LAST_BATCH.at) == (1, 0.0)
