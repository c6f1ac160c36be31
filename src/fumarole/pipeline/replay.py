"""Replay: archived messages back into an exchange, their topics, producers and headers, as far apart as they were.

Rows come out in order of time, in whatever order they lie in the files: clocks go back, and a compacted file has one
recorder's hour after the other's. What is read at once is a row group, whose earliest time its file's footer
tells. Those that overlap are at hand together, and everything up to the time at which the first of them ends can go:

    12:00 ├── a ──┤├── b ──┤ 12:10       1. a and c are read; their rows up to the end of a go
          ├──── c ────┤                  2. b is read; the rows of b and c up to the end of c go; and so on

What was known of producers at the first message was said before it, so it is looked up in the archive and told to the
exchange first, without readings. From there on messages bring what is new, but for what a recorder asked for when it
was started again or had lost its connection. That is told at its time, as far as the exchange does not know it by now;
and what the exchange was told before that is not in it is taken back.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fumarole.client import Client
from fumarole.client.errors import NoResponders, RequestTimeoutError
from fumarole.client.producer import FORGET
from fumarole.core.limits import KIB
from fumarole.core.publication import FORGOTTEN
from fumarole.core.query.tree import Value
from fumarole.core.topic import fits, parse_pattern, split
from fumarole.pipeline.archive.places import Root, open_root
from fumarole.pipeline.archive.schema import ANEW, SINCE_VERSION, TIME
from fumarole.pipeline.archive.seals import SealedFile, sealed
from fumarole.pipeline.errors import ArchiveError
from fumarole.pipeline.frames import chunks, frames, slices, unfit
from fumarole.pipeline.patterns import grammar_of
from fumarole.pipeline.rows import held, value_of

DESCRIBE = "$FUM.describe"
MOST_PRODUCERS, MOST_BYTES = 100, 256 * KIB
"""What a broker takes in one request; less where its limit for payloads is lower."""
ANSWER_SECONDS = 10.0
STEP = 0.005
"""Messages less than so many seconds apart are sent together."""
NEVER = (1 << 63) - 1
"""Later than any time."""
ORDER = [("time", "ascending"), ("epoch", "ascending"), ("recorder", "ascending"), ("sequence", "ascending")]


@dataclass(frozen=True, slots=True)
class Range:
    """Which messages."""

    since: datetime | None = None
    until: datetime | None = None
    topic: str = ">"


class Replayed(NamedTuple):
    """What went."""

    messages: int
    left_out: int
    """Headers that they had and that cannot be sent."""


class Snapshot(NamedTuple):
    """All that was known of a producer when a recorder began to listen, or to listen again."""

    time: int
    producer: str
    metadata: dict[str, Value]


class _Group(NamedTuple):
    """A row group that is to be read. They are ordered by time."""

    begin: int
    """The earliest time in it."""
    path: str
    number: int
    file: SealedFile


class _OpenGroup:
    """Rows at hand, in order."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows.sort_by(ORDER)
        self._times = np.asarray(self._rows["time"].cast(pa.int64()))
        self._taken = 0
        self.end = int(self._times[-1])

    @property
    def is_empty(self) -> bool:
        return self._taken == len(self._times)

    def take(self, until: int) -> pa.Table:
        """The next rows, those of this time with them."""
        begin, self._taken = self._taken, int(np.searchsorted(self._times, until, side="right"))
        return self._rows.slice(begin, self._taken - begin)


def messages(root: str | os.PathLike[str] | Root, namespace: str, wanted: Range) -> Iterator[pa.Table]:
    """The rows of a range in order of time. Raises ArchiveError, PatternError."""
    place = open_root(root)
    files = [file for file in sealed(place, namespace, wanted.since, wanted.until) if file.kind == "messages"]
    return _in_order(place, namespace, files, _selector(wanted))


def _in_order(
    place: Root, namespace: str, files: Iterable[SealedFile], selects: Callable[[pa.Table], pa.Table]
) -> Iterator[pa.Table]:
    """The rows of files that are selected, in order of time. Those of one time are not cut apart."""
    waiting = sorted((group for file in files for group in _groups(place, namespace, file)), reverse=True)
    opened: list[_OpenGroup] = []
    while waiting or opened:
        frontier = min((group.end for group in opened), default=None)
        while waiting and (frontier is None or waiting[-1].begin <= frontier):
            opened.append(_OpenGroup(_read(place, namespace, waiting.pop())))
            frontier = min(group.end for group in opened)
        assert frontier is not None
        ready = [part for group in opened if (part := group.take(frontier)).num_rows]
        opened = [group for group in opened if not group.is_empty]
        rows = selects(pa.concat_tables(ready))
        if rows.num_rows:
            yield rows if len(ready) == 1 else rows.sort_by(ORDER)


