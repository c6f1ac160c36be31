"""The rollup beside the shortest PySpark that does the same, on the same files; and how it grows with the data.

The job without this package is `by_hand`, below. All are run to their end, and the rows thrown away (Spark's `noop`).
Rounds alternate, the best of each counts. A cold run is a process of its own with a new Spark: Java has compiled
nothing yet, and has no memory. Both have the same settings.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from bench.effort import Effort
from bench.figures import Figure, against
from bench.servers import CannotMeasureError
from fumarole import pipeline
from fumarole.pipeline.archive import write_rows
from fumarole.pipeline.archive.schema import TIME
from fumarole.pipeline.archive.seals import sealed
from fumarole.pipeline.jobs.spark import LOCAL, SETTINGS, session

CLAIM = "Rollup"
GROWTH = "Rollup, twice the data"
READINGS, COLD_READINGS = 20_000_000, 10_000_000
PRODUCERS = 2_000
RATE = 1_000
"""Readings a second of archived time."""
CHUNK = 1_000_000
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
MOST_ROUNDS = 3
CLEANED_WITHIN = 1.0
"""Seconds, after the collector has run."""
COLD = """
import json, sys
from pyspark.sql import SparkSession, functions as sf
settings, archive, until, *files = sys.argv[1:]
builder = SparkSession.builder.master("local[*]")
for key, value in json.loads(settings).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
"""
COLD_OWN = f"""{COLD}
from datetime import datetime
from fumarole import pipeline
rolled = pipeline.rollup(pipeline.archive(spark, archive, until=datetime.fromisoformat(until)))
rolled.write.format("noop").mode("overwrite").save()
spark.stop()
"""
COLD_BY_HAND = f"""{COLD}
value = sf.col("value")
rolled = spark.read.parquet(*files).groupBy(sf.window("time", "1 minute"), "topic", "producer").agg(
    sf.count("*"), sf.min(value), sf.avg(value), sf.max(value), sf.stddev(value),
    sf.percentile_approx(value, [0.05, 0.5, 0.95]))
