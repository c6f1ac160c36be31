"""Rollups, gaps, traffic and balance, held to plain Python."""

import math
import random
import statistics
from collections import Counter, defaultdict
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from fumarole import pipeline
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.tables import CHANGES, MESSAGES
from fumarole.pipeline.transforms import rollup
from fumarole.pipeline.transforms.gaps import islands, silences
from tests.pipeline.archives import at, message


def frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    data = [
        (
            *[row[name] for name in ("time", "topic", "producer", "value")],
            bytearray(row["payload"]),
            *(None, None, None),
            row.get("recorder", "r"),
            1,
            number,
        )
        for number, row in enumerate(rows)
    ]
    return spark.createDataFrame(data, MESSAGES)


def readings(count: int = 600, seed: int = 1) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        message(
            chance.uniform(-70, 400),
            chance.choice(["a", "a.b", ""]),
            chance.choice(["p", "q", None]),
            chance.choice([None, chance.gauss(1e6, 0.01), 5.0]),
        )
        for _ in range(count)
    ]


def expected_rollup(rows: list[dict[str, Any]], every: int) -> dict[Any, Any]:
    windows: dict[Any, list[float | None]] = defaultdict(list)
    for row in rows:
        start = row["time"].timestamp() // every * every
        windows[start, row["topic"], row["producer"]].append(row["value"])
    found = {}
    for key, every_value in windows.items():
        values = [value for value in every_value if value is not None]
        figures = (min(values), max(values), pytest.approx(statistics.fmean(values))) if values else (None, None, None)
        stddev = pytest.approx(statistics.stdev(values), rel=1e-6, abs=1e-9) if len(values) > 1 else None
        found[key] = (len(every_value), len(values), *figures, stddev)
    return found


def collected(found: DataFrame) -> dict[Any, Any]:
    return {
        (row["start"].timestamp(), row["topic"], row["producer"]): tuple(
            row[name] for name in ("count", "numbers", "min", "max", "mean", "stddev")
        )
        for row in found.withColumn("start", sf.col("start")).collect()
    }


def test_rollup(spark: SparkSession) -> None:
    rows = readings()
    assert collected(pipeline.rollup(frame(spark, rows), "90s")) == expected_rollup(rows, 90)


def test_parts_add_up(spark: SparkSession) -> None:
    """Of many batches the same as of one, spreads of values that are nearly equal included."""
    rows = readings(900, 2)
    shares = [rollup.parts(frame(spark, rows[begin : begin + 300]), "1 minute") for begin in range(0, 900, 300)]
    together = shares[0].unionByName(shares[1]).unionByName(shares[2])
    assert collected(rollup.finished(rollup.merged(together))) == expected_rollup(rows, 60)


def test_quantiles(spark: SparkSession) -> None:
    rows = [message(0, value=float(number)) for number in random.Random(3).sample(range(2001), 2001)]
    found = pipeline.rollup(frame(spark, rows), "1 hour", quantiles=(0.05, 0.5, 0.999)).first()
    assert found is not None
    assert found["p05"] == pytest.approx(100, abs=40)
    assert found["p50"] == pytest.approx(1000, abs=40)
    assert found["p999"] == pytest.approx(1998, abs=40)


def test_what_is_not_finite_is_set_apart(spark: SparkSession) -> None:
    """P7: counted, and in no other figure. A window of NaN alone made the whole table unreadable."""
    odd = (math.nan, math.inf, -math.inf)
    rows = [message(0, "nan", value=math.nan), *[message(0, "mixed", value=value) for value in (*odd, 1.0, 3.0, None)]]
    later = [message(0, "nan", value=4.0), message(0, "mixed", value=math.nan)]
    shares = rollup.parts(frame(spark, rows)).unionByName(rollup.parts(frame(spark, later)))
    assert apart(pipeline.rollup(frame(spark, rows))) == {
        "nan": (1, 0, 1, None, None, None, None, None),
        "mixed": (6, 2, 3, 1.0, 3.0, 2.0, pytest.approx(math.sqrt(2)), 1.0),
    }
    assert apart(rollup.finished(rollup.merged(shares))) == {
        "nan": (2, 1, 1, 4.0, 4.0, 4.0, None, 4.0),
        "mixed": (7, 2, 4, 1.0, 3.0, 2.0, pytest.approx(math.sqrt(2)), 1.0),
    }


