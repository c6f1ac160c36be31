"""Silences of a stream, held to what a few lines of Python make of the same readings."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest

from fumarole import pipeline
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.sharding import STORE
from fumarole.pipeline.tables import MESSAGES
from tests.pipeline.archives import as_they_were, at, message
from tests.pipeline.transforms.test_transforms import frame, sensors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

DELAY = 10


def expected(rows: list[dict[str, Any]], until: float) -> set[tuple[str, float, float]]:
    """Silences that were over `until` then, each by the 31 pauses before it."""
    found = set()
    for name in {row["producer"] for row in rows}:
        times = sorted({row["time"].timestamp() for row in rows if row["producer"] == name})
        pauses: list[float] = []
        for since, end in pairwise(time for time in times if time <= until):
            if len(pauses) >= 3 and end - since > max(5 * median(pauses), 1):
                found.add((name, round(since, 6), round(end, 6)))
            pauses = [*pauses, end - since][-31:]
    return found


def streamed(spark: SparkSession, folder: Path, mode: str, **options: Any) -> list[Row]:
    rows: list[Row] = []

    def take(batch: DataFrame, _number: int) -> None:
        rows.extend(batch.collect())

    source = spark.readStream.schema(MESSAGES).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    silences = pipeline.gaps(source.withWatermark("time", f"{DELAY} seconds"), mode=mode, **options)
    writing = silences.writeStream.outputMode(mode).foreachBatch(take)
    writing = writing.option("checkpointLocation", str(folder / "checkpoint"))
    writing.trigger(availableNow=True).start().awaitTermination()
    return rows


def write(spark: SparkSession, folder: Path, number: int, rows: list[dict[str, Any]]) -> None:
    frame(spark, rows).coalesce(1).write.parquet(str(folder / "in"), mode="append" if number else "error")


def test_append(spark: SparkSession, tmp_path: Path) -> None:
    """In files that come one after the other, out of order within the watermark, with a restart between them."""
    rows = sorted(sensors(4), key=lambda row: row["time"])
    chance = random.Random(4)
    found = []
    with as_they_were(spark, STORE):
        for number in range(3):
            part = rows[len(rows) * number // 3 : len(rows) * (number + 1) // 3]
            write(spark, tmp_path, number, chance.sample(part, len(part)))
            found += streamed(spark, tmp_path, "append")
    last = max(row["time"] for row in rows).timestamp() - DELAY
    said = [(row["producer"], round(row["since"].timestamp(), 6), round(row["until"].timestamp(), 6)) for row in found]
    assert len(said) == len(set(said)) > 3
    assert set(said) == expected(rows, last)


def test_update(spark: SparkSession, tmp_path: Path) -> None:
    """One that goes on is said once, and once more when it is over. A producer that is forgotten is silent no more."""
    early = [message(second, producer=name, value=1.0) for second in range(10) for name in "pq"]
    with as_they_were(spark, STORE):
        write(spark, tmp_path, 0, [*early, message(40, producer="r", value=1.0)])
        first = streamed(spark, tmp_path, "update")
        write(spark, tmp_path, 1, [message(50, producer="p", value=1.0), message(51, "_FORGOTTEN", producer="q")])
        write(spark, tmp_path, 2, [message(300, producer="r", value=1.0)])
        second = streamed(spark, tmp_path, "update")
    said = [(row["producer"], row["since"], row["until"], row["seconds"], row["habit"]) for row in first]
    nine = at(9).timestamp()
    assert sorted((name, since.timestamp(), until, seconds, habit) for name, since, until, seconds, habit in said) == [
        ("p", nine, None, 21.0, 1.0),
        ("q", nine, None, 21.0, 1.0),
    ]
    ends = [(row["producer"], row["since"].timestamp(), row["until"] and row["until"].timestamp()) for row in second]
    assert ends == [("p", nine, at(50).timestamp()), ("p", at(50).timestamp(), None)]


def test_another_mode(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("timestamp time", "'a' topic", "'p' producer")
    with pytest.raises(PipelineError, match="append or update, not 'complete'"):
        pipeline.gaps(stream, mode="complete")
