"""The demonstration: a broker, simulated sensors, a consumer and a group of two, and what passes between them.

When it is told to stop, the sensors end first; what they sent still arrives; then it says what became of it all.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections import deque
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from fumarole.client import Client, ClientError, Subscription, connect
from fumarole.demo.broker import DemoError
from fumarole.demo.cluster import DemoCluster
from fumarole.demo.screen import closing_summary, show
from fumarole.demo.sensors import sensors

PATTERN = "volcanoes.>"
GROUP = "archive"
TICK = 0.02
"""Seconds between two bursts of readings."""
MOST_AT_ONCE = 5_000
"""Of a burst, so that the other tasks go on too."""
SAMPLE = 0.5
"""Seconds between two looks at the counts."""
SAMPLES_KEPT = 240
READINGS_KEPT = 60
STOPPING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class Flow:
    """What one taking part has sent or received, and how fast: counts at each look."""

    name: str
    what: str
    total: int = 0
    counts: deque[int] = field(default_factory=lambda: deque([0], maxlen=SAMPLES_KEPT))

    def sample(self) -> None:
        """Looks at the count."""
        self.counts.append(self.total)

    def rates(self) -> list[float]:
        """Messages a second between one look and the next."""
        return [(after - before) / SAMPLE for before, after in pairwise(self.counts)]

    def rate(self) -> float:
        """Over the last second or so."""
        last = self.rates()[-round(1 / SAMPLE) :]
        return sum(last) / len(last) if last else 0.0


class Scene:
    """All there is to see."""

    def __init__(
        self, url: str, cluster: DemoCluster | None = None, web: str = "", *, opens_browser: bool = False
    ) -> None:
        self.url = url
        self.opens_browser = opens_browser
        self._web = web
        self.cluster = cluster
        self.published = Flow("sensors", "publish")
        self.consumer = Flow("consumer", PATTERN)
        self.members = [Flow(f"{GROUP} {number}", f"{PATTERN}  in group {GROUP}") for number in (1, 2)]
        self.readings: dict[str, deque[float]] = {}
        self.broker: dict[str, Any] = {}

    @property
    def web(self) -> str:
        """The console's address; empty: there is none."""
        return self._web if self.cluster is None else self.cluster.web()

    def flows(self) -> list[Flow]:
        """Everything that takes part."""
        return [self.published, self.consumer, *self.members]

    def servers(self, number: int) -> list[str]:
        """Where this one of those taking part connects; in a cluster, first to a node of its own."""
        return [self.url] if self.cluster is None else self.cluster.urls(number % len(self.cluster.nodes))

    def note(self, topic: str, temperature: float) -> None:
        """A reading has reached the consumer."""
        if topic not in self.readings:
            self.readings[topic] = deque(maxlen=READINGS_KEPT)
        self.readings[topic].append(temperature)


async def publish(client: Client, scene: Scene, rate: float, stopping: asyncio.Event) -> None:
    """The sensors, each in turn, until it is time to stop."""
    loop = asyncio.get_running_loop()
    producers = [(each, client.producer(each.metadata(), each.topic)) for each in sensors(random.Random())]
    begin = loop.time()
    while not stopping.is_set():
        due = round((loop.time() - begin) * rate)
        with _forgiven(scene):
            for number in range(scene.published.total, min(due, scene.published.total + MOST_AT_ONCE)):
                sensor, producer = producers[number % len(producers)]
                reading = sensor.read()
                producer.update(sensor.change())
                await producer.publish(reading)
                scene.published.total += 1
        await asyncio.sleep(TICK)
    with _forgiven(scene):
        await client.flush()


def _forgiven(scene: Scene) -> contextlib.AbstractContextManager[None]:
    """In a cluster a node may go away at any time; the client finds another."""
    return contextlib.nullcontext() if scene.cluster is None else contextlib.suppress(ClientError, TimeoutError)


async def receive(messages: Subscription, flow: Flow, scene: Scene | None = None) -> None:
    """Counts what arrives, and notes it for the screen."""
    async for batch in messages.batches():
        flow.total += len(batch)
        if scene is not None:
            for message in batch:
                with contextlib.suppress(ValueError):  # others may publish to these topics too
                    scene.note(message.topic, float(message.text))


async def watch(scene: Scene, client: Client, stopping: asyncio.Event) -> None:
    """Looks at the counts at regular times."""
    while not stopping.is_set():
        for flow in scene.flows():
            flow.sample()
        with contextlib.suppress(ClientError, TimeoutError):
            scene.broker = await client.stats(timeout=SAMPLE)
        await asyncio.sleep(SAMPLE)


async def demonstrate(
    url: str, rate: float, cluster: DemoCluster | None = None, web: str = "", *, opens_browser: bool = False
) -> None:
    """Runs it all until it is told to stop, in a cluster spread over its nodes. Raises DemoError."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in STOPPING_SIGNALS:
        loop.add_signal_handler(number, stopping.set)
    scene = Scene(url, cluster, web, opens_browser=opens_browser)
    try:
        await _run(scene, rate, stopping)
    except ExceptionGroup as group:
        gone, others = group.split(ClientError)
        if gone is None or others is not None:
            raise
        raise DemoError(f"the broker is gone: {gone.exceptions[0]}") from None
    closing_summary(scene)


async def _run(scene: Scene, rate: float, stopping: asyncio.Event) -> None:
    async with AsyncExitStack() as stack:
        cluster = scene.cluster
        publisher, consumer, *members = [
            await stack.enter_async_context(
                connect(scene.servers(number), name=f"demo {flow.name}", reconnect=cluster is not None)
            )
            for number, flow in enumerate(scene.flows())
        ]
        everything = await consumer.subscribe(PATTERN)
        shares = [await member.subscribe(PATTERN, group=GROUP) for member in members]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(receive(everything, scene.consumer, scene))
            for share, flow in zip(shares, scene.members, strict=True):
                tasks.create_task(receive(share, flow))
            tasks.create_task(watch(scene, publisher, stopping))
            keeping = None if cluster is None else tasks.create_task(cluster.keep())
            screen = tasks.create_task(show(scene, stopping))
            await publish(publisher, scene, rate, stopping)
            await screen
            if keeping is not None:
                keeping.cancel()
            for subscription in (everything, *shares):
                await subscription.drain()
