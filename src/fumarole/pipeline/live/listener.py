"""What runs beside the driver while a live query runs: a thread with a client, from the broker into the buffer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from dataclasses import replace

import pyarrow as pa

from fumarole.client import Client, ClientError, connect
from fumarole.client.producer import ProducerInfo
from fumarole.core.errors import FumaroleError
from fumarole.core.payloads import Payloads
from fumarole.core.publication import FORGOTTEN
from fumarole.core.topic import matches, parse_wildcards, split
from fumarole.pipeline.capturing import Wanted, captured
from fumarole.pipeline.declared import by_event_time
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.live.buffer import Buffer
from fumarole.pipeline.live.clock import PAGE_SECONDS, REFRESH_SECONDS, Clock
from fumarole.pipeline.live.describing import Describing
from fumarole.pipeline.rows import message_table

log = logging.getLogger("fumarole.pipeline")

START_SECONDS = 20.0
STOP_SECONDS = 5.0
FULL_PAUSE = 0.05
UNKNOWN_SECONDS = 5.0
"""Seconds between two questions about producers of which nothing is known."""
CLOCK_INTERVAL = 0.1
"""Seconds between two rows that tell the time."""
WARNING_SECONDS = 60.0
"""Between two log lines about readings that were lost."""


class Listener:
    """Listens from `start` to `stop`. What goes wrong is raised by `check`, in the thread that calls it."""

    def __init__(
        self,
        servers: str,
        wanted: Wanted,
        buffer: Buffer,
        most_bytes: int,
        payloads: Payloads | None = None,
        has_clock: bool = False,
        has_metadata: bool = False,
    ) -> None:
        self._payloads = payloads or Payloads()
        self._servers = servers
        self._wanted = wanted
        self._buffer = buffer
        self._most_bytes = most_bytes
        self._clock = Clock(buffer.folder, self._append) if has_clock else None
        self._describing = Describing() if has_metadata else None
        self._learned_at = 0.0
        self._losses = 0
        """Connections that were lost, as far as the clock was told."""
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._error: BaseException | None = None
        self._lost = 0
        """Readings that the log has yet to tell of."""
        self._quiet_until = 0.0
        self._thread = threading.Thread(target=self._run, name="fumarole live", daemon=True)

    def start(self) -> None:
        """Returns when the broker has confirmed the subscription: from here on nothing is missed."""
        self._thread.start()
        if not self._ready.wait(START_SECONDS):
            raise PipelineError(f"no broker at {self._servers} within {START_SECONDS:g} s")
        self.check()

    def check(self) -> None:
        if self._error is not None:
            told = isinstance(self._error, FumaroleError | OSError)
            text = str(self._error) if told else f"{type(self._error).__name__}: {self._error}"
            raise PipelineError(text) from self._error

    def stop(self) -> None:
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._listen())
        except BaseException as error:  # noqa: BLE001 (a thread that ended in silence would look like a quiet broker)
            self._error = error
        finally:
            self._ready.set()

    async def _listen(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        clock = self._clock
        told: asyncio.Task[None] | None = None
        wanted = self._wanted if clock is None else replace(self._wanted, interval=CLOCK_INTERVAL, farewells=True)
        if clock is not None and not wanted.where and matches(parse_wildcards(wanted.topic), split(FORGOTTEN)):
            wanted = replace(wanted, farewells=False)  # they come anyway
        try:
            async with connect(self._servers, name="fumarole spark") as client:

                async def ready() -> None:
                    nonlocal told
                    if clock is not None:
                        await clock.resume()
                        told = asyncio.create_task(self._tell(client, clock))
                    self._ready.set()
                    await self._learn(client)

                async def turn(now: int) -> None:
                    if clock is not None and client.connected and client.losses == self._losses:
                        await clock.turn(now)

                async for columns in captured(client, wanted, self._stop, ready, self._lose, turn):
                    await self._room()
                    # What comes meanwhile is taken together, so the more there is the larger are the files.
                    rows = by_event_time(message_table(columns), self._payloads)
                    if self._describing is not None:
                        rows = await self._described(client, self._describing, rows)
                    if clock is None:
                        await self._append(rows)
                    else:
                        clock.add(rows)
                if clock is not None:
                    await clock.flush()
        finally:
            if told is not None:
                told.cancel()
            self._warn()

    async def _described(self, client: Client, describing: Describing, rows: pa.Table) -> pa.Table:
        age = time.monotonic() - self._learned_at
        is_lacking = age > UNKNOWN_SECONDS and not describing.knows_all(rows)
        if client.losses != self._losses or age > REFRESH_SECONDS or is_lacking:
            await self._learn(client)
        return describing.described(rows)

    async def _learn(self, client: Client) -> None:
        """What the broker knows of producers. Messages wait meanwhile, so that none is described by less."""
        if self._describing is None or not client.connected:
            return
        losses = client.losses
        known: list[ProducerInfo] = []
        try:
            async for page in client.all_producers(self._wanted.where, PAGE_SECONDS):
                known += page
        except (ClientError, TimeoutError) as error:
            log.warning("the broker does not say what it knows of producers: %s", error)
        else:
            self._describing.learn((each.id, each.metadata) for each in known)
            self._losses = losses
        self._learned_at = time.monotonic()

    async def _append(self, rows: pa.Table) -> None:
        await asyncio.to_thread(self._buffer.append, rows)

    async def _tell(self, client: Client, clock: Clock) -> None:
        """What the broker knows of producers: all of it now and after each loss of the connection, and then the news.

        A connection that was lost is a gap.
        """
        await clock.tell_all(client, self._wanted.where)
        refreshed = time.monotonic()
        while True:
            await asyncio.sleep(CLOCK_INTERVAL)
            if client.losses != self._losses and client.connected:
                losses = client.losses
                await clock.resume()
                self._losses = losses
                await clock.tell_all(client, self._wanted.where)
            elif time.monotonic() - refreshed > REFRESH_SECONDS and client.connected:
                with contextlib.suppress(ClientError, TimeoutError):
                    await clock.refresh(client, self._wanted.where)
                refreshed = time.monotonic()

    async def _room(self) -> None:
        """A full buffer is waited for. Messages are not read meanwhile, and the broker's policy decides (D6); readings
        that a query selects are, and the client keeps the newest."""
        assert self._stop is not None
        while self._buffer.waiting > self._most_bytes and not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FULL_PAUSE):
                    await self._stop.wait()

    def _lose(self, readings: int) -> None:
        """The broker has delivered them, and counts none of them as dropped: so they are counted here (L3)."""
        self._lost += readings
        if time.monotonic() >= self._quiet_until:
            self._warn()

    def _warn(self) -> None:
        if self._lost:
            log.warning("readings lost: %d; they came faster than Spark took them, and the buffer was full", self._lost)
            self._lost = 0
            self._quiet_until = time.monotonic() + WARNING_SECONDS
