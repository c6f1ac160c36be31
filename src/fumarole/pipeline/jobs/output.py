"""What the standing job made, read exactly: only folders that its log has in force."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession, types

from fumarole.core.payloads import Type
from fumarole.pipeline.archive.places import Root
from fumarole.pipeline.columns.payload import KINDS
from fumarole.pipeline.columns.where import METADATA
from fumarole.pipeline.jobs.log import JobError, Log, State
from fumarole.pipeline.reading import read_files
from fumarole.pipeline.tables import MESSAGES, METADATA_MAP
from fumarole.pipeline.times import duration, shown
from fumarole.pipeline.transforms import rollup
from fumarole.pipeline.transforms.gaps import FACTOR, LEAST, silences

READINGS = "readings"
ISLANDS = "islands"
READINGS_SCHEMA = types.StructType(
    [
        *MESSAGES.fields,
        types.StructField("recorded", types.TimestampType()),
        types.StructField("wrong_clock", types.BooleanType()),
        types.StructField(METADATA, METADATA_MAP),
    ]
)
PARTS_SCHEMA = types.StructType(
    [
        types.StructField("start", types.TimestampType()),
        types.StructField("topic", types.StringType()),
        types.StructField("producer", types.StringType()),
        types.StructField("count", types.LongType()),
        types.StructField("numbers", types.LongType()),
        types.StructField("nonfinite", types.LongType()),
        types.StructField("min", types.DoubleType()),
        types.StructField("max", types.DoubleType()),
        types.StructField("mean", types.DoubleType()),
        types.StructField("spread", types.DoubleType()),
        types.StructField("sketch", types.BinaryType()),
    ]
)
ISLANDS_SCHEMA = types.StructType(
    [
        types.StructField("producer", types.StringType()),
        types.StructField("begin", types.LongType()),
        types.StructField("end", types.LongType()),
        types.StructField("count", types.LongType()),
    ]
)
TABLES = ("readings", "rollup", "gaps")


def readings_schema(fields: Mapping[str, Type]) -> types.StructType:
    """Of readings whose payloads have these fields (P6)."""
    if not fields:
        return READINGS_SCHEMA
    declared = types.StructType([types.StructField(name, KINDS[kind]) for name, kind in fields.items()])
    own = [types.StructField("fields", declared), types.StructField("fits", types.BooleanType())]
    return types.StructType([*READINGS_SCHEMA.fields, *own])


Place = str | os.PathLike[str] | Root


def output(spark: SparkSession, path: Place, table: str, every: str | timedelta = "1 minute") -> DataFrame:
    """A table of a standing job: `readings` (with `metadata`), `rollup` (of windows of `every`), or `gaps`.

    What is read is what the log has now; a job that goes on meanwhile does not disturb. Raises JobError.
    """
    log = Log(path)
    job = log.job()
    if job is None:
        raise JobError(f"there is no output of a job at {log.root.name}; `fumarole pipeline run --out` makes one")
    state = log.state()
    match table:
        case "readings":
            return folders(spark, log, state, READINGS, readings_schema(job.fields))
        case "rollup":
            name = shown(duration(every))
            if name not in job.windows:
                raise JobError(f"this job made no windows of {name}, but of {', '.join(job.windows)}")
            shares = folders(spark, log, state, rollup_table(name), PARTS_SCHEMA)
            return rollup.finished(rollup.merged(shares))
        case "gaps":
            found = folders(spark, log, state, ISLANDS, ISLANDS_SCHEMA)
            return silences(found, FACTOR, max(duration(LEAST), timedelta(seconds=job.grain)))
        case _:
            raise JobError(f"a job makes no table {table!r}, but {', '.join(TABLES)}")


def rollup_table(window: str) -> str:
    """The folder of the parts of windows of this length."""
    return f"rollup-{window}"


def folders(
    spark: SparkSession, log: Log, state: State, table: str, schema: types.StructType, only: list[str] | None = None
) -> DataFrame:
    """The rows of a table, or of these folders of it, without the columns by which it is laid out."""
    paths = sorted(each.path for each in state.of(table)) if only is None else only
    uris = [log.root.uri(path) for path in paths]
    return read_files(spark, uris, schema, recursiveFileLookup="true")
