"""One recorder at work: a member of a group, its columns on their way to a writer, and the metadata of producers.

The order at the start matters. Messages are captured first and all that is known of producers is asked for then: what
changes in between is in both, and nothing is missed. It is written as changes at the time of the start, so that the
archive stands alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from fumarole.client import Change, Client, ClientError, Reading, Readings
from fumarole.client.capture import Capture, Columns, microseconds
from fumarole.client.errors import NoResponders
from fumarole.pipeline.archive.places import Root
from fumarole.pipeline.archive.seals import Seal
from fumarole.pipeline.archive.verifying import Recovered, recover
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.recorder.naming import Lock, take_name
from fumarole.pipeline.recorder.readings import columns_of
from fumarole.pipeline.recorder.writer import Progress, Rolling, Writer
from fumarole.pipeline.rows import snapshot_table

INTERVAL = 0.2
"""Seconds in which what has come is taken, if it is not enough before."""
ASK_DROPS = 2.0
READINGS_AT_ONCE = 65_536


@dataclass(frozen=True, slots=True)
class Options:
    """What is recorded, and how."""

    topic: str = ">"
    where: str = ""
    group: str = "recorder"
    name: str | None = None
    rolling: Rolling = field(default_factory=Rolling)
    patience: float = 10.0
    """Seconds that a disk which takes nothing is given when the recorder ends."""


class Recorder:
    """`async with Recorder.open(…) as recorder: await recorder.run(stop)`."""

    def __init__(self, client: Client, writer: Writer, lock: Lock, options: Options, recovered: Recovered) -> None:
        self.name = lock.name
        self.recovered = recovered
        self.dropped = 0
        """Messages that the broker threw away because this recorder was too slow, as far as known."""
        self._client = client
        self._writer = writer
        self._options = options
        self._began = 0

    @property
    def progress(self) -> Progress:
        return self._writer.progress

    @property
    def backlog(self) -> int:
        return self._writer.backlog

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, client: Client, root: Root, options: Options, on_seal: Callable[[Seal], None]
    ) -> AsyncIterator[Recorder]:
        """Takes a name, and puts right what an earlier recorder of this name left behind."""
        try:
            namespace = str((await client.stats())["namespace"])
        except NoResponders:
            raise PipelineError(
                f"{client.server} is no Fumarole broker, and only of one is known what it says"
            ) from None
        lock = take_name(root, namespace, options.name)
        try:
            recovered = await asyncio.to_thread(recover, root, namespace, lock.name)
            # Also a clock that was put back must not give an epoch again.
            epoch = max(microseconds(), recovered.epoch + 1)
            writer = Writer(root, namespace, lock.name, epoch, options.group, options.rolling, on_seal)
            for seal in recovered.sealed:
                on_seal(seal)
            yield cls(client, writer, lock, options, recovered)
        finally:
            lock.release()

    async def run(self, stop: asyncio.Event) -> None:
        """Records until it is told to stop; then what was captured is sealed. Raises OSError, ClientError."""
        self._began = microseconds()
        source = self._readings() if self._options.where else self._captured()
        self._writer.start()
        asking = asyncio.create_task(self._ask_drops())
        try:
            async for columns in source(stop):
                await self._give(columns)
        finally:
            asking.cancel()
            await asyncio.to_thread(self._writer.finish, self._options.patience)

    def _captured(self) -> Callable[[asyncio.Event], AsyncIterator[Columns]]:
        async def source(stop: asyncio.Event) -> AsyncIterator[Columns]:
            async with self._client.capture(self._options.topic, group=self._options.group) as capture:
                await self._snapshot()
                stopping = asyncio.create_task(_drain_after(stop, capture))
                try:
                    while not capture.ended:
                        await capture.filled(INTERVAL)
                        for columns in capture.take():
                            yield columns
                    for columns in capture.take():
                        yield columns
                finally:
                    stopping.cancel()

        return source

    def _readings(self) -> Callable[[asyncio.Event], AsyncIterator[Columns]]:
        async def source(stop: asyncio.Event) -> AsyncIterator[Columns]:
            where, topic, group = self._options.where, self._options.topic, self._options.group
            async with self._client.where(where, topic=topic, group=group) as readings:
                await self._snapshot()
                while not stop.is_set():
                    batch = await _some(readings, stop)
                    if batch:
                        yield columns_of(batch, microseconds())
                    self.dropped = max(self.dropped, readings.dropped)

        return source

    async def _snapshot(self) -> None:
        async for page in self._client.all_producers(self._options.where):
            table = snapshot_table(((producer.id, producer.metadata) for producer in page), self._began)
            if table.num_rows:
                await self._room()
                self._writer.add_changes(table)

    async def _give(self, columns: Columns) -> None:
        await self._room()
        self._writer.add(columns)

    async def _room(self) -> None:
        """A writer that is only slow is waited for; one that cannot write has to throw away."""
        while self._writer.is_full and not self.progress.fault:
            self._writer.check()
            await asyncio.sleep(INTERVAL / 20)
        self._writer.check()

    async def _ask_drops(self) -> None:
        """The broker knows what it had to throw away. Asked now and then; no answer is no harm."""
        while True:
            await asyncio.sleep(ASK_DROPS)
            with contextlib.suppress(ClientError, TimeoutError):
                known = (await self._client.consumers())["worst"]
                own = [each["dropped"] for each in known if each["connection"].endswith(self._client.name)]
                self.dropped = max([self.dropped, *own])


async def _drain_after(stop: asyncio.Event, capture: Capture) -> None:
    await stop.wait()
    with contextlib.suppress(ClientError):
        await capture.drain()


async def _some(readings: Readings, stop: asyncio.Event) -> list[Reading]:
    """The readings that have come, or that come within a moment."""
    batch: list[Reading] = []
    with contextlib.suppress(TimeoutError, StopAsyncIteration):
        async with asyncio.timeout(INTERVAL):
            while len(batch) < READINGS_AT_ONCE and not (stop.is_set() and not readings.buffered):
                item = await anext(readings)
                if not isinstance(item, Change):
                    batch.append(item)
    return batch
