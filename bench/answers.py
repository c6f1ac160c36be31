"""Seconds to an answer: the wall time of `fumarole pipeline rollup`, cold and in the warm session.

DuckDB and polars answer the same question from the same files, in a process of their own each: an analyst who has the
files could use them. They are rows of their own, so that it can be seen what Spark costs. Then payloads of JSON, beside
the shortest job by hand; and one day of a year of hourly files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from bench.effort import Effort
from bench.figures import Figure, against
from bench.pipeline import BEGIN, best_of, make_readings, run, spark_in
from bench.servers import COMMANDS, CannotMeasureError
from fumarole import pipeline
from fumarole.pipeline.archive import open_root, write_rows
from fumarole.pipeline.archive.schema import TIME
from fumarole.pipeline.archive.seals import put_manifest, sealed

CLAIM = "Seconds to an answer"
SIZES = (100_000, 10_000_000)
WARM_AT_MOST = 1.5
"""Of the small archive; and a quarter of the cold command."""
JSON_ROWS = 5_000_000
HOURS = 365 * 24
A_DAY_AT_MOST = 3.0
DECLARED = """
[[payloads]]
topic = "volcanoes.>"
format = "json"
fields = { temperature = "double", ok = "boolean", station = { type = "text", path = "$.station.name" } }
value = "temperature"
"""
QUERIES = {
    "DuckDB": """