def apart(found: DataFrame) -> dict[str, Any]:
    figures = ("count", "numbers", "nonfinite", "min", "max", "mean", "stddev", "p50")
    return {row["topic"]: tuple(row[name] for name in figures) for row in found.collect()}


def test_parts_of_an_older_job_with_nothing_but_nan(spark: SparkSession) -> None:
    """They have no `nonfinite`, and a sketch that cannot be read."""
    new = rollup.parts(frame(spark, [message(0, value=2.0)]))
    old = new.withColumns(
        {
            **dict.fromkeys(("min", "max", "mean", "spread"), sf.lit(math.nan)),
            "numbers": sf.lit(5).cast("long"),
            "nonfinite": sf.lit(None).cast("long"),
            "sketch": sf.lit(b""),
        }
    )
    found = rollup.finished(rollup.merged(old.unionByName(new))).first()
    assert found is not None
    assert (found["numbers"], found["nonfinite"], found["mean"], found["p50"]) == (1, 5, 2.0, 2.0)


ROLLED = [(0, 2), (60, 1)]
"""Begin and count of the windows that are over, when the watermark is at 490 s."""
REGION = ("Region", "text", "usa")
"""Key, kind and text of a change."""


@pytest.mark.parametrize("mode", ["append", "update"])
@pytest.mark.parametrize("made", ["rollup", "decode", "enrich"])
def test_a_watermark_is_kept(spark: SparkSession, tmp_path: Path, made: str, mode: str) -> None:
    """So a stream can be rolled up in append mode: Spark refuses that where it sees no watermark."""
    source = tmp_path / "source"
    rows = [message(second, "a", "p", float(second)) for second in (0, 30, 90, 500)]
    frame(spark, rows).coalesce(1).write.parquet(str(source))
    stream = spark.readStream.schema(MESSAGES).parquet(str(source)).withWatermark("time", "10 seconds")
    changes, by = None, list(rollup.BY)
    if made == "decode":
        stream = pipeline.decode(
            stream, pipeline.payloads([{"topic": "a", "format": "text", "fields": {"t": "double"}, "value": "t"}])
        )
    if made == "enrich":
        changes, by = spark.createDataFrame([(at(0), "p", *REGION, None, None, "r", 1, 1)], CHANGES), ["Region"]
    writing = pipeline.rollup(stream, "1 minute", by, changes=changes).writeStream.outputMode(mode).format("memory")
    name = f"{made}_{mode}"
    writing = writing.queryName(name).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writing.trigger(availableNow=True).start()
    query.awaitTermination()
    closed = spark.table(name).orderBy("start").collect()
    expected = [*ROLLED, (480, 1)] if mode == "update" else ROLLED
    assert [(row["start"].timestamp(), row["count"]) for row in closed] == [
        (at(second).timestamp(), count) for second, count in expected
    ]
    if made == "enrich":
        assert {row["Region"] for row in closed} == {"usa"}


@pytest.mark.parametrize(
    ("quantile", "name"),
    [(0, "p00"), (0.05, "p05"), (0.5, "p50"), (0.999, "p999"), (1, "p100"), (1.0, "p100")],
)
def test_the_names_of_quantiles(quantile: float, name: str) -> None:
    assert rollup.quantile_name(quantile) == name


@pytest.mark.parametrize("text", ["", "5", "1 fortnight", "0s", "-1m", "m"])
def test_no_duration(spark: SparkSession, text: str) -> None:
    with pytest.raises(PipelineError, match="duration"):
        pipeline.rollup(frame(spark, []), text)


def expected_gaps(rows: list[dict[str, Any]], factor: float, least: float) -> set[Any]:
    times: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row["producer"] is not None:
            times[row["producer"]].append(row["time"].timestamp())
    now = max(max(each) for each in times.values())
    found = set()
    for producer, each in times.items():
        distinct = sorted(set(each))
        pauses = [later - earlier for earlier, later in pairwise(distinct)]
        if not pauses:
            continue
        habit = statistics.median(pauses)
        ends = [*pairwise(distinct), (distinct[-1], None)]
        for since, until in ends:
            if (until or now) - since > max(factor * habit, least):
                found.add((producer, round(since, 6), until and round(until, 6)))
    return found