def known_at(root: str | os.PathLike[str] | Root, namespace: str, moment: datetime) -> dict[str, dict[str, Value]]:
    """What the archive's producers had said of themselves until then, deletions done. Raises ArchiveError."""
    place = open_root(root)
    files = [file for file in sealed(place, namespace, None, moment + timedelta.resolution) if file.kind == "changes"]
    tables = []
    for file in files:
        with _opened(place, namespace, file) as source:
            tables.append(source.read())
    if not tables:
        return {}
    changes = pa.concat_tables(tables)
    changes = changes.filter(pc.less_equal(changes["time"], pa.scalar(moment, TIME))).sort_by(ORDER)
    changes = changes.append_column("row", pa.array(np.arange(changes.num_rows)))
    is_anew = pc.equal(changes["kind"], ANEW)
    anew = changes.filter(is_anew).group_by("producer").aggregate([("row", "max")])
    begins = dict(zip(anew["producer"].to_pylist(), anew["row_max"].to_pylist(), strict=True))
    said = changes.filter(pc.invert(is_anew))
    latest = said.group_by(["producer", "key"]).aggregate([("row", "max")])["row_max"]
    known: dict[str, dict[str, Value]] = {}
    for each in changes.take(latest).to_pylist():
        value = value_of(each)
        if value is not None and each["row"] > begins.get(each["producer"], -1):
            known.setdefault(each["producer"], {})[each["key"]] = value
    return known


def snapshots(
    root: str | os.PathLike[str] | Root, namespace: str, after: datetime, until: datetime | None = None
) -> Iterator[Snapshot]:
    """What recorders asked for after a time, in order. No message tells it. Raises ArchiveError."""
    place = open_root(root)
    files = [file for file in sealed(place, namespace, None, until) if file.kind == "changes"]

    def select(rows: pa.Table) -> pa.Table:
        anew = pc.and_(pc.equal(rows["kind"], ANEW), pc.greater(rows["time"], pa.scalar(after, TIME)))
        return rows.filter(pc.is_in(rows["time"], rows["time"].filter(anew)))

    for rows in _in_order(place, namespace, files, select):
        said: dict[tuple[int, str], list[dict[str, Any]]] = {}
        times = rows["time"].cast(pa.int64()).to_pylist()
        for moment, each in zip(times, rows.drop_columns("time").to_pylist(), strict=True):
            said.setdefault((moment, each["producer"]), []).append(each)
        for (moment, producer), changes in said.items():
            if any(each["kind"] == ANEW for each in changes):
                yield Snapshot(moment, producer, held(changes))


class Telling:
    """What an exchange is told of producers, beside what messages tell it."""

    def __init__(self, client: Client, upcoming: Iterator[Snapshot]) -> None:
        self._client = client
        self._upcoming = upcoming
        self._next = next(upcoming, None)
        self._told: dict[str, dict[str, Value]] = {}

    @property
    def due(self) -> int:
        """When there is something to be told."""
        return NEVER if self._next is None else self._next.time

    async def begin(self, known: dict[str, dict[str, Value]]) -> None:
        """Tells what is known at the beginning. Raises RefusedError."""
        self._told = known
        await describe(self._client, known)

    async def go_on(self, until: int) -> None:
        """Tells what is new by the snapshots up to this time. Raises RefusedError."""
        news: dict[str, dict[str, Value | None]] = {}
        while (snapshot := self._next) is not None and snapshot.time <= until:
            new = _new(self._told.get(snapshot.producer, {}), snapshot.metadata)
            if new:
                news.setdefault(snapshot.producer, {}).update(new)
            self._told[snapshot.producer] = snapshot.metadata
            self._next = next(self._upcoming, None)
        await describe(self._client, news)

    def hear(self, rows: pa.Table) -> None:
        """What these messages tell. After the last snapshot it is not needed."""
        if self._next is None:
            return
        bring = rows.select(["producer", "changes"]).filter(rows["changes"].is_valid())
        for each in bring.to_pylist():
            told = self._told.setdefault(each["producer"], {})
            for change in each["changes"]:
                value = value_of(change)
                if value is None:
                    told.pop(change["key"], None)
                else:
                    told[change["key"]] = value


def _new(before: Mapping[str, Value], after: Mapping[str, Value]) -> dict[str, Value | None]:
    """What has to be said where one was told, so that the other holds."""
    gone = dict.fromkeys(before.keys() - after.keys())
    return gone | {key: value for key, value in after.items() if not _is_same(before.get(key), value)}


