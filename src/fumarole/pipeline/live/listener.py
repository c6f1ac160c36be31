"""What runs beside the driver while a live query runs: a thread with a client, from the broker into the buffer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time

from fumarole.client import connect
from fumarole.core.errors import FumaroleError
from fumarole.core.payloads import Payloads
from fumarole.pipeline.capturing import Wanted, captured
from fumarole.pipeline.declared import by_event_time
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.live.buffer import Buffer
from fumarole.pipeline.rows import message_table

log = logging.getLogger("fumarole.pipeline")

START_SECONDS = 20.0
STOP_SECONDS = 5.0
FULL_PAUSE = 0.05
COMPLAINT_SECONDS = 60.0
"""Between two log lines about readings that were lost."""


class Listener:
    """Listens from `start` to `stop`. What goes wrong is raised by `check`, in the thread that calls it."""

    def __init__(
        self, servers: str, wanted: Wanted, buffer: Buffer, most_bytes: int, payloads: Payloads | None = None
    ) -> None:
        self._payloads = payloads or Payloads()
        self._servers = servers
        self._wanted = wanted
        self._buffer = buffer
        self._most_bytes = most_bytes
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
        try:
            async with connect(self._servers, name="fumarole spark") as client:
                async for columns in captured(client, self._wanted, self._stop, self._say_ready, self._lose):
                    await self._room()
                    # What comes meanwhile is taken together, so the more there is the larger are the files.
                    rows = by_event_time(message_table(columns), self._payloads)
                    await asyncio.to_thread(self._buffer.append, rows)
        finally:
            self._complain()

    async def _say_ready(self) -> None:
        self._ready.set()

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
            self._complain()

    def _complain(self) -> None:
        if self._lost:
            log.warning("readings lost: %d; they came faster than Spark took them, and the buffer was full", self._lost)
            self._lost = 0
            self._quiet_until = time.monotonic() + COMPLAINT_SECONDS
