"""What a recorder says of producers besides what their messages bring: all that the broker knows of them, now and then.

When it starts, and whenever its connection was lost, it writes all of it, because what was said meanwhile was not
received. From then on it asks every minute, and writes the producers of which the broker says something else than it
wrote the last time, and those that it received something from since. That puts right what recorders cannot see by
themselves:

    order       of two changes of a producer, two recorders of a group have one each, and only their clocks say which
                was first
    losses      what was thrown away, here or by the broker, had changes in it; it asks soon after
    elsewhere   what was said with messages that are not recorded, or to a recorder that was killed

Of each producer it is said that this is all: a key that was deleted meanwhile holds no longer, and it need
not be looked up which those are. What was written is remembered as a number for each producer.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

import msgspec

from fumarole.client import Client, ClientError
from fumarole.client.capture import Columns, microseconds
from fumarole.client.producer import ProducerInfo
from fumarole.pipeline.capturing import INTERVAL
from fumarole.pipeline.recorder.writer import Writer
from fumarole.pipeline.rows import recorded_keys, snapshot_table, told_of

PAUSE_SECONDS = 60.0
PAUSE_TIMES = 20
"""Where there are very many producers: at least so many times as long as it took."""
SOON_SECONDS = 5.0
"""After something was thrown away: once in so many seconds, also where that goes on and on."""
PAGE_SECONDS = 30.0
"""What one page of producers may take: a busy recorder does not read its answers at once."""
A_LITTLE = 1_000_000
"""Microseconds by which clocks are corrected in ordinary operation."""


class Reconciling:
    """`hear` what is captured; `run` beside it."""

    def __init__(
        self,
        client: Client,
        where: str,
        writer: Writer,
        room: Callable[[], Awaitable[None]],
        missed: Callable[[], int],
    ) -> None:
        """`missed` counts messages that were captured, or should have been, and are not in the archive."""
        self._client = client
        self._where = where
        self._writer = writer
        self._room = room
        self._missed = missed
        self._written: set[int] = set()
        """What was written of each producer, when all were asked for the last time."""
        self._heard: set[str] = set()
        """Producers that said something since."""

    def hear(self, columns: Columns) -> None:
        """These were captured."""
        if columns.metadata_rows:
            self._heard.update(told_of(columns))

    async def run(self) -> None:
        """Until it is cancelled."""
        loop = asyncio.get_running_loop()
        clock = SetBack(microseconds(), time.monotonic_ns() // 1_000)
        losses, missed = -1, 0
        due = soon = 0.0
        while True:
            if losses != self._client.losses or clock.calls_for_all(microseconds(), time.monotonic_ns() // 1_000):
                losses = self._client.losses
                self._written.clear()
                due = 0.0
            if missed != self._missed() and not self._writer.progress.fault:
                missed = self._missed()
                due = min(due, soon)
            begin = loop.time()
            if begin >= due and self._client.connected and not self._writer.is_stuck:
                with contextlib.suppress(ClientError, TimeoutError):
                    if await self._reconcile():
                        soon = loop.time() + SOON_SECONDS
                        due = loop.time() + max(PAUSE_SECONDS, PAUSE_TIMES * (loop.time() - begin))
            await asyncio.sleep(INTERVAL)

    async def _reconcile(self) -> bool:
        """False: the disk takes nothing, so it is not all there."""
        heard, self._heard = self._heard, set()
        written: set[int] = set()
        try:
            # Each page is as of when it is asked for. What changes until it is there may be in it, and comes again.
            now = microseconds()
            async for page in self._client.all_producers(self._where, PAGE_SECONDS):
                marks = {_mark(producer): producer for producer in page}
                news = [each for mark, each in marks.items() if mark not in self._written or each.id in heard]
                if news:
                    await self._room()
                    table = snapshot_table(((producer.id, recorded_keys(producer.metadata)) for producer in news), now)
                    if not self._writer.add_changes(table):
                        return False
                written.update(marks)
                now = microseconds()
            self._written, heard = written, set()
            return True
        finally:
            self._heard |= heard


def _mark(producer: ProducerInfo) -> int:
    return hash((producer.id, msgspec.json.encode(recorded_keys(producer.metadata))))


class SetBack:
    """Tells from a clock and a steady one when the clock was set back. Times are microseconds.

    What was written before stands in the future then: it does not hold yet, and when its time has come it would hold
    again. So all is to be said anew twice: at once, and when the clock has come to where it had been.
    """

    def __init__(self, now: int, steady: int) -> None:
        self._ahead = now - steady
        self._until = 0

    def calls_for_all(self, now: int, steady: int) -> bool:
        """Is all to be said anew? To be asked often."""
        ahead, self._ahead = self._ahead, now - steady
        if ahead - self._ahead > A_LITTLE:
            self._until = max(self._until, ahead + steady)
            return True
        if self._until and now > self._until:
            self._until = 0
            return True
        return False