def _is_same(one: Value | None, other: Value) -> bool:
    """To Python `True` is 1; to a query it is not (M10)."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


async def describe(client: Client, news: Mapping[str, Mapping[str, Value | None]]) -> None:
    """Tells an exchange about producers, before their readings. Raises RefusedError."""
    for request in _requests(news, min(MOST_BYTES, client.max_payload)):
        await _ask(client, request)


def _requests(news: Mapping[str, Mapping[str, Value | None]], most_bytes: int) -> Iterator[bytes]:
    """As many producers in each as it may have; one that is too large is in one by itself."""
    some: list[str] = []
    size = 0
    for producer, metadata in news.items():
        each = json.dumps({"id": producer, "metadata": metadata})
        if some and (len(some) == MOST_PRODUCERS or size + len(", ") + len(each) > most_bytes):
            yield _request(some)
            some, size = [], 0
        size += len(", ") + len(each) if some else len(_request([each]))
        some.append(each)
    if some:
        yield _request(some)


def _request(some: list[str]) -> bytes:
    return f'{{"producers": [{", ".join(some)}]}}'.encode()


async def _ask(client: Client, request: bytes) -> None:
    """To be told twice is no harm: what a lost connection has taken is said again on the next."""
    while True:
        losses = client.losses
        try:
            await client.ask_broker(DESCRIBE, request, timeout=ANSWER_SECONDS)
            return
        except NoResponders:
            return  # another kind of server knows no producers
        except RequestTimeoutError:
            if client.connected and losses == client.losses:
                raise


async def replay(
    client: Client,
    root: str | os.PathLike[str] | Root,
    namespace: str,
    wanted: Range,
    speed: float,
    on_progress: Callable[[int, int], None],
) -> Replayed:
    """Publishes the messages of a range `speed` times as fast as they came; 0: as fast as possible.

    `on_progress` is told the time of the last one that went, and how many have. Raises ArchiveError, PatternError,
    TopicError, RowError, PayloadTooLargeError, RefusedError.
    """
    parts = messages(root, namespace, wanted)
    head = next(parts, None)
    if head is None:
        return Replayed(0, 0)
    moment = head["time"][0].as_py()
    telling = Telling(client, snapshots(root, namespace, moment, wanted.until))
    await telling.begin(known_at(root, namespace, moment))
    count = left_out = 0
    began, first = time.monotonic(), int(head["time"][0].cast(pa.int64()).as_py())
    for part in chain([head], parts):
        times = np.asarray(part["time"].cast(pa.int64()))
        at = 0
        while at < len(times):
            if speed:
                due = began + (int(times[at]) - first) / 1e6 / speed
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                reached = first + (time.monotonic() - began + STEP) * 1e6 * speed
                end = max(at + 1, int(np.searchsorted(times, reached, side="right")))
            else:
                end = len(times)
            await telling.go_on(int(times[at]))
            end = min(end, int(np.searchsorted(times, telling.due)))
            rows = part.slice(at, end - at)
            telling.hear(rows)
            for piece in slices(_with_requests(rows)):
                await client.publish_frames(chunks(frames(piece, client.max_payload)))
                left_out += unfit(piece)
            count += end - at
            at = end
            on_progress(int(times[at - 1]), count)
    return Replayed(count, left_out)


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


@contextmanager
def _opened(root: Root, namespace: str, file: SealedFile) -> Iterator[pq.ParquetFile]:
    """A file of the archive. What keeps it from being read, here or there, is an ArchiveError."""
    try:
        path = root.at(namespace, file.path)
        with pq.ParquetFile(path, filesystem=root.system, page_checksum_verification=True) as source:
            yield source
    except FileNotFoundError:
        raise ArchiveError(
            f"{file.uri} is gone: it was compacted, and deleted before it could be replayed, or deleted by hand; "
            "compact with a --grace that is longer than a replay takes, and go on with --since, or have "
            "`fumarole pipeline verify --set-aside` take what is missing out of the archive"
        ) from None
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise ArchiveError(
            f"{file.uri} cannot be read ({reason}); "
            "`fumarole pipeline verify --set-aside` takes what is damaged out of the archive"
        ) from None


def _groups(root: Root, namespace: str, file: SealedFile) -> Iterator[_Group]:
    """The row groups of a file, from its footer."""
    with _opened(root, namespace, file) as source:
        column = source.schema_arrow.names.index("time")
        for number in range(source.num_row_groups):
            earliest = source.metadata.row_group(number).column(column).statistics.min
            yield _Group(pa.scalar(earliest, TIME).cast(pa.int64()).as_py(), file.path, number, file)


def _read(root: Root, namespace: str, group: _Group) -> pa.Table:
    with _opened(root, namespace, group.file) as source:
        rows = source.read_row_group(group.number)
    if group.file.kind == "changes":
        return rows
    rows = rows.select([name for name in rows.column_names if name not in SINCE_VERSION])  # files of all versions alike
    # Arrow counts the bytes of a column in 32 bits. Payloads may have more, where all rows are brought in order.
    at = rows.schema.get_field_index("payload")
    return rows.set_column(at, "payload", rows["payload"].cast(pa.large_binary()))


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
            right = [topic for topic in known.to_pylist() if fits(pattern, split(topic))]
            rows = rows.filter(pc.is_in(rows["topic"], pa.array(right, pa.string())))
        return rows

    return select
