"""One recorder at work: a member of a group, its columns on their way to a writer, and the metadata of producers.

The order at the start matters. Messages are captured first and all that is known of producers is asked for then
(`reconciling.py`): what changes in between is in both, and nothing is missed. It is written as changes of that time, so
that the archive stands alone.

That a producer was forgotten the broker says on a topic of its own, as a message which takes back all that it had said
of itself. Where what is recorded does not include that topic it is captured all the same, so that it stays in its place
between what the producer said before and after, and only the changes are written.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from fumarole.client import Client, ClientError
from fumarole.client.capture import microseconds
from fumarole.client.errors import NoResponders
from fumarole.core.payloads import Payloads
from fumarole.core.publication import FORGOTTEN
from fumarole.core.topic import matches, parse_wildcards, split
from fumarole.pipeline.archive.places import Root
from fumarole.pipeline.archive.seals import Seal
from fumarole.pipeline.archive.verifying import Recovered, recover
from fumarole.pipeline.capturing import INTERVAL, Wanted, captured
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.recorder.naming import Lock, take_name
from fumarole.pipeline.recorder.reconciling import Reconciling
from fumarole.pipeline.recorder.writer import RecorderProgress, Rolling, Writer

ASK_DROPS = 2.0


@dataclass(frozen=True, slots=True)
class Options:
    """What is recorded, and how."""

    topic: str = ">"
    where: str = ""
    group: str = "recorder"
    name: str | None = None
    rolling: Rolling = field(default_factory=Rolling)
    payloads: Payloads = field(default_factory=Payloads)
    """What payloads mean: for the columns `value` and `event_time` (P6, P7)."""
    patience: float = 10.0
    """Seconds that a disk which takes nothing is given when the recorder ends."""

    @property
    def records_forgotten(self) -> bool:
        """Are they among the messages that are recorded?"""
        return not self.where and matches(parse_wildcards(self.topic), split(FORGOTTEN))


class Recorder:
    """`async with Recorder.open(…) as recorder: await recorder.run(stop, …)`."""

    def __init__(self, client: Client, writer: Writer, lock: Lock, options: Options, recovered: Recovered) -> None:
        self.name = lock.name
        self.recovered = recovered
        self.dropped = 0
        """Messages that the broker threw away because this recorder was too slow, as far as known."""
        self._client = client
        self._writer = writer
        self._options = options
        self._dropped_before = 0

    @property
    def progress(self) -> RecorderProgress:
        return self._writer.progress

    @property
    def backlog(self) -> int:
        return self._writer.backlog

    @property
    def missed(self) -> int:
        """Messages that are not in the archive and should be, as far as known."""
        return self.dropped + self.progress.lost

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
        try:
            lock = take_name(root, namespace, options.name)
        except OSError as error:
            raise PipelineError(f"{root.name} cannot be written: {error.strerror or error}") from None
        try:
            recovered = await asyncio.to_thread(recover, root, namespace, lock.name)
            # Also a clock that was put back must not give an epoch again.
            epoch = max(microseconds(), recovered.epoch + 1)
            leaves_out = "" if options.records_forgotten else FORGOTTEN
            writer = Writer(
                *(root, namespace, lock.name, epoch, options.group, options.rolling, on_seal),
                leaves_out,
                options.payloads,
            )
            for seal in recovered.sealed:
                on_seal(seal)
            yield cls(client, writer, lock, options, recovered)
        finally:
            lock.release()

    async def run(self, stop: asyncio.Event, on_ready: Callable[[], None]) -> None:
        """Records until it is told to stop; then what was captured is sealed. Raises OSError, ClientError.

        `on_ready` is called when the broker has confirmed: from then on every message is recorded.
        """

        options = self._options
        wanted = Wanted(options.topic, options.where, options.group, farewells=not options.records_forgotten)
        known = Reconciling(self._client, options.where, self._writer, self._room, lambda: self.missed)
        tasks: list[asyncio.Task[None]] = []

        async def ready() -> None:
            on_ready()
            tasks.append(asyncio.create_task(known.run()))
            tasks.append(asyncio.create_task(self._know_drops()))

        await asyncio.to_thread(self._writer.start)
        try:
            async for columns in captured(self._client, wanted, stop, ready, self._drop):
                known.hear(columns)
                await self._room()
                self._writer.add(columns)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.to_thread(self._writer.finish, self._options.patience)

    def _drop(self, readings: int) -> None:
        self._dropped_before += readings
        self.dropped += readings

    async def _room(self) -> None:
        """A writer that is only slow is waited for; one that cannot write has to throw away."""
        while self._writer.is_full and not self.progress.fault:
            self._writer.check()
            await asyncio.sleep(INTERVAL / 20)
        self._writer.check()

    async def _know_drops(self) -> None:
        """The broker knows what it had to throw away. Asked now and then; no answer is no harm."""
        losses = self._client.losses
        while True:
            await asyncio.sleep(ASK_DROPS)
            if losses != self._client.losses:
                losses, self._dropped_before = self._client.losses, self.dropped  # it counts anew
            with contextlib.suppress(ClientError, TimeoutError):
                known = (await self._client.consumers())["worst"]
                own = sum(each["dropped"] for each in known if each["connection"].endswith(self._client.name))
                self.dropped = max(self.dropped, self._dropped_before + own)
