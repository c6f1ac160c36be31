"""The transforms beside the shortest PySpark that does the same, on the same files; and how they grow with the data.

- Rollup: beside `by_hand`, below: the job that somebody would write without us.
- As-of enrichment: beside a plain equi-join of the same sizes, where each reading finds one of as many rows.
- Patterns and queries as columns: beside Python functions, called for each row, that do the same.
- Growth: the rollup of twice as much.

All are run to their end, and the rows thrown away (Spark's `noop`). Rounds alternate, the best of each counts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from bench.effort import Effort
from bench.figures import Figure, against
from fumarole import pipeline
from fumarole.core.query.compile import compiled
from fumarole.core.query.parse import parse
from fumarole.core.topic import matches, parse_pattern, split
from fumarole.pipeline.archive import write_rows
from fumarole.pipeline.archive.schema import TIME
from fumarole.pipeline.archive.seals import sealed
from fumarole.pipeline.jobs.spark import session

CLAIM = "Pipeline"
GROWTH = "Pipeline, twice the data"
READINGS = 20_000_000
CHANGES = 1_000_000
COLUMN_ROWS = 16_000_000
"""So many that it is the column that takes the time, and not the beginning of a job."""
PRODUCERS = 2_000
RATE = 1_000
"""Readings a second of archived time."""
CHUNK = 1_000_000
KEYS = ("Region", "Room", "Level", "Status")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
MOST_ROUNDS = 3


def by_hand(spark: SparkSession, files: list[str]) -> DataFrame:
    """The shortest."""
    value = sf.col("value")
    return (
        spark.read.parquet(*files)
        .groupBy(sf.window("time", "1 minute"), "topic", "producer")
        .agg(
            sf.count("*"),
            sf.min(value),
            sf.avg(value),
            sf.max(value),
            sf.stddev(value),
            sf.percentile_approx(value, [0.05, 0.5, 0.95]),
        )
    )


def measure(effort: Effort) -> Iterator[Figure]:
    readings, changes = effort.share(READINGS), effort.share(CHANGES)
    with tempfile.TemporaryDirectory(dir="build") as folder:
        archive = Path(folder, "archive")
        effort.tell(f"{2 * readings:,} readings are made")
        make_readings(archive, 2 * readings)
        make_changes(archive, changes, readings)
        spark = session("bench", settings={"spark.local.dir": folder}, complaints=Path(folder, "spark.log"))
        try:
            yield from _jobs(effort, spark, archive, readings, changes, folder)
            yield from _columns(effort, spark, COLUMN_ROWS)
            yield from _growth(effort, spark, archive, readings)
        finally:
            spark.stop()


def _jobs(
    effort: Effort, spark: SparkSession, archive: Path, readings: int, changes: int, folder: str
) -> Iterator[Figure]:
    end = until(readings)
    files = [file.uri for file in sealed(archive, "default", until=end) if file.kind == "messages"]
    own, hand = best_of(
        effort,
        f"rollup of {readings:,} readings",
        lambda: run(pipeline.rollup(pipeline.archive(spark, archive, until=end))),
        lambda: run(by_hand(spark, files)),
    )
    yield against("by hand", CLAIM, f"rollup of {readings:,} readings", own, hand, "s", at_most=1.10)

    table = joinable(spark, folder, changes)
    messages = pipeline.archive(spark, archive, until=end)
    own, join = best_of(
        effort,
        f"enrichment of {readings:,} readings",
        lambda: run(pipeline.enrich(messages, pipeline.changes(spark, archive))),
        lambda: run(equi_join(messages, spark.read.parquet(table), changes)),
    )
    name = f"as-of enrichment, {readings:,} readings, {changes:,} changes"
    yield against("equi-join", CLAIM, name, own, join, "s", at_most=1.3)


def equi_join(messages: DataFrame, table: DataFrame, changes: int) -> DataFrame:
    """Each reading finds one row of its producer."""
    slot = sf.pmod(sf.hash("sequence"), sf.lit(max(1, changes // PRODUCERS))).cast("long")
    return messages.withColumn("slot", slot).join(table, ["producer", "slot"])


def _columns(effort: Effort, spark: SparkSession, rows: int) -> Iterator[Figure]:
    number = sf.col("id")
    frame = spark.range(rows, numPartitions=8).select(
        sf.concat(sf.lit("volcanoes.region"), number % 10, sf.lit(".sensor"), number % 1000).alias("topic"),
        sf.concat(sf.lit("region"), number % 10).alias("Region"),
        (number % 7).cast("double").alias("Level"),
    )
    frame = frame.persist()
    frame.count()
    pattern, query = (
        "volcanoes.*.sensor1*",
        "Region IN ('region1', 'region2') AND Level >= 2.5 AND NOT Region LIKE '%2'",
    )
    words, selects = parse_pattern(pattern), compiled(parse(query))
    matches_udf = sf.udf(lambda topic: matches(words, split(topic)), "boolean")
    selects_udf = sf.udf(lambda region, level: selects({"Region": region, "Level": level}), "boolean")
    for name, column, function in (
        ("topic_matches", pipeline.topic_matches("topic", pattern), matches_udf("topic")),
        ("where", pipeline.where(query, frame), selects_udf("Region", "Level")),
    ):
        found = [frame.limit(100_000).agg(sf.count_if(each)).first() for each in (column, function)]
        assert found[0] == found[1], found
        own, udf = best_of(
            effort,
            f"{name} as a column",
            lambda column=column: run(frame.agg(sf.count_if(column))),  # type: ignore[misc]
            lambda function=function: run(frame.agg(sf.count_if(function))),  # type: ignore[misc]
        )
        yield against("Python UDF", CLAIM, f"{name}, rows a second", rows / own, rows / udf, "/s", at_least=10.0)
    frame.unpersist()


def _growth(effort: Effort, spark: SparkSession, archive: Path, readings: int) -> Iterator[Figure]:
    sizes = [readings // 4, readings // 2, readings, 2 * readings]
    times: dict[int, float] = {}
    for size in sizes:
        effort.tell(f"rollup of {size:,} readings")
        job = lambda size=size: run(pipeline.rollup(pipeline.archive(spark, archive, until=until(size))))  # noqa: E731
        times[size] = min(timed(job) for _ in range(min(effort.rounds, 2)))
    for half, whole in pairwise(sizes):
        yield against(f"{half:,}", GROWTH, f"rollup of {whole:,} readings", times[whole], times[half], "s", at_most=2.2)


def best_of(effort: Effort, what: str, ours: Callable[[], None], theirs: Callable[[], None]) -> tuple[float, float]:
    """Seconds of each, the best of alternating rounds."""
    own, other = [], []
    for number in range(1, min(effort.rounds, MOST_ROUNDS) + 1):
        effort.tell(f"{what}, round {number}")
        own.append(timed(ours))
        other.append(timed(theirs))
    return min(own), min(other)


def timed(job: Callable[[], None]) -> float:
    began = time.monotonic()
    job()
    return time.monotonic() - began


def run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def until(readings: int) -> datetime:
    """The time before which there are so many readings."""
    return BEGIN + timedelta(seconds=readings / RATE)


def make_readings(archive: Path, count: int) -> None:
    """In order of time, of producers at random, each with a topic of its own."""
    chance = np.random.default_rng(1)
    producers = pa.array(names())
    topics = pa.array([f"volcanoes.region{number % 10}.sensor{number}" for number in range(PRODUCERS)])
    first = int(BEGIN.timestamp() * 1_000_000)
    for begin in range(0, count, CHUNK):
        rows = min(CHUNK, count - begin)
        who = pa.array(chance.integers(0, PRODUCERS, rows))
        values = np.round(20 + chance.normal(0, 3, rows), 2)
        columns = {
            "time": pa.array(first + np.arange(begin, begin + rows) * (1_000_000 // RATE), pa.int64()).cast(TIME),
            "topic": topics.take(who),
            "producer": producers.take(who),
            "value": pa.array(values),
            "payload": pa.array(values.astype("U")).cast(pa.binary()),
        }
        write_rows(archive, "default", pa.table(columns), first=begin)


def make_changes(archive: Path, count: int, readings: int) -> None:
    """Spread over the time of so many readings."""
    chance = np.random.default_rng(2)
    first = int(BEGIN.timestamp() * 1_000_000)
    times = np.sort(chance.integers(0, readings * 1_000_000 // RATE, count)) + first
    columns = {
        "time": pa.array(times, pa.int64()).cast(TIME),
        "producer": pa.array(names()).take(pa.array(chance.integers(0, PRODUCERS, count))),
        "key": pa.array(KEYS).take(pa.array(chance.integers(0, len(KEYS), count))),
        "kind": pa.array(["text"] * count),
        "text": pa.array(chance.integers(0, 1000, count).astype("U")),
    }
    write_rows(archive, "default", pa.table(columns), kind="changes")


def joinable(spark: SparkSession, folder: str, count: int) -> str:
    """As many rows, one for each producer and slot, with metadata like that of a reading, to be joined by equality."""
    slots = max(1, count // PRODUCERS)
    who = np.repeat(np.arange(PRODUCERS), slots)
    texts = pa.array(np.random.default_rng(3).integers(0, 1000, len(who)).astype("U"))
    columns = {
        "producer": pa.array(names()).take(pa.array(who)),
        "slot": pa.array(np.tile(np.arange(slots), PRODUCERS)),
    }
    pq.write_table(pa.table({**columns, "text": texts}), f"{folder}/rows.parquet")
    nothing = sf.lit(None)
    value = sf.struct(
        sf.lit("text").alias("kind"),
        "text",
        nothing.cast("double").alias("number"),
        nothing.cast("boolean").alias("truth"),
    )
    entries = sf.array(*[sf.struct(sf.lit(key), value) for key in KEYS])
    described = spark.read.parquet(f"{folder}/rows.parquet").select(
        "producer", "slot", sf.map_from_entries(entries).alias("metadata")
    )
    described.write.parquet(f"{folder}/table")
    return f"{folder}/table"


def names() -> list[str]:
    return [f"{number * 2654435761 % 2**32:08x}-0000-4000-8000-{number:012d}" for number in range(PRODUCERS)]
