"""One publisher or consumer of `bench`: it reads commands on stdin, and writes reports as JSON lines on stdout."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

from fumarole.cli.message_lines import stdin_lines
from fumarole.cli.options import Access
from fumarole.cli.terminal import FAILED, printable, say
from fumarole.client import Client
from fumarole.core.errors import FumaroleError

AT_ONCE = 5_000
"""Messages between two readings of the clock, at full speed."""
TICK = 0.005
"""Seconds between two readings of the clock, at a given rate."""

Plan = dict[str, Any]


def report(**figures: Any) -> None:
    """Writes a line for the parent process."""
    print(json.dumps(figures), flush=True)  # noqa: T201


async def orders() -> AsyncIterator[str]:
    """The lines of stdin, one by one."""
    async for lines in stdin_lines():
        for line in lines:
            yield line.decode()


async def publish(client: Client, plan: Plan, told: AsyncIterator[str]) -> None:
    """Publishes for the planned time."""
    topics = [f"{plan['prefix']}.{number}" for number in range(plan["topics"])]
    payload = bytes(plan["size"])
    at_once = AT_ONCE if plan["rate"] is None else max(int(plan["rate"] * TICK), 1)
    # Every batch has the same messages, so that the time to make them is not measured.
    batches = [
        [(topics[(at + start) % len(topics)], payload) for at in range(at_once)]
        for start in range(0, len(topics), at_once)
    ]
    report(ready=True)
    await anext(told)
    begin = time.perf_counter()
    count = 0
    while (now := time.perf_counter()) < begin + plan["duration"]:
        count += await client.publish_many(batches[count // at_once % len(batches)])
        if plan["rate"] is not None:
            await asyncio.sleep(begin + count / plan["rate"] - now)
    await client.flush(60)
    report(count=count, seconds=time.perf_counter() - begin)


async def consume(client: Client, plan: Plan, told: AsyncIterator[str]) -> None:
    """Counts messages until the stop command, then those that are still on their way."""
    first = last = 0.0
    count = 0
    async with client.subscribe(f"{plan['prefix']}.>", group=plan["group"]) as messages:

        async def take() -> None:
            nonlocal first, last, count
            async for batch in messages.batches():
                last = time.perf_counter()
                first = first or last
                count += len(batch)

        taking = asyncio.create_task(take())
        report(ready=True)
        await anext(told)
        await anext(told)
        await messages.drain()
        await taking
    report(count=count, seconds=last - first)


async def work() -> None:
    """Runs the worker, from its plan to its last report."""
    told = orders()
    plan: Plan = json.loads(await anext(told))
    async with Access.from_texts(plan["access"]).connect("bench") as client:
        await (publish if plan["role"] == "publisher" else consume)(client, plan, told)


def main() -> None:
    """Ignores Ctrl-C: the parent process handles it and ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        asyncio.run(work())
    except (FumaroleError, TimeoutError, StopAsyncIteration) as error:
        say(f"bench: {printable(str(error)) or type(error).__name__}")
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
