"""As-of enrichment beside a plain equi-join of the same sizes, where each reading finds one of as many rows.

Spark joins in two ways by itself, and which of them it takes depends on how well the smaller table happens to compress:
both sides are sorted, or the smaller one is sent to all workers, whole. Enrichment stands beside both.

And where one producer says nearly all, beside the same sizes where all say alike.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from bench.effort import Effort
from bench.figures import Figure, against
from bench.pipeline import (
    BEGIN,
    PRODUCERS,
    RATE,
    READINGS,
    at_random,
    best_of,
    make_readings,
    names,
    run,
    spark_in,
    until,
)
from fumarole import pipeline
from fumarole.pipeline.archive import write_rows
from fumarole.pipeline.archive.schema import TIME

CLAIM = "As-of enrichment"
CHANGES = 1_000_000
KEYS = ("Region", "Room", "Level", "Status")
FEWER = 5
"""Times fewer readings and changes where one producer says nearly all."""
READINGS_OF_ONE, CHANGES_OF_ONE = 0.5, 0.9


def measure(effort: Effort) -> Iterator[Figure]:
    readings, changes = effort.share(READINGS), effort.share(CHANGES)
    with tempfile.TemporaryDirectory(dir="build") as folder:
        archive = Path(folder, "archive")
        effort.tell(f"{readings:,} readings are made")
        make_readings(archive, readings)
        make_changes(archive, changes, readings)
        with spark_in(folder) as spark:
            table = joinable(spark, folder, changes)
            messages = pipeline.archive(spark, archive, until=until(readings))
            for way, name in (("merge", "sorting both"), ("broadcast", "one sent to all workers")):
                joined = equi_join(messages, spark.read.parquet(table).hint(way), changes)
                own, join = best_of(
                    effort,
                    f"enrichment of {readings:,} readings, and a join by {name}",
                    lambda: run(pipeline.enrich(messages, pipeline.changes(spark, archive))),
                    partial(run, joined),
                )
                what = f"{readings:,} readings, {changes:,} changes; the join by {name}"
                yield against("equi-join", CLAIM, what, own, join, "s", at_most=1.3)
            yield _one_who_says_nearly_all(effort, spark, folder, readings // FEWER, changes // FEWER)


def _one_who_says_nearly_all(effort: Effort, spark: SparkSession, folder: str, readings: int, changes: int) -> Figure:
    def enrichment(name: str, of_readings: float, of_changes: float) -> Callable[[], None]:
        archive = Path(folder, name)
        make_readings(archive, readings, of_readings)
        make_changes(archive, changes, readings, of_changes)
        messages = pipeline.archive(spark, archive, until=until(readings))
        return lambda: run(pipeline.enrich(messages, pipeline.changes(spark, archive)))

    effort.tell(f"{readings:,} readings are made, twice")
    uneven, even = enrichment("uneven", READINGS_OF_ONE, CHANGES_OF_ONE), enrichment("even", 0.0, 0.0)
    own, other = best_of(
        effort, f"enrichment of {readings:,} readings, most of one producer, and of all alike", uneven, even
    )
    what = (
        f"{readings:,} readings, {READINGS_OF_ONE:.0%} of one producer; {changes:,} changes, {CHANGES_OF_ONE:.0%} of it"
    )
    return against("of all alike", CLAIM, what, own, other, "s", at_most=2.0)


def equi_join(messages: DataFrame, table: DataFrame, changes: int) -> DataFrame:
    """Each reading finds one row of its producer."""
    slot = sf.pmod(sf.hash("sequence"), sf.lit(max(1, changes // PRODUCERS))).cast("long")
    return messages.withColumn("slot", slot).join(table, ["producer", "slot"])


def make_changes(archive: Path, count: int, readings: int, of_one: float = 0.0) -> None:
    """Spread over the time of so many readings."""
    chance = np.random.default_rng(2)
    first = int(BEGIN.timestamp() * 1_000_000)
    times = np.sort(chance.integers(0, readings * 1_000_000 // RATE, count)) + first
    columns = {
        "time": pa.array(times, pa.int64()).cast(TIME),
        "producer": pa.array(names()).take(at_random(chance, count, of_one)),
        "key": pa.array(KEYS).take(pa.array(chance.integers(0, len(KEYS), count))),
        "kind": pa.array(["text"] * count),
        "text": pa.array(chance.integers(0, 1000, count).astype("U")),
    }
    write_rows(archive, "default", pa.table(columns), kind="changes")


def joinable(spark: SparkSession, folder: str, count: int) -> str:
    """As many rows, one for each producer and slot, with metadata like that of a reading, to be joined by equality."""
    slots = max(1, count // PRODUCERS)
    who = np.repeat(np.arange(PRODUCERS), slots)
    chance = np.random.default_rng(3)
    columns = {
        "producer": pa.array(names()).take(pa.array(who)),
        "slot": pa.array(np.tile(np.arange(slots), PRODUCERS)),
        **{key: pa.array(chance.integers(0, 1000, len(who)).astype("U")) for key in KEYS},
    }
    pq.write_table(pa.table(columns), f"{folder}/rows.parquet")
    entries = sf.array(*[sf.struct(sf.lit(key), _value(key)) for key in KEYS])
    described = spark.read.parquet(f"{folder}/rows.parquet").select(
        "producer", "slot", sf.map_from_entries(entries).alias("metadata")
    )
    described.write.parquet(f"{folder}/table")
    return f"{folder}/table"


def _value(key: str) -> Column:
    nothing = sf.lit(None)
    return sf.struct(
        sf.lit("text").alias("kind"),
        sf.col(key).alias("text"),
        nothing.cast("double").alias("number"),
        nothing.cast("boolean").alias("truth"),
    )