import sys, duckdb
rows = duckdb.sql(f\"\"\"SELECT time_bucket(INTERVAL '1 minute', time) AS start, topic, producer, count(*),
    min(value), max(value), avg(value), stddev(value), approx_quantile(value, [0.05, 0.5, 0.95])
    FROM read_parquet({sys.argv[1:]!r}) GROUP BY ALL ORDER BY ALL LIMIT 40\"\"\").fetchall()
assert len(rows) == 40
""",
    "polars": """
import sys, polars as pl
value = pl.col("value")
rows = (pl.scan_parquet(sys.argv[1:], hive_partitioning=False)
    .group_by(pl.col("time").dt.truncate("1m").alias("start"), "topic", "producer")
    .agg(pl.len(), value.min().alias("min"), value.max().alias("max"), value.mean().alias("mean"),
         value.std().alias("std"),
         *[value.quantile(each).alias(str(each)) for each in (0.05, 0.5, 0.95)])
    .sort("start", "topic", "producer").head(40).collect())
assert len(rows) == 40
""",
}


def measure(effort: Effort) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(dir="build") as folder:
        for size in SIZES:
            yield from _rollup(effort, Path(folder, f"of-{size}"), effort.share(size))
        yield from _a_day_of_a_year(effort, Path(folder, "year"))
        with spark_in(folder) as spark:
            yield _json(effort, spark, Path(folder, "json"), effort.share(JSON_ROWS))


def _rollup(effort: Effort, archive: Path, readings: int) -> Iterator[Figure]:
    make_readings(archive, readings)
    command = ["pipeline", "rollup", "--archive", str(archive), "--json"]
    cold, warm = _cold_and_warm(effort, command, f"{readings:,} readings")
    what = f"rollup of {readings:,} readings"
    yield against("cold", CLAIM, f"{what}: warm", warm, cold, "s", at_most=0.25)
    if readings <= SIZES[0]:
        yield against("limit", CLAIM, f"{what}: warm", warm, WARM_AT_MOST, "s", at_most=1.0)
    files = [file.uri for file in sealed(archive, "default") if file.kind == "messages"]
    for name, program in QUERIES.items():
        effort.tell(f"{what} by {name}")
        other = min(seconds([sys.executable, "-c", program, *files]) for _ in range(min(effort.rounds, 3)))
        # No bound: it is told, not promised.
        yield against(name, CLAIM, f"{what}: warm", warm, other, "s", at_least=0.0, note=NOTE)


NOTE = "DuckDB and polars need no Java; what is beside them is told and has no bound."


def _cold_and_warm(effort: Effort, command: list[str], what: str) -> tuple[float, float]:
    """Wall seconds of the command: with a Spark of its own; and in the warm session, after its first answer."""
    with tempfile.TemporaryDirectory() as runtime:
        environment = {**os.environ, "XDG_RUNTIME_DIR": runtime}
        program = str(COMMANDS / "fumarole")
        effort.tell(f"{what}, cold")
        cold = min(seconds([program, *command, "--cold"], environment) for _ in range(min(effort.rounds, 2)))
        effort.tell(f"{what}, warm")
        try:
            seconds([program, *command], environment)
            warm = min(seconds([program, *command], environment) for _ in range(max(2, min(effort.rounds, 5))))
        finally:
            subprocess.run([program, "pipeline", "server", "stop"], env=environment, check=False, capture_output=True)
    return cold, warm


def seconds(command: list[str], environment: dict[str, str] | None = None) -> float:
    began = time.monotonic()
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    took = time.monotonic() - began
    if done.returncode or "no warm session" in done.stderr:
        raise CannotMeasureError(f"{command[0]} ended with {done.returncode}: {done.stderr[-500:]}")
    return took


def _a_day_of_a_year(effort: Effort, archive: Path) -> Iterator[Figure]:
    hours = effort.share(HOURS)
    effort.tell(f"{hours:,} hourly files are made")
    for hour in range(hours):
        begin = BEGIN + timedelta(hours=hour)
        rows = [
            {
                "time": begin + timedelta(minutes=minute),
                "topic": "volcanoes.a",
                "producer": "p",
                "value": float(minute),
                "payload": b"1",
            }
            for minute in range(60)
        ]
        write_rows(archive, "default", rows, epoch=hour + 1)
    put_manifest(open_root(archive), "default", 1)
    since = BEGIN + timedelta(days=hours // 48)
    asked = ["--since", f"{since:%Y-%m-%d}", "--until", f"{since + timedelta(days=1):%Y-%m-%d}", "--every", "1 hour"]
    _, warm = _cold_and_warm(
        effort, ["pipeline", "rollup", "--archive", str(archive), "--json", *asked], "a day of a year"
    )
    yield against("limit", CLAIM, f"one day of {hours:,} hourly files: warm", warm, A_DAY_AT_MOST, "s", at_most=1.0)


def _json(effort: Effort, spark: SparkSession, archive: Path, rows: int) -> Figure:
    effort.tell(f"{rows:,} payloads of JSON are made")
    _make_json(archive, rows)
    (archive / "payloads.toml").write_text(DECLARED)
    files = [file.uri for file in sealed(archive, "default")]
    own, hand = best_of(
        effort,
        f"fields of {rows:,} payloads",
        partial(_decode, spark, archive),
        lambda: run(by_hand(spark, files)),
    )
    return against("by hand", CLAIM, f"fields of {rows:,} payloads of JSON", own, hand, "s", at_most=1.3)


def _decode(spark: SparkSession, archive: Path) -> None:
    found = pipeline.archive(spark, archive, payloads=archive / "payloads.toml")
    run(found.select("time", "topic", "producer", "fields"))


def by_hand(spark: SparkSession, files: list[str]) -> DataFrame:
    """The shortest: all payloads have one form, and which do not fit is not asked."""
    said = sf.from_json(
        sf.col("payload").cast("string"), "temperature double, ok boolean, station struct<name: string>"
    )
    return spark.read.parquet(*files).select("time", "topic", "producer", said.alias("fields"))


def _make_json(archive: Path, rows: int) -> None:
    chance = np.random.default_rng(4)
    first = int(BEGIN.timestamp() * 1_000_000)
    for begin in range(0, rows, 500_000):
        count = min(500_000, rows - begin)
        values = np.round(20 + chance.normal(0, 3, count), 2).tolist()
        payloads = [
            json.dumps({"temperature": value, "ok": value < 25, "station": {"name": f"s{index % 100}"}}).encode()
            for index, value in enumerate(values)
        ]
        columns = {
            "time": pa.array(first + np.arange(begin, begin + count) * 1_000, pa.int64()).cast(TIME),
            "topic": pa.array([f"volcanoes.s{index % 100}" for index in range(count)]),
            "payload": pa.array(payloads, pa.binary()),
        }
        write_rows(archive, "default", pa.table(columns), first=begin)
