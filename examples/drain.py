"""A worker that finishes its work on SIGTERM: it takes no new jobs, answers those that it has, and ends."""

import asyncio
import os
import signal

import fumarole

SERVERS = os.environ.get("FUMAROLE_SERVERS", "nats://127.0.0.1:4222")


async def work(jobs: fumarole.Subscription) -> int:
    count = 0
    async for job in jobs:
        await asyncio.sleep(0.01)  # the work
        await job.respond(job.text.upper())
        count += 1
    return count


async def main() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with fumarole.connect(SERVERS) as client:
        jobs = await client.subscribe("shout", group="workers")
        working = asyncio.create_task(work(jobs))
        print("ready", flush=True)
        await stop.wait()
        await client.drain()
        print(f"answered {await working} requests")


asyncio.run(main())
