"""What a listener tells besides messages, in their place between them: how far it has heard, when it heard nothing, and
what the broker knows of producers.

A stream in which nothing comes has no time: nothing in it says that a producer is silent. With rows that tell the time
it has, and it is the same time when rows are asked for again.

    listened    in the buffer's folder: up to when all that was heard is in the buffer
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from fumarole.client import Client, ClientError
from fumarole.client.capture import microseconds
from fumarole.client.producer import ProducerInfo
from fumarole.pipeline.archive.schema import ANEW, TIME
from fumarole.pipeline.rows import MESSAGE_ROWS, recorded_keys, typed

log = logging.getLogger("fumarole.pipeline")

Append = Callable[[pa.Table], Awaitable[None]]
EVENT_ROWS: Final = pa.schema(
    [
        *MESSAGE_ROWS,
        pa.field("recorded", TIME),
        pa.field("wrong_clock", pa.bool_()),
        pa.field("event", pa.string()),
    ]
)
"""Rows of a buffer, with what is told."""
REFRESH_SECONDS: Final = 60.0
PAGE_SECONDS: Final = 30.0
LISTENED: Final = "listened"


class Clock:
    """`turn` after each turn of listening; `known` and its like when the listener is ready, and now and then."""

    def __init__(self, folder: Path, append: Append) -> None:
        self._file = folder / LISTENED
        self._aside = self._file.with_suffix(".part")
        self._append = append
        self._turn: list[pa.Table] = []
        self._told: set[int] = set()
        """What was told of each producer, when all were asked for the last time."""

    def add(self, rows: pa.Table) -> None:
        """Messages of this turn."""
        with_event = rows.append_column("event", pa.nulls(rows.num_rows, pa.string()))
        self._turn.append(with_event.select(EVENT_ROWS.names).cast(EVENT_ROWS))

    async def turn(self, now: int) -> None:
        """All that was heard up to now was added."""
        await self._flush([_told("tick", now)])
        # A process that is killed must not leave an empty file: without a gap, its absence would count as silence.
        self._aside.write_text(str(now))
        self._aside.replace(self._file)

    async def flush(self) -> None:
        """Messages that came after the last turn."""
        if self._turn:
            await self._flush([])

    async def resume(self) -> None:
        """Listening begins, or goes on."""
        try:
            since = int(self._file.read_text())
        except (FileNotFoundError, ValueError):
            return
        now = microseconds()
        if now > since:
            await self._append(rows_of([_told("gap", now, since)]))

    async def tell_all(self, client: Client, where: str) -> None:
        """What the broker knows of all producers; and that it knows no others."""
        begin = microseconds()
        self._told.clear()
        try:
            await self.refresh(client, where)
        except (ClientError, TimeoutError) as error:
            log.warning("the broker does not say what it knows of producers: %s", error)
            return
        await self._append(rows_of([_told("complete", microseconds(), begin)]))

    async def refresh(self, client: Client, where: str) -> None:
        """Of those of which it knows something else than it said the last time."""
        told: set[int] = set()
        async for page in client.all_producers(where, PAGE_SECONDS):
            marks = {hash((each.id, msgspec.json.encode(recorded_keys(each.metadata)))): each for each in page}
            news = [each for mark, each in marks.items() if mark not in self._told]
            told.update(marks)
            if news:
                await self._append(rows_of(_known(news, microseconds())))
        self._told = told

    async def _flush(self, events: list[dict[str, Any]]) -> None:
        turn, self._turn = self._turn, []
        await self._append(pa.concat_tables([*turn, rows_of(events)]))


def rows_of(events: Iterable[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(events), EVENT_ROWS)


def _told(event: str, at: int, since: int | None = None) -> dict[str, Any]:
    return {"event": event, "topic": "", "payload": b"", "time": at, "recorded": at, "event_time": since}


def _known(producers: Iterable[ProducerInfo], at: int) -> Iterable[dict[str, Any]]:
    anew = {"key": "", "kind": ANEW}
    for each in producers:
        yield {**_told("known", at), "producer": each.id, "changes": [anew, *typed(recorded_keys(each.metadata))]}