rolled.write.format("noop").mode("overwrite").save()
spark.stop()
"""


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
    readings = effort.share(READINGS)
    with tempfile.TemporaryDirectory(dir="build") as folder:
        archive = Path(folder, "archive")
        effort.tell(f"{2 * readings:,} readings are made")
        make_readings(archive, 2 * readings)
        yield _cold(effort, Path(folder), archive, effort.share(COLD_READINGS))
        with spark_in(folder) as spark:
            yield _rollup(effort, spark, archive, readings)
            yield from _growth(effort, spark, archive, readings)


@contextmanager
def spark_in(folder: str) -> Iterator[SparkSession]:
    """A session whose files are in this folder.

    Memory that Java once had, it keeps: else the system would have to find the same again for every job, which may take
    seconds for each GiB.
    """
    java = "spark.driver.extraJavaOptions"
    settings = {"spark.local.dir": folder, java: f"{SETTINGS[java]} -XX:MaxHeapFreeRatio=100"}
    spark = session("bench", settings=settings, log_file=Path(folder, "spark.log"))
    try:
        yield spark
    finally:
        spark.stop()


def _cold(effort: Effort, folder: Path, archive: Path, readings: int) -> Figure:
    settings = json.dumps({**SETTINGS, **LOCAL, "spark.local.dir": str(folder)})
    files = [file.uri for file in sealed(archive, "default", until=until(readings)) if file.kind == "messages"]

    def begin(program: str) -> None:
        arguments = [settings, str(archive), until(readings).isoformat(), *files]
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise CannotMeasureError(f"the rollup ended with {done.returncode}: {done.stderr[-500:]}")

    what = f"rollup of {readings:,} readings, Spark's start included"
    own, hand = best_of(effort, what, partial(begin, COLD_OWN), partial(begin, COLD_BY_HAND))
    return against("by hand", CLAIM, what, own, hand, "s", at_most=1.10)


def _rollup(effort: Effort, spark: SparkSession, archive: Path, readings: int) -> Figure:
    files = [file.uri for file in sealed(archive, "default", until=until(readings)) if file.kind == "messages"]
    own, hand = best_of(
        effort,
        f"rollup of {readings:,} readings",
        partial(_roll_up, spark, archive, readings),
        lambda: run(by_hand(spark, files)),
    )
    return against("by hand", CLAIM, f"rollup of {readings:,} readings", own, hand, "s", at_most=1.10)


def _growth(effort: Effort, spark: SparkSession, archive: Path, readings: int) -> Iterator[Figure]:
    sizes = [readings // 4, readings // 2, readings, 2 * readings]
    times = dict.fromkeys(sizes, math.inf)
    for number, size in product(range(1, min(effort.rounds, MOST_ROUNDS) + 1), sizes):
        effort.tell(f"rollup of {size:,} readings, round {number}")
        times[size] = min(times[size], timed(partial(_roll_up, spark, archive, size)))
    for half, whole in pairwise(sizes):
        yield against(f"{half:,}", GROWTH, f"rollup of {whole:,} readings", times[whole], times[half], "s", at_most=2.2)


def _roll_up(spark: SparkSession, archive: Path, readings: int) -> None:
    run(pipeline.rollup(pipeline.archive(spark, archive, until=until(readings))))


def best_of(effort: Effort, what: str, ours: Callable[[], None], theirs: Callable[[], None]) -> tuple[float, float]:
    """Seconds of each, the best of alternating rounds."""
    own, other = [], []
    for number in range(1, min(effort.rounds, MOST_ROUNDS) + 1):
        effort.tell(f"{what}, round {number}")
        own.append(timed(ours))
        other.append(timed(theirs))
    return min(own), min(other)


def timed(job: Callable[[], None]) -> float:
    _forget()
    began = time.monotonic()
    job()
    return time.monotonic() - began


def _forget() -> None:
    """A table that was sent to all workers stays until Java's collector finds that it is not needed: the next job would
    find the memory full of them.
    """
    spark = SparkSession.getActiveSession()
    if spark is None:  # cold runs have one each
        return
    assert spark._jvm is not None
    spark._jvm.System.gc()
    time.sleep(CLEANED_WITHIN)


def run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def until(readings: int) -> datetime:
    """The time before which there are so many readings."""
    return BEGIN + timedelta(seconds=readings / RATE)


def make_readings(archive: Path, count: int, of_one: float = 0.0) -> None:
    """In order of time, of producers at random, each with a topic of its own."""
    chance = np.random.default_rng(1)
    producers = pa.array(names())
    topics = pa.array([f"volcanoes.region{number % 10}.sensor{number}" for number in range(PRODUCERS)])
    first = int(BEGIN.timestamp() * 1_000_000)
    for begin in range(0, count, CHUNK):
        rows = min(CHUNK, count - begin)
        who = at_random(chance, rows, of_one)
        values = np.round(20 + chance.normal(0, 3, rows), 2)
        columns = {
            "time": pa.array(first + np.arange(begin, begin + rows) * (1_000_000 // RATE), pa.int64()).cast(TIME),
            "topic": topics.take(who),
            "producer": producers.take(who),
            "value": pa.array(values),
            "payload": pa.array(values.astype("U")).cast(pa.binary()),
        }
        write_rows(archive, "default", pa.table(columns), first=begin)


def at_random(chance: np.random.Generator, count: int, of_one: float) -> pa.Array:
    """Numbers of producers: such a share of them that of one, the rest of any."""
    numbers = chance.integers(0, PRODUCERS, count)
    if of_one:
        numbers[chance.random(count) < of_one] = 0
    return pa.array(numbers)


def names() -> list[str]:
    return [f"{number * 2654435761 % 2**32:08x}-0000-4000-8000-{number:012d}" for number in range(PRODUCERS)]
