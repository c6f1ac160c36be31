"""Replay: archived messages back into an exchange, their topics, producers and headers, as far apart as they were.

Rows come out of the files in order of time. Each file is in order already (but for clocks that went back), so several
are merged a part at a time: of the parts at hand, everything up to the time at which the first of them ends can go.

What was known of producers at the beginning of a range was said before it, so it is looked up in the archive and told
to the exchange first, without readings.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fumarole.client import Client
from fumarole.client.producer import FORGET
from fumarole.core.publication import FORGOTTEN
from fumarole.core.query.tree import Value
from fumarole.core.topic import matches, parse_pattern, split
from fumarole.pipeline.archive.places import Root, open_root
from fumarole.pipeline.archive.schema import TIME
from fumarole.pipeline.archive.seals import SealedFile, sealed
from fumarole.pipeline.errors import ArchiveError
from fumarole.pipeline.frames import chunks, frames, slices
from fumarole.pipeline.patterns import grammar_of
from fumarole.pipeline.rows import value_of

PART_ROWS = 65_536
DESCRIBE = "$FUM.describe"
DESCRIBED_AT_ONCE = 64
"""A producer may have 8 KiB of metadata, a message 1 MiB."""
STEP = 0.005
"""Messages less than so many seconds apart are sent together."""
ORDER = [("time", "ascending"), ("epoch", "ascending"), ("recorder", "ascending"), ("sequence", "ascending")]


@dataclass(frozen=True, slots=True)
class Range:
    """Which messages."""

    since: datetime | None = None
    until: datetime | None = None
    topic: str = ">"


class _OpenFile:
    """A file that is being read, a part at a time."""

    def __init__(self, root: Root, namespace: str, file: SealedFile) -> None:
        try:
            self._stream = root.system.open_input_file(root.at(namespace, file.path))
        except FileNotFoundError:
            raise ArchiveError(
                f"{file.uri} is gone: it was compacted, and deleted before it could be replayed; "
                "compact with a --grace that is longer than the replay takes, and go on with --since"
            ) from None
        self._parquet = pq.ParquetFile(self._stream)
        self._parts = self._parquet.iter_batches(batch_size=PART_ROWS)
        self.rows: pa.Table | None = None
        self.end = 0
        """The latest time in the part at hand."""
        self.advance()

    def advance(self) -> None:
        part = next(self._parts, None)
        if part is None:
            self.rows = None
            self._stream.close()
        else:
            self.rows = pa.Table.from_batches([part])
            self.end = pc.max(self.rows["time"]).cast(pa.int64()).as_py()


def messages(root: str | os.PathLike[str] | Root, namespace: str, wanted: Range) -> Iterator[pa.Table]:
    """The rows of a range in order of time. Raises ArchiveError, PatternError."""
    place = open_root(root)
    selects = _selector(wanted)
    files = [file for file in sealed(place, namespace, wanted.since, wanted.until) if file.kind == "messages"]
    waiting = sorted(((_begin(place, namespace, file), file.path, file) for file in files), reverse=True)
    opened: list[_OpenFile] = []
    while waiting or opened:
        frontier = min((file.end for file in opened), default=None)
        while waiting and (frontier is None or waiting[-1][0] <= frontier):
            opened.append(_OpenFile(place, namespace, waiting.pop()[2]))
            frontier = min(file.end for file in opened)
        assert frontier is not None
        ready = []
        for file in opened:
            while file.rows is not None and file.end <= frontier:
                ready.append(file.rows)
                file.advance()
            if file.rows is not None:
                early = pc.less_equal(file.rows["time"].cast(pa.int64()), frontier)
                ready.append(file.rows.filter(early))
                file.rows = file.rows.filter(pc.invert(early))
        opened = [file for file in opened if file.rows is not None]
        rows = selects(pa.concat_tables(ready))
        if rows.num_rows:
            yield rows.sort_by(ORDER)


def known_at(root: str | os.PathLike[str] | Root, namespace: str, moment: datetime) -> dict[str, dict[str, Value]]:
    """What the archive's producers had said of themselves until then, deletions done. Raises ArchiveError."""
    place = open_root(root)
    files = [file for file in sealed(place, namespace, None, moment + timedelta.resolution) if file.kind == "changes"]
    tables = [
        pq.read_table(place.at(namespace, file.path), filesystem=place.system, partitioning=None) for file in files
    ]
    if not tables:
        return {}
    changes = pa.concat_tables(tables)
    changes = changes.filter(pc.less_equal(changes["time"], pa.scalar(moment, TIME))).sort_by(ORDER)
    changes = changes.append_column("row", pa.array(np.arange(changes.num_rows)))
    latest = changes.group_by(["producer", "key"]).aggregate([("row", "max")])["row_max"]
    known: dict[str, dict[str, Value]] = {}
    for each in changes.take(latest).to_pylist():
        value = value_of(each)
        if value is not None:
            known.setdefault(each["producer"], {})[each["key"]] = value
    return known


