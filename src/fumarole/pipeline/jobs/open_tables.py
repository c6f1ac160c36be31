"""The standing job's results as Delta tables, which other programs read without this package (P10).

    OUT/readings      the files that the job wrote, under Delta's log: nothing is copied
    OUT/rollup_1m     one row for each window, topic and producer, with finished figures; by date and hour
    OUT/rollup_1h     the same for long windows; by date
    OUT/gaps          silences as they are known now

The job's own log is the plan: batch N counts from the moment in which its entry is there (`jobs.log`). Each table then
takes in batch N by one commit with `Transaction(job, N)`. What is written for it follows from the log alone, so after a
crash it is made again; a table that has N is passed over. Readers may see tables one batch apart.

A window that gets late messages is made anew, from all its parts: the files of its hour, or its day, are replaced.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession, types
from pyspark.sql import functions as sf

from fumarole.pipeline.columns.time import utc_date, utc_hour
from fumarole.pipeline.delta import Published
from fumarole.pipeline.jobs.log import Entry, Job, JobError, Log, State
from fumarole.pipeline.jobs.output import PARTS_SCHEMA, READINGS, folders, output, readings_schema, rollup_table
from fumarole.pipeline.jobs.own_tables import TIMES, OwnTable
from fumarole.pipeline.reading import read_files, spark_path
from fumarole.pipeline.tables import VALUE_TEXT
from fumarole.pipeline.times import duration
from fumarole.pipeline.transforms import rollup

JOB: Final = "fumarole pipeline run"
"""By which a table knows whose batches it has."""
GAPS: Final = "gaps"
TEXT: Final = "metadata_text"
"""Metadata with texts for values: a map that every program can read."""
VACUUM_EVERY: Final = timedelta(hours=1)
_HOUR: Final = timedelta(hours=1)
Hours = set[tuple[str, ...]]
"""Parts of a table that are replaced together: dates, or dates and hours."""


def metadata_text() -> Column:
    """Of the column `metadata`."""
    return sf.expr(VALUE_TEXT)


@dataclass(frozen=True, slots=True)
class Behind:
    """What a table has not taken in yet."""

    number: int
    """The last batch."""
    entries: tuple[Entry, ...] | None
    """None: all that there is; some entries are there no longer, or the table is new."""

    @property
    def same_rows(self) -> bool:
        """Do the batches only arrange rows in another way?"""
        return self.no_new_rows and not any(each.drops for each in self.entries or ())

    @property
    def no_new_rows(self) -> bool:
        """Did the batches take nothing in?"""
        return self.entries is not None and not any(each.seals for each in self.entries)

    def new_folders(self, table: str) -> list[str]:
        """Those of its batches, in force or not."""
        return [each.path for entry in self.entries or () for each in entry.folders if each.table == table]

    def replaced(self, table: str) -> set[str]:
        """What was in force before its batches, and is no longer."""
        out = {path for entry in self.entries or () for path in entry.replaces if path.startswith(f"{table}/")}
        return out - set(self.new_folders(table))

    def folders(self, table: str, state: State) -> list[str]:
        """What is new and in force."""
        in_force = [each.path for each in state.of(table)]
        if self.entries is None:
            return in_force
        new = set(self.new_folders(table))
        return [path for path in in_force if path in new]


class OpenTables:
    """The Delta tables of one standing job."""

    def __init__(self, spark: SparkSession, log: Log, job: Job, own: Sequence[OwnTable] = ()) -> None:
        self._spark = spark
        self._log = log
        self._own = tuple(own)
        self._made: dict[str, Published] = {}
        """The tables of `own`, once they are known: their columns are those of what the functions make."""
        self._schema = readings_schema(job.fields)
        self._windows = job.windows
        self._vacuumed = datetime.now(UTC)
        readings = types.StructType([*self._schema.fields, types.StructField(TEXT, _TEXTS)])
        self._readings = Published(
            log.root,
            READINGS,
            _schema(readings, by_hour=True),
            ("date", "hour"),
            "Messages with the metadata that held at their time.",
        )
        finished = _finished_schema()
        self._rollups = {
            each: Published(
                log.root,
                f"rollup_{each}",
                _schema(finished, by_hour=_is_short(each)),
                ("date", "hour") if _is_short(each) else ("date",),
                f"Values summed up by windows of {each}.",
            )
            for each in job.windows
        }
        self._gaps = Published(log.root, GAPS, _GAPS_SCHEMA.json(), (), "When producers were silent for long.")

    def take_in(self, state: State) -> None:
        """Readings and rollups have what the log has."""
        self._take_in_readings(state)
        for window in self._windows:
            self._take_in_rollup(window, state)
        for own in self._own:
            self._take_in_own(own, state)

    def settle(self, state: State) -> None:
        """What is made of everything, when there is nothing new for the moment: gaps. Old files are deleted."""
        behind = self._behind(self._gaps, state)
        if behind is not None:
            same = behind.same_rows
            add = [] if same else self._written(output(self._spark, self._log.root, "gaps").coalesce(1), GAPS, ())
            self._gaps.commit(JOB, behind.number, add, () if same else self._gaps.files())
        now = datetime.now(UTC)
        if now - self._vacuumed > VACUUM_EVERY:
            self._vacuumed = now
            for table in (*self._rollups.values(), self._gaps, *self._made.values()):
                table.vacuum()

    def _behind(self, table: Published, state: State) -> Behind | None:
        """None: it has everything."""
        done = table.version_of(JOB)
        if done == state.number or not state.number:
            return None
        return Behind(state.number, None if done is None else self._log.entries(done + 1, state.number))

    def _take_in_readings(self, state: State) -> None:
        table = self._readings
        behind = self._behind(table, state)
        if behind is None:
            return
        new = behind.folders(READINGS, state)
        add = {file for path in new for file in self._files(READINGS, path)}
        if behind.entries is None:
            have = table.files()
            add, remove = add - have, have - add
        else:
            gone = {path.removeprefix(f"{READINGS}/") for path in behind.replaced(READINGS)}
            remove = {file for file in table.files() if file.partition("/")[0] in gone} if gone else set()
        table.commit(JOB, behind.number, sorted(add), sorted(remove), same_rows=behind.same_rows)

    def _take_in_rollup(self, window: str, state: State) -> None:
        table, parts = self._rollups[window], rollup_table(window)
        behind = self._behind(table, state)
        if behind is None:
            return
        if behind.no_new_rows:
            table.commit(JOB, behind.number, ())
            return
        short = _is_short(window)
        paths = [each.path for each in state.of(parts)]
        if behind.entries is None:
            touched = None
            shares = read_files(self._spark, [self._log.root.uri(path) for path in paths], PARTS_SCHEMA, **_ALL)
            remove = table.files()
        else:
            touched = self._touched(behind.new_folders(parts), short)
            shares = self._shares(paths, touched)
            remove = {file for file in table.files() if _hours([file], short) & touched}
        made = rollup.finished(rollup.merged(shares))
        layout = {"date": utc_date(sf.col("start"))} | ({"hour": utc_hour(sf.col("start"))} if short else {})
        rows = made.withColumns(layout).repartition(*layout)
        add = self._written(rows, f"rollup_{window}", tuple(layout)) if touched != set() else []
        table.commit(JOB, behind.number, add, sorted(remove))

    def _take_in_own(self, own: OwnTable, state: State) -> None:
        """New rows, and of the dates that they are in those old ones that have another key."""
        log = self._log
        made = own(folders(self._spark, log, state, READINGS, self._schema, []))  # for its columns
        time = next((name for name in TIMES if name in made.columns), None)
        layout = () if time is None else ("date",)
        fields = [field for field in made.schema.fields if field.name not in layout]
        if missing := [name for name in own.key if name not in made.columns]:
            raise JobError(f"the table {own.name} has no column {missing[0]!r}, by which its rows are to be told apart")
        table = Published(log.root, own.name, _schema(types.StructType(fields), time is not None, False), layout)
        self._made[own.name] = table
        if (known := table.columns()) and known != (asked := [*(field.name for field in fields), *layout]):
            raise JobError(f"the table {own.name} has the columns {', '.join(known)}, not {', '.join(asked)}")
        behind = self._behind(table, state)
        if behind is None:
            return
        new = [] if behind.no_new_rows else behind.folders(READINGS, state)
        if not new:
            table.commit(JOB, behind.number, ())
            return
        rows = own(folders(self._spark, log, state, READINGS, self._schema, new)).dropDuplicates(list(own.key))
        rows = rows if time is None else rows.withColumn("date", utc_date(sf.col(time)))
        add = self._written(rows, own.name, layout)
        touched = {file.partition("/")[2].rpartition("/")[0] for file in add}
        old = {file for file in table.files() if file.partition("/")[2].rpartition("/")[0] in touched}
        if old and behind.entries is not None:
            schema = types.StructType(fields)
            before = read_files(self._spark, [log.root.uri(own.name, file) for file in sorted(old)], schema, **_ALL)
            fresh = read_files(self._spark, [log.root.uri(own.name, file) for file in add], schema, **_ALL)
            kept = before.join(fresh.select(*own.key), list(own.key), "left_anti")
            kept = kept if time is None else kept.withColumn("date", utc_date(sf.col(time)))
            add += self._written(kept.select(*[field.name for field in fields], *layout), own.name, layout)
        elif behind.entries is None:
            old = table.files()
        table.commit(JOB, behind.number, add, sorted(old))

    def _shares(self, paths: Iterable[str], touched: Hours) -> DataFrame:
        """The parts of windows in these hours: only the folders of their dates are looked into."""
        dates = sorted({each[0] for each in touched})
        places = [f"{path}/date={day}" for path in paths for day in dates]
        uris = [self._log.root.uri(place) for place in places if self._log.root.exists(place)]
        shares = read_files(self._spark, uris, PARTS_SCHEMA, **_ALL)
        begins = [_begin(each) for each in touched]
        if not begins or len(next(iter(touched))) == 1:
            return shares
        # Between the first and the last, by Parquet's own statistics; and of these the hours themselves.
        near = shares.where(sf.col("start").between(sf.lit(min(begins)), sf.lit(max(begins) + _HOUR)))
        hour = sf.concat_ws(" ", utc_date(sf.col("start")), utc_hour(sf.col("start")))
        return near.where(hour.isin(*[" ".join(each) for each in touched]))

    def _touched(self, paths: Iterable[str], short: bool) -> Hours:
        """The dates, or hours, of the windows in these folders."""
        files = [(path, file) for path in paths for file, _ in self._log.root.files(path, recursive=True)]
        if not short:
            return _hours([file for _, file in files if _is_data(file)], short)
        found: Hours = set()
        for _, file in files:
            if _is_data(file):
                with self._log.root.system.open_input_file(self._log.root.at(file)) as stream:
                    starts = pq.read_table(stream, columns=["start"], partitioning=None)["start"].unique()
                found |= {(f"{each:%Y-%m-%d}", f"{each:%H}") for each in starts.to_pylist()}
        return found

    def _written(self, rows: DataFrame, table: str, layout: Sequence[str]) -> list[str]:
        """Files of the table that are there from now on, and not part of it yet. Relative to its folder."""
        folder = f"{table}/files-{uuid.uuid4().hex[:16]}"
        rows.write.partitionBy(*layout).parquet(spark_path(self._log.root.uri(folder)))
        self._log.sync([folder])
        return sorted(self._files(table, folder))

    def _files(self, table: str, folder: str) -> set[str]:
        """The Parquet files in a folder, relative to that of the table."""
        found = self._log.root.files(folder, recursive=True)
        return {path.removeprefix(f"{table}/") for path, _ in found if _is_data(path)}


def _is_data(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(".parquet") and not name.startswith(("_", "."))


def _is_short(window: str) -> bool:
    """Shorter than an hour: then an hour has many of them."""
    return duration(window) < _HOUR


def _hours(files: Iterable[str], short: bool) -> Hours:
    """Those that the folders of files name."""
    found: Hours = set()
    for file in files:
        named = dict(each.split("=", 1) for each in file.split("/") if "=" in each)
        found.add((named["date"], named["hour"]) if short else (named["date"],))
    return found


def _begin(hour: tuple[str, ...]) -> datetime:
    day = date.fromisoformat(hour[0])
    return datetime(day.year, day.month, day.day, int(hour[1]) if len(hour) > 1 else 0, tzinfo=UTC)


_TEXTS: Final = types.MapType(types.StringType(), types.StringType())
_ALL: Final = {"recursiveFileLookup": "true"}
_GAPS_SCHEMA: Final = types.StructType(
    [
        types.StructField("producer", types.StringType()),
        types.StructField("since", types.TimestampType()),
        types.StructField("until", types.TimestampType()),
        types.StructField("seconds", types.DoubleType()),
        types.StructField("habit", types.DoubleType()),
    ]
)


def _finished_schema() -> types.StructType:
    """Of windows whose figures are read off: no sketch."""
    kept = [field for field in PARTS_SCHEMA.fields if field.name not in {"spread", "sketch"}]
    quantiles = [types.StructField(rollup.quantile_name(each), types.DoubleType()) for each in rollup.QUANTILES]
    return types.StructType([*kept, types.StructField("stddev", types.DoubleType()), *quantiles])


def _schema(schema: types.StructType, by_date: bool = True, by_hour: bool = True) -> str:
    """As JSON, with the columns by which the files are laid out."""
    layout = [types.StructField("date", types.DateType())] if by_date else []
    layout += [types.StructField("hour", types.IntegerType())] if by_hour else []
    return types.StructType([*schema.fields, *layout]).json()
