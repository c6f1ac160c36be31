"""Asks, and gets one answer or several. The responders are in the same program only to keep it short."""

import asyncio
import os

import fumarole

SERVERS = os.environ.get("FUMAROLE_SERVERS", "nats://127.0.0.1:4222")


async def answer(questions: fumarole.Subscription, name: str) -> None:
    async for question in questions:
        await question.respond(f"{name} has {question.text}")


async def main() -> None:
    async with fumarole.connect(SERVERS) as client:
        for name in ("atka", "etna"):
            questions = await client.subscribe("stations.ask")
            asyncio.create_task(answer(questions, name))  # noqa: RUF006 - ends with the client

        reply = await client.request("stations.ask", "power", timeout=2.0)
        print(reply.text in {"atka has power", "etna has power"})

        replies = await client.call("stations.ask", "power", replies=2, timeout=2.0)
        print(sorted(reply.text for reply in replies))

        try:
            await client.request("stations.nowhere", timeout=60.0)
        except fumarole.NoResponders as error:
            print(error)


asyncio.run(main())
