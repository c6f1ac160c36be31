"""Producers' metadata on disk: how fast it is written and read again, what it takes in memory, how long the loop waits.

Each producer has five keys: room, building, kind and unit as text, a serial number. Writing and reading are each in a
process of its own, so that the memory of one is not that of the other:

    python bench/durable.py write|read FOLDER PRODUCERS      prints one line of JSON
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Iterator
from pathlib import Path

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.effort import Effort
from bench.figures import Figure, against, within
from fumarole.exchange.namespaces import Namespaces
from fumarole.exchange.readings import Reading
from fumarole.store.keeper import Keeper

PRODUCERS = 1_000_000
MEMORY_LIMIT = 1536
LOAD_RATE = 100_000
LATE_LIMIT = 100.0
CLAIM = f"{PRODUCERS:,} durable producers of five keys"
KINDS = ("temperature", "humidity", "pressure", "carbon-dioxide")


def resident() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def metadata(number: int) -> dict[str, str | int]:
    return {
        "Room": f"{number % 40_000}",
        "Building": f"building {number % 200}",
        "Kind": KINDS[number % len(KINDS)],
        "Unit": "unit of measure",
        "Serial": number,
    }


def measure(effort: Effort) -> Iterator[Figure]:
    count = effort.share(PRODUCERS)
    with tempfile.TemporaryDirectory() as place:
        found = {}
        for what in ("write", "read"):
            effort.tell(what)
            command = [sys.executable, __file__, what, place, str(count)]
            run = subprocess.run(command, check=True, capture_output=True, text=True)
            found.update(json.loads(run.stdout.splitlines()[-1]))
    yield within(MEMORY_LIMIT, CLAIM, "memory of each", found["memory"], "B")
    yield against("limit", CLAIM, "loaded at start", found["loaded"], LOAD_RATE, "/s", at_least=1.0)
    yield within(LATE_LIMIT, CLAIM, "longest that the loop waits while all are written", found["late"], "ms")


async def delays(work: Awaitable[object]) -> float:
    """Milliseconds by which the loop was once late to wake a task that slept for one, while the work was done."""
    late: list[float] = []

    async def watch() -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(0.001)
            late.append((time.perf_counter() - begun) * 1000 - 1)

    watching = asyncio.create_task(watch())
    await work
    watching.cancel()
    return max(late)


async def write(folder: Path, producers: int) -> None:
    namespaces = Namespaces()
    keeper = Keeper(folder, namespaces, print)
    await keeper.load()
    chance = random.Random(1)
    exchange = namespaces.join("default")
    for number in range(producers):
        identity = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        exchange.producers.hear(Reading(identity, metadata(number), 1.0), 0.0)
    gc.collect()
    gc.freeze()
    begun = time.perf_counter()
    late = await delays(keeper.save())
    print(json.dumps({"late": late, "written": producers / (time.perf_counter() - begun)}))
    await keeper.close()


async def read(folder: Path) -> None:
    namespaces = Namespaces()
    keeper = Keeper(folder, namespaces, print)
    before = resident()
    begun = time.perf_counter()
    producers = await keeper.load()
    seconds = time.perf_counter() - begun
    print(json.dumps({"loaded": producers / seconds, "memory": (resident() - before) / producers}))
    await keeper.close()


def main() -> None:
    what, folder, producers = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    asyncio.run(write(folder, producers) if what == "write" else read(folder))


if __name__ == "__main__":
    main()