async def describe(client: Client, known: Mapping[str, Mapping[str, Value]]) -> None:
    """Tells an exchange about producers, before their readings. Raises RefusedError."""
    everyone = [{"id": producer, "metadata": metadata} for producer, metadata in known.items()]
    for begin in range(0, len(everyone), DESCRIBED_AT_ONCE):
        some = {"producers": everyone[begin : begin + DESCRIBED_AT_ONCE]}
        await client.ask_broker(DESCRIBE, json.dumps(some))


async def replay(
    client: Client, parts: Iterator[pa.Table], speed: float, on_progress: Callable[[int, int], None]
) -> int:
    """Publishes rows `speed` times as fast as they came; 0: as fast as possible. How many.

    `on_progress` is told the time of the last one that went, and how many have.
    """
    count = 0
    began: float | None = None
    first = 0
    for part in parts:
        times = np.asarray(part["time"].cast(pa.int64()))
        if began is None:
            began, first = time.monotonic(), int(times[0])
        at = 0
        while at < len(times):
            if speed:
                due = began + (int(times[at]) - first) / 1e6 / speed
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                reached = first + (time.monotonic() - began + STEP) * 1e6 * speed
                end = max(at + 1, int(np.searchsorted(times, reached, side="right")))
            else:
                end = len(times)
            for piece in slices(_with_requests(part.slice(at, end - at))):
                await client.publish_frames(chunks(frames(piece, client.max_payload)))
            count += end - at
            at = end
            on_progress(int(times[at - 1]), count)
    return count


def _with_requests(rows: pa.Table) -> pa.Table:
    """That a producer was forgotten is the exchange's to say; it is asked to forget it."""
    forgotten = pc.equal(rows["topic"], FORGOTTEN)
    if not pc.any(forgotten).as_py():
        return rows
    columns = {"topic": pc.if_else(forgotten, FORGET, rows["topic"]), "payload": rows["payload"]}
    for name in ("producer", "headers", "changes"):
        column = rows[name].combine_chunks()
        columns[name] = column.take(pc.if_else(forgotten.combine_chunks(), None, pa.array(np.arange(len(column)))))
    return pa.table(columns)


def _begin(root: Root, namespace: str, file: SealedFile) -> int:
    """The earliest time in a file, from its footer."""
    with root.system.open_input_file(root.at(namespace, file.path)) as stream:
        footer = pq.ParquetFile(stream).metadata
        column = footer.schema.to_arrow_schema().names.index("time")
        groups = [footer.row_group(number).column(column).statistics for number in range(footer.num_row_groups)]
    earliest = min(group.min for group in groups)
    return int(pa.scalar(earliest, TIME).cast(pa.int64()).as_py())


def _selector(wanted: Range) -> Callable[[pa.Table], pa.Table]:
    pattern = parse_pattern(wanted.topic, grammar_of(wanted.topic))

    def select(rows: pa.Table) -> pa.Table:
        if wanted.since is not None:
            rows = rows.filter(pc.greater_equal(rows["time"], pa.scalar(wanted.since, TIME)))
        if wanted.until is not None:
            rows = rows.filter(pc.less(rows["time"], pa.scalar(wanted.until, TIME)))
        if wanted.topic != ">":
            # Many messages, few topics: each is looked at once.
            known = pc.unique(rows["topic"])
            right = [topic for topic in known.to_pylist() if matches(pattern, split(topic))]
            rows = rows.filter(pc.is_in(rows["topic"], pa.array(right, pa.string())))
        return rows

    return select
