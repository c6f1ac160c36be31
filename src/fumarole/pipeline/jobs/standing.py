"""The standing job: from the archive to readings with their metadata, rollups and gaps, exactly once (P5).

Each batch takes in the files that were sealed since the last, writes folders of its own, and then one entry into the
log (`jobs.log`). Kill it at any moment: what is not in the log is done again, under other names.

Messages may come late, in any order: rollups are kept as parts that add up, and gaps as islands, so a late message is
added like any other, and counted. Changes of metadata may be sealed after the readings for which they held: then the
readings that lie after them are described anew, from the job's own output, in the same batch.
"""

from __future__ import annotations

import math
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from fumarole.pipeline.archive.places import Root, open_root
from fumarole.pipeline.archive.schema import IDENTITY
from fumarole.pipeline.archive.seals import SealedFile, check_namespace
from fumarole.pipeline.columns.time import utc_date, utc_hour, window_start
from fumarole.pipeline.columns.where import METADATA
from fumarole.pipeline.declared import payloads as declarations
from fumarole.pipeline.jobs.compacting import CompactingError
from fumarole.pipeline.jobs.expiring import RAW, expire
from fumarole.pipeline.jobs.failures import FAILURES
from fumarole.pipeline.jobs.intake import Arrivals, Intake
from fumarole.pipeline.jobs.log import LOG, Aside, Entry, Folder, Job, JobError, Log
from fumarole.pipeline.jobs.open_tables import TEXT, OpenTables, metadata_text
from fumarole.pipeline.jobs.output import (
    ISLANDS,
    ISLANDS_SCHEMA,
    PARTS_SCHEMA,
    READINGS,
    folders,
    readings_schema,
    rollup_table,
)
from fumarole.pipeline.jobs.own_tables import OwnTable
from fumarole.pipeline.jobs.table_files import expire_tables
from fumarole.pipeline.locks import take
from fumarole.pipeline.reading import Given, by_event_time, changes_of, messages_of, spark_path
from fumarole.pipeline.times import duration, microseconds, shown
from fumarole.pipeline.transforms import rollup
from fumarole.pipeline.transforms.enrich import enrich
from fumarole.pipeline.transforms.gaps import islands

WINDOWS: Final = ("1 minute", "1 hour")
LATENESS: Final = "10 minutes"
GRAIN: Final = timedelta(seconds=1)
MOST_ROWS: Final = 5_000_000
EXPIRE_SECONDS: Final = 3600.0
MOST_FOLDERS: Final = 48
"""Of one table; then the small ones are made into one."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What a person wants to know of a batch."""

    number: int
    rows: int
    seconds: float
    lag: float | None
    """Seconds from the newest message until it was in the output; None: the batch had no messages."""
    watermark: datetime | None
    """None: there has been no message yet."""
    late: int
    again: int
    """Readings that were described anew."""
    aside: tuple[str, ...]
    """Files of the archive that could not be read, each with the reason."""
    left: int
    """Files that are there and not taken in."""
    unfit: int = 0
    """Messages whose payload is not as declared (P6). They are in the output like all others."""

    @property
    def rate(self) -> float:
        return self.rows / self.seconds


