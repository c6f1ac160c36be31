"""The bridge's link: messages cross between an AMQP broker and a namespace under the rules of the link's user."""

from __future__ import annotations

import asyncio

import aio_pika

from tests.integration.access.desks import AccessNode, Stage, named
from tests.integration.access.paths import path
from tests.integration.bridge.bridges import RunningBridge

SECONDS = 20.0
WAYS = frozenset(f"{name} {way}" for name in ("secret", "open") for way in ("in", "out"))
TOPICS = {"none": "#", "allow": "open.*", "deny": "#", "both": "open.*"}
"""What the link asks for: a topic that its user may not receive at all ends it."""


@path("bridge:to the namespace", "bridge:from the namespace", everything=WAYS)
def bridge_link(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    url = stage.rabbitmq().url
    servers = f"nats://{token}@127.0.0.1:{node.port}"
    bridge = RunningBridge("--amqp", url, "--exchange", "default", "--servers", servers, "--topics", TOPICS[token])
    try:
        bridge.wait_for(lambda status: status["link"]["state"] == "connected")
        return asyncio.run(asyncio.wait_for(_crossed(stage, url, number), SECONDS))
    finally:
        bridge.stop()


async def _crossed(stage: Stage, url: str, number: int) -> set[str]:
    """The secret message first, each way."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        exchange = await channel.get_exchange("amq.topic")
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, "#")
        found: set[str] = set()
        with stage.nodes[0].nats("root") as root:
            root.talk(b"SUB > 1\r\n")
            for name in ("secret", "open"):
                body = f"{name} {number}.".encode()
                await exchange.publish(aio_pika.Message(body), f"{name}.in", mandatory=False)
            said = await asyncio.to_thread(root.read_until, b"open %d." % number)
            found |= {f"{name} in" for name in named(said, number)}
        await asyncio.to_thread(stage.publish, number, "out")
        async with queue.iterator() as messages:
            async for message in messages:
                await message.ack()
                if message.routing_key is not None and message.routing_key.endswith(".out"):
                    found |= {f"{name} out" for name in named(message.body, number)}
                if "open out" in found:
                    return found
    return found