def sensors(seed: int) -> list[dict[str, Any]]:
    """Each has a habit, and now and then is silent."""
    chance = random.Random(seed)
    rows = []
    for number, habit in enumerate((0.5, 3, 20)):
        time = chance.uniform(0, 5)
        while time < 600:
            rows.append(message(time, producer=f"p{number}", value=1.0))
            time += chance.uniform(0.8, 1.2) * habit + (chance.uniform(20, 200) if chance.random() < 0.02 else 0)
    chance.shuffle(rows)
    return rows


def gaps_found(found: DataFrame) -> set[Any]:
    return {
        (row["producer"], round(row["since"].timestamp(), 6), row["until"] and round(row["until"].timestamp(), 6))
        for row in found.collect()
    }


def test_gaps(spark: SparkSession) -> None:
    rows = sensors(4)
    expected = expected_gaps(rows, 5, 1)
    assert len(expected) > 3
    assert gaps_found(pipeline.gaps(frame(spark, rows))) == expected


def test_gaps_from_islands_of_batches(spark: SparkSession) -> None:
    """What a standing job sees in pieces and out of order is what is seen at once."""
    rows = sensors(5)
    batches = [islands(frame(spark, rows[begin::4]), timedelta(seconds=1)) for begin in range(4)]
    together = batches[0].unionByName(batches[1]).unionByName(batches[2]).unionByName(batches[3])
    assert gaps_found(silences(together, least="2s")) == expected_gaps(rows, 5, 2)


def test_a_silence_that_goes_on(spark: SparkSession) -> None:
    rows = [message(second, producer="p", value=1.0) for second in range(10)]
    found = pipeline.gaps(frame(spark, rows), until=at(100)).collect()
    assert [(row["since"].timestamp(), row["until"], row["seconds"], row["habit"]) for row in found] == [
        (at(9).timestamp(), None, 91.0, 1.0)
    ]


def test_being_forgotten_is_no_reading(spark: SparkSession) -> None:
    """The broker says so, in the producer's name, an hour after it fell silent."""
    rows = [message(second, producer="p", value=1.0) for second in range(10)]
    farewell = message(3600, "_FORGOTTEN", producer="p")
    found = pipeline.gaps(frame(spark, [*rows, farewell]), until=at(4000)).collect()
    assert [(row["since"].timestamp(), row["until"], row["habit"]) for row in found] == [(at(9).timestamp(), None, 1.0)]


def test_traffic(spark: SparkSession) -> None:
    rows = [message(0, topic, value=1.5) for topic in ["a.b.c", "a.b.c", "a.b", "a", "", "x..y"]]
    found = {
        (row["subtree"], row["depth"]): (row["topics"], row["messages"], row["bytes"])
        for row in pipeline.traffic(frame(spark, rows)).collect()
    }
    expected: dict[Any, list[str]] = defaultdict(list)
    for row in rows:
        words = row["topic"].split(".")
        for depth in range(len(words) + 1):
            expected[".".join(words[:depth]), depth].append(row["topic"])
    assert found == {key: (len(set(topics)), len(topics), 3 * len(topics)) for key, topics in expected.items()}
    shallow = pipeline.traffic(frame(spark, rows), depth=1).collect()
    assert max(row["depth"] for row in shallow) == 1


def test_balance(spark: SparkSession) -> None:
    served = Counter(one=30, two=10)
    rows = [{**message(0, value=1.0), "recorder": recorder} for recorder in served.elements()]
    found = {
        row["recorder"]: (row["messages"], row["share"], row["evenness"])
        for row in pipeline.balance(frame(spark, rows)).collect()
    }
    assert found == {"one": (30, 0.75, 1.5), "two": (10, 0.25, 0.5)}


def test_no_python_per_row(spark: SparkSession) -> None:
    messages = frame(spark, readings(10))
    for made in (
        pipeline.rollup(messages),
        pipeline.gaps(messages),
        pipeline.traffic(messages),
        pipeline.balance(messages),
        pipeline.summary(messages),
    ):
        plan = made._jdf.queryExecution().executedPlan().toString()
        assert "Python" not in plan
        assert "Arrow" not in plan
