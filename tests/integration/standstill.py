"""How long a loop once worked without looking up, at the pace of quiet cores.

What is counted is the loop's own CPU time, so other processes on the machine do not matter, and it is divided by how slow
the machine is just now: where a fixed piece of work takes twice as long as it should, so does everything else.
"""

import asyncio
import time

PERIOD = 0.01
YARDSTICK = 0.0022
"""Seconds that `work` takes on quiet cores."""


def work() -> float:
    """Something of everything that a node does, and the CPU time that it took."""
    began = time.thread_time()
    seen: dict[bytes, list[int]] = {}
    for n in range(10_000):
        seen.setdefault(b"%d" % (n % 1000), []).append(n)
    b"".join(seen)
    return time.thread_time() - began


class Standstill:
    """Watches the running loop from its making on."""

    def __init__(self) -> None:
        self._longest = 0.0
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(PERIOD)
            worked = time.thread_time() - before - PERIOD
            if worked >= 0.05:  # how slow the machine is has to be asked at once: a moment later it is another
                worked /= max(1.0, min(work() for _ in range(3)) / YARDSTICK)
            self._longest = max(self._longest, worked)

    def take(self) -> float:
        """Seconds since it was last asked."""
        longest, self._longest = self._longest, 0.0
        return longest

    def stop(self) -> None:
        self._task.cancel()
