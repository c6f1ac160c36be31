import asyncio

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
