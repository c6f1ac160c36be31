"""Three workers of a group share the jobs: each job goes to one of them."""

import asyncio
import os

import fumarole

SERVERS = os.environ.get("FUMAROLE_SERVERS", "nats://127.0.0.1:4222")


async def work(jobs: fumarole.Subscription, done: list[str]) -> None:
    async for job in jobs:
        await asyncio.sleep(0)  # the work
        done.append(job.text)


async def main() -> None:
    async with fumarole.connect(SERVERS) as client:
        done: list[list[str]] = [[], [], []]
        for each in done:
            jobs = await client.subscribe("jobs.>", group="workers")
            asyncio.create_task(work(jobs, each))  # noqa: RUF006 - `drain` ends it

        await client.publish_many((f"jobs.{number % 5}", str(number)) for number in range(300))
        await client.drain()  # takes no new jobs, lets the workers finish
        print("jobs done:", sum(map(len, done)))
        print("each worker did its share:", all(80 < len(each) < 120 for each in done))


asyncio.run(main())
