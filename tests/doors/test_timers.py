import asyncio
from itertools import pairwise

import pytest

from fumarole.doors import flushing
from fumarole.doors.timers import TimerRunner
from fumarole.exchange.node import Node


class Owner:
    def __init__(self) -> None:
        self.flushed = 0

    def flush(self) -> None:
        self.flushed += 1


def test_timers_run_on_the_loop_and_outboxes_are_flushed() -> None:
    async def run() -> tuple[list[str], int]:
        node, owner, done = Node("n", "0"), Owner(), asyncio.Event()
        TimerRunner(node)
        heard: list[str] = []

        def late() -> None:
            heard.append("late")
            node.ready.append(owner)
            asyncio.get_running_loop().call_soon(done.set)

        node.namespaces.timers.after(0.02, late)
        node.namespaces.timers.after(0.01, lambda: heard.append("early"))
        await asyncio.wait_for(done.wait(), 10)
        return heard, owner.flushed

    assert asyncio.run(run()) == (["early", "late"], 1)


async def test_what_a_timer_fills_for_very_many_leaves_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """H1: 1,000 streams whose period ends in one moment."""
    now, node, count = [100.0], Node("n", "0"), flushing.FEW + 3
    monkeypatch.setattr(flushing, "monotonic", lambda: now[0])

    class Slow(Owner):
        def flush(self) -> None:
            super().flush()
            now[0] += flushing.MOMENT

    owners, due = [Slow() for _ in range(count)], asyncio.Event()

    def fill() -> None:
        node.ready.extend(owners)
        due.set()

    TimerRunner(node)
    node.namespaces.timers.after(0.001, fill)
    await asyncio.wait_for(due.wait(), 10)
    turns = [0]
    while turns[-1] < count:
        await asyncio.sleep(0)
        turns.append(sum(owner.flushed for owner in owners))
    assert {owner.flushed for owner in owners} == {1}
    assert max(after - before for before, after in pairwise(turns[1:])) == 1
