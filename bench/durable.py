"""Producers' metadata on disk: how fast it is written and read again, what it takes in memory, how long the loop waits.

    python bench/durable.py [PRODUCERS]

Each producer has five keys: room, building, kind and unit as text, a serial number. Writing and reading are each in a
process of its own, so that the memory of one is not that of the other.
"""

import asyncio
import gc
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable
from pathlib import Path

from fumarole.exchange.namespaces import Namespaces
from fumarole.exchange.producers import Reading
from fumarole.store.keeper import Keeper

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


async def delays(work: Awaitable[object]) -> str:
    """How late the loop wakes those who sleep for a millisecond, while the work is done."""
    late: list[float] = []

    async def watch() -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(0.001)
            late.append((time.perf_counter() - begun) * 1000 - 1)

    watching = asyncio.create_task(watch())
    await work
    watching.cancel()
    late.sort()
    return (
        f"{late[len(late) // 2]:.1f} ms, one in a hundred {late[-len(late) // 100]:.1f} ms, at most {late[-1]:.1f} ms"
    )


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
    print(f"the loop is late by {await delays(asyncio.sleep(3))} without any writing")
    begun = time.perf_counter()
    print(f"the loop is late by {await delays(keeper.save())} while all is written")
    print(f"written: {producers / (time.perf_counter() - begun):,.0f} producers a second")
    await keeper.close()


async def read(folder: Path) -> None:
    namespaces = Namespaces()
    keeper = Keeper(folder, namespaces, print)
    before = resident()
    begun, worked = time.perf_counter(), time.process_time()
    producers = await keeper.load()
    seconds, worked = time.perf_counter() - begun, time.process_time() - worked
    print(f"read: {producers / seconds:,.0f} producers a second, {producers / worked:,.0f} a second of processor time")
    print(f"in memory: {(resident() - before) / producers:,.0f} bytes each")
    await keeper.close()


def main() -> None:
    if len(sys.argv) == 4:
        folder, producers = Path(sys.argv[2]), int(sys.argv[3])
        asyncio.run(write(folder, producers) if sys.argv[1] == "write" else read(folder))
        return
    count = sys.argv[1] if len(sys.argv) > 1 else "1000000"
    with tempfile.TemporaryDirectory() as place:
        for what in ("write", "read"):
            subprocess.run([sys.executable, __file__, what, place, count], check=True)
        size = sum(path.stat().st_size for path in Path(place).iterdir())
        print(f"on disk: {size / int(count):,.0f} bytes each")


if __name__ == "__main__":
    main()