class StandingJob:
    """A job on one archive and one output. `catch_up` does what there is to do."""

    def __init__(
        self,
        spark: SparkSession,
        archive: str | os.PathLike[str] | Root,
        out: str | os.PathLike[str] | Root,
        namespace: str = "default",
        windows: Sequence[str] = WINDOWS,
        lateness: str = LATENESS,
        most_rows: int = MOST_ROWS,
        payloads: Given = None,
        open_tables: bool = True,
        own: Sequence[OwnTable] = (),
    ) -> None:
        """`own` are tables of the user's. Without `open_tables` there are no Delta tables.

        Raises ArchiveError, and JobError where the output is not of this job or cannot be gone on with."""
        root = open_root(archive)
        check_namespace(root, namespace)
        lengths = sorted({duration(window) for window in windows})
        self._spark = spark
        self._most_rows = most_rows
        self._lengths = lengths
        self._lateness = duration(lateness)
        self._payloads = declarations(payloads)
        self._readings = readings_schema(self._payloads.types)
        self._schemas = {
            READINGS: self._readings,
            ISLANDS: ISLANDS_SCHEMA,
            **{rollup_table(shown(length)): PARTS_SCHEMA for length in lengths},
        }
        self.log = Log(out)
        job = Job(
            archive=root.name,
            namespace=namespace,
            windows=tuple(map(shown, lengths)),
            lateness=self._lateness.total_seconds(),
            grain=GRAIN.total_seconds(),
            payloads=self._payloads.digest,
            fields=self._payloads.types,
        )
        self._begin(job)
        self._open_tables = OpenTables(spark, self.log, job, own) if open_tables else None
        self._arrivals = Arrivals(root, namespace)
        self._root, self._namespace = root, namespace
        self.away: list[Aside] = []
        """Files that the file system did not give when the job last looked."""

    def _begin(self, job: Job) -> None:
        known = self.log.job()
        self.state = self.log.state()
        self.log.check_lost(self.state, known)
        if known is None:
            if self.state.number:
                raise JobError(f"{self.log.root.uri(LOG)} has batches but not what the job is (job.json); put it back")
            self.log.begin(job)
        elif known != job:
            differ = [name for name in job.__struct_fields__ if getattr(job, name) != getattr(known, name)]
            was, asked = getattr(known, differ[0]), getattr(job, differ[0])
            raise JobError(
                f"{self.log.root.name} is the output of a job with {differ[0]} {was!r}, not {asked!r}; "
                "give the same, or another --out"
            )
        self.log.sweep(self.state, datetime.now(UTC))

    def catch_up(self) -> Iterator[BatchReport]:
        """Batch after batch until everything sealed is in the output, but for what is `away`."""
        self._take_in()  # what a driver that died did not come to
        while True:
            begin = time.monotonic()
            aside = {each.name for each in self.state.aside}
            intake = self._arrivals.next(self.state.taken, aside, self._most_rows)
            self.away = intake.away
            if not intake:
                if self._open_tables is not None:
                    self._open_tables.settle(self.state)
                return
            intake, entry, again = self._fit_batch(intake)
            self._record(entry)
            self._take_in()
            yield self._progress(entry, again, intake, time.monotonic() - begin)
            self._tidy()

    def expire(self, keep: Mapping[str, timedelta | None], now: datetime) -> None:
        """Deletes what is older than its tier is kept, from the tables and, where it was taken in, from the archive.

        While a compaction runs the archive waits for the next time.
        """
        expire_tables(self.log, self.state, keep, now)
        raw = keep.get(RAW)
        if raw is not None:
            with suppress(CompactingError):
                expire(self._root, raw, self._namespace, self.state.taken, now)

    def _take_in(self) -> None:
        if self._open_tables is not None:
            self._open_tables.take_in(self.state)

    def _fit_batch(self, intake: Intake) -> tuple[Intake, Entry, int]:
        """A batch of what can be read. To set a file aside may bring back others, which cannot be read either."""
        while True:
            try:
                return intake, *self._batch(intake)
            except FAILURES:
                unfit = self._unreadable(intake)
                if not unfit:
                    raise
                intake = intake.without(unfit)

    def _unreadable(self, intake: Intake) -> list[Aside]:
        """The files because of which a batch may have failed."""
        files = [*intake.files, *intake.mixed, *self._changes(intake)]
        return self._arrivals.unreadable({file.name: file for file in files}.values())

    def _changes(self, intake: Intake) -> list[SealedFile]:
        """All changes of metadata up to this batch."""
        known = {*self.state.taken, *intake.names}
        unfit = {each.name for each in (*self.state.aside, *intake.aside, *intake.away)}
        return self._arrivals.changes(known, unfit)

    def _tidy(self) -> None:
        """Many small folders of a table become one, in a batch of its own that takes nothing in."""
        for table, schema in self._schemas.items():
            found = self.state.of(table)
            small = [each for each in found if each.rows < self._most_rows]
            if len(small) < MOST_FOLDERS:
                small = [each for each in found if each.is_old]
            if not small:
                continue
            name = self._name()
            rows = folders(self._spark, self.log, self.state, table, schema, [each.path for each in small])
            if table == READINGS:
                folder, _, _ = self._write_readings(rows, name)
            elif table == ISLANDS:
                folder = self._write(rows.coalesce(1), table, name)
            else:
                folder = self._write_parts(rollup.merged(rows), table, name)
            replaced = tuple(each.path for each in small)
            entry = Entry(number=self.state.number + 1, seals=(), folders=(folder,), replaces=replaced)
            self._record(entry)
            self._take_in()
            self.log.sweep(self.state, datetime.now(UTC))

    def _record(self, entry: Entry) -> None:
        """From here on the batch is done."""
        self.log.sync(each.path for each in entry.folders)
        self.log.commit(entry)
        self.state.add(entry)
        self.log.sum_up(self.state, datetime.now(UTC))

    def _name(self) -> str:
        """A folder of the next batch, never the same twice."""
        return f"batch-{self.state.number + 1:012d}-{uuid.uuid4().hex[:12]}"

    def _progress(self, entry: Entry, again: int, intake: Intake, seconds: float) -> BatchReport:
        newest = datetime.fromtimestamp(self.state.newest / 1e6, UTC) if self.state.messages else None
        return BatchReport(
            number=entry.number,
            rows=entry.messages,
            seconds=seconds,
            lag=(datetime.now(UTC) - newest).total_seconds() if newest and entry.messages else None,
            watermark=newest and newest - self._lateness,
            late=entry.late,
            again=again,
            unfit=entry.unfit,
            aside=tuple(map(_shown, entry.aside)),
            left=intake.left + len(intake.away),
        )

    def _batch(self, intake: Intake) -> tuple[Entry, int]:
        number = self.state.number + 1
        name = self._name()
        made: list[Folder] = []
        late = unfit = 0
        described_by = changes_of(self._spark, self._changes(intake))
        stale = self._stale(intake)
        if any(file.kind == "messages" for file in (*intake.files, *intake.mixed)):
            messages = self._messages(intake)
            readings, late, unfit = self._write_readings(enrich(messages, described_by), name)
            if not intake.mixed:
                _check_rows(readings, sum(file.rows for file in intake.files if file.kind == "messages"))
            made.append(readings)
            made += self._write_rollups(messages, name)
            made.append(self._write(islands(messages, GRAIN), ISLANDS, name))
        again = 0
        if stale:
            before = folders(self._spark, self.log, self.state, READINGS, self._readings, [each.path for each in stale])
            renewed, _, _ = self._write_readings(enrich(before.drop(METADATA), described_by), f"{name}-again")
            _check_rows(renewed, sum(each.rows for each in stale))
            made.append(renewed)
            again = renewed.rows
        fresh = [each for each in made if each.table == READINGS and not each.name.endswith("-again")]
        entry = Entry(
            number=number,
            seals=tuple(intake.names),
            folders=tuple(each for each in made if each.rows),
            replaces=tuple(each.path for each in stale),
            aside=tuple(intake.aside),
            messages=sum(each.rows for each in fresh),
            late=late,
            unfit=unfit,
            newest=max([self.state.newest, *(each.last for each in fresh)]),
        )
        return entry, again

    def _messages(self, intake: Intake) -> DataFrame:
        messages = messages_of(self._spark, intake.files)
        if intake.mixed:
            known = folders(self._spark, self.log, self.state, READINGS, self._readings).select(*IDENTITY)
            new = messages_of(self._spark, intake.mixed).join(known, list(IDENTITY), "left_anti")
            messages = messages.unionByName(new)
        return by_event_time(messages, [*intake.files, *intake.mixed], self._payloads)

    def _stale(self, intake: Intake) -> list[Folder]:
        """Folders of readings that lie after a change that is new."""
        arrived = [file for file in (*intake.files, *intake.mixed) if file.kind == "changes"]
        if not arrived or not self.state.of(READINGS):
            return []
        row = changes_of(self._spark, arrived).agg(sf.min(sf.unix_micros("time")).alias("first")).first()
        assert row is not None
        first = row["first"]
        return [] if first is None else [each for each in self.state.of(READINGS) if each.last >= first]

    def _write_readings(self, described: DataFrame, name: str) -> tuple[Folder, int, int]:
        """The folder, how many messages in it were late, and how many payloads did not fit."""
        watermark = self.state.newest - microseconds(self._lateness)
        at = sf.unix_micros("time")
        seen = Observation()
        laid_out = described.observe(
            seen,
            sf.count(sf.lit(1)).alias("rows"),
            sf.coalesce(sf.min(at), sf.lit(0)).alias("first"),
            sf.coalesce(sf.max(at), sf.lit(0)).alias("last"),
            sf.count_if(at < sf.lit(watermark)).alias("late"),
            (sf.count_if(~sf.col("fits")) if self._payloads.declared else sf.lit(0)).alias("unfit"),
        ).withColumns({TEXT: metadata_text(), "date": utc_date(sf.col("time")), "hour": utc_hour(sf.col("time"))})
        laid_out.write.partitionBy("date", "hour").parquet(spark_path(self.log.root.uri(READINGS, name)))
        counted = seen.get
        folder = Folder(table=READINGS, name=name, rows=counted["rows"], first=counted["first"], last=counted["last"])
        return folder, counted["late"], counted["unfit"]

    def _write_rollups(self, messages: DataFrame, name: str) -> Iterator[Folder]:
        shortest = self._lengths[0]
        first: Folder | None = None
        for length in self._lengths:
            table = rollup_table(shown(length))
            if first is None or length % shortest:
                shares = rollup.parts(messages, length)
            else:  # the parts of short windows are enough to make those of long ones
                short = folders(self._spark, self.log, self.state, first.table, PARTS_SCHEMA, [first.path])
                shares = rollup.merged(short.withColumn("start", window_start(sf.col("start"), length)))
            folder = self._write_parts(shares, table, name)
            first = first or folder
            yield folder

    def _write_parts(self, shares: DataFrame, table: str, name: str) -> Folder:
        day = shares.select(*PARTS_SCHEMA.fieldNames()).withColumn("date", utc_date(sf.col("start")))
        return self._write(day, table, name, "date")

    def _write(self, frame: DataFrame, table: str, name: str, *layout: str) -> Folder:
        seen = Observation()
        counted = frame.observe(seen, sf.count(sf.lit(1)).alias("rows"))
        counted.write.partitionBy(*layout).parquet(spark_path(self.log.root.uri(table, name)))
        return Folder(table=table, name=name, rows=seen.get["rows"])


