"""Where it was measured, and how much of the machine others took meanwhile."""

from __future__ import annotations

import os
import platform
import re
import time
from pathlib import Path

import msgspec


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    processor: str
    cores: int
    memory_gib: float
    kernel: str
    python: str


def this_machine() -> Machine:
    processor = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+) kB", Path("/proc/meminfo").read_text())
    return Machine(
        processor=processor[1] if processor else platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(int(memory[1]) / (1 << 20), 1) if memory else 0.0,
        kernel=platform.release(),
        python=platform.python_version(),
    )


class Others:
    """What other processes do from now on. Ours are this one and those that come from it."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._busy = _busy() - _ours()

    def cores(self) -> float:
        """Processors that they kept busy, on average."""
        return max(0.0, _busy() - _ours() - self._busy) / (time.monotonic() - self._start)


def _busy() -> float:
    """Seconds that all processors together have worked."""
    user, nice, system, _idle, _waiting, *interrupts = map(
        int, Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    )
    # The last two, time of virtual machines, are in the first two already.
    return (user + nice + system + sum(interrupts[:-2])) / os.sysconf("SC_CLK_TCK")


def _ours() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system + _descendants()


def _descendants() -> float:
    """Seconds of those that still run, and of those that they have waited for: Spark's Java, for one, stays."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        pid = int(path.parent.name)
        parents[pid] = int(fields[1])
        seconds[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return sum(each for pid, each in seconds.items() if _comes_from(os.getpid(), pid, parents))


def _comes_from(ancestor: int, pid: int, parents: dict[int, int]) -> bool:
    while pid := parents.get(pid, 0):
        if pid == ancestor:
            return True
    return False