def _shown(file: Aside) -> str:
    return f"{file.name}: {file.reason}"


def _check_rows(written: Folder, expected: int) -> None:
    """The last line of defence: whatever Spark made of it, not a row more or less than there is goes into the log."""
    if written.rows != expected:
        raise JobError(
            f"{written.path} has {written.rows:,} messages, and should have {expected:,}; nothing of this batch counts"
        )


@contextmanager
def alone(out: str | os.PathLike[str] | Root) -> Iterator[None]:
    """Only one job may write to an output. Raises JobError where there is one. On object stores this is not checked."""
    root = open_root(out)
    if not root.is_local:
        yield
        return
    lock = take(Path(root.at(LOG, "lock")))
    if lock is None:
        raise JobError(f"a job is writing to {root.name} already; only one can run at a time")
    with lock:
        yield


def run(
    job: StandingJob,
    tell: Callable[[BatchReport], None],
    warn: Callable[[str], None],
    once: bool = False,
    interval: float = 5.0,
    stopping: Callable[[float], bool] = lambda _: False,
    keep: Mapping[str, timedelta | None] | None = None,
) -> None:
    """Batches, each told of, until `stopping` says so; it is asked after each, and given the seconds to wait.

    Files that the file system does not give are warned of when that begins. With `keep`, what is older is deleted, when
    the job begins and every hour. Raises JobError where `once` has to end without files.
    """
    warned: set[str] = set()
    expired = -math.inf
    while True:
        for progress in job.catch_up():
            tell(progress)
            if stopping(0):
                return
        if keep is not None and time.monotonic() - expired >= EXPIRE_SECONDS:
            job.expire(keep, datetime.now(UTC))
            expired = time.monotonic()
        for each in job.away:
            if each.name not in warned:
                warn(_shown(each))
        warned = {each.name for each in job.away}
        if once and job.away:
            raise JobError(
                f"files that cannot be had at the moment: {len(job.away):,}; all others are in the output. "
                "Start the job again to take them in"
            )
        if once or stopping(interval):
            return
