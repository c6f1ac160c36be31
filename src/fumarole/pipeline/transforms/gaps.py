"""Silences: when a producer said nothing for longer than is its habit.

Its habit is the median of the times between its readings. A silence is a time without a reading that is longer than
`factor` times the habit, and than `least`.

Readings are first drawn together to islands: runs without a pause longer than a grain. Islands of different batches,
also those of late readings, make up the islands of all; the sea between them is where silences are. With a grain of
nothing each reading is an island of its own, and the result is exact; with a grain of a second, pauses within an island
are known only by their mean, and no silence is ever shorter than the grain.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from fumarole.core.publication import FORGOTTEN
from fumarole.pipeline.analysis import is_stream
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.times import duration, microseconds
from fumarole.pipeline.transforms.stream_gaps import stream_gaps

FACTOR: Final = 5.0
LEAST: Final = "1 s"
BY: Final = ("producer", "topic")


def gaps(
    messages: DataFrame,
    factor: float = FACTOR,
    least: str | timedelta = LEAST,
    until: datetime | None = None,
    by: str = "producer",
    mode: str = "append",
) -> DataFrame:
    """For each silence: producer, since (its last reading), until (its next; null: still silent), seconds, habit.

    Of one that goes on, `seconds` are counted up to `until`, or to the last reading of all. By `topic`, silences are
    those of topics, for messages that name no producer.

    A stream needs a watermark on `time`, and the `mode` in which the query writes: `append` gives silences that are
    over, `update` also those that go on. See `stream_gaps`. Raises PipelineError.
    """
    if is_stream(messages):
        return stream_gaps(messages, factor, duration(least), _checked(by), mode)
    return silences(islands(messages, by=by), factor, least, until, by)


def islands(messages: DataFrame, grain: timedelta = timedelta(0), by: str = "producer") -> DataFrame:
    """Runs of readings of a producer without a pause longer than the grain: producer, begin, end, count.

    Begin and end are microseconds. That a producer was forgotten is the broker's word, not its own. Raises
    PipelineError.
    """
    in_order = Window.partitionBy(_checked(by)).orderBy("at")
    own = messages.where(sf.col(by).isNotNull() & (sf.col("topic") != FORGOTTEN))
    times = own.select(by, sf.unix_micros("time").alias("at"))
    previous = sf.lag("at").over(in_order)
    begins = sf.coalesce(sf.col("at") - previous > microseconds(grain), sf.lit(True))
    numbered = times.withColumn("begins", begins).withColumn(
        "island", sf.sum(sf.col("begins").cast("long")).over(in_order)
    )
    return (
        numbered.groupBy(by, "island")
        .agg(sf.min("at").alias("begin"), sf.max("at").alias("end"), sf.count(sf.lit(1)).alias("count"))
        .select(by, "begin", "end", "count")
    )


def _checked(by: str) -> str:
    if by not in BY:
        raise PipelineError(f"silences are those of a {' or a '.join(BY)}, not of {by!r}")
    return by


def silences(
    found: DataFrame,
    factor: float = FACTOR,
    least: str | timedelta = LEAST,
    until: datetime | None = None,
    by: str = "producer",
) -> DataFrame:
    """The silences between islands, which may overlap and stand in any order."""
    earlier = Window.partitionBy(by).orderBy("begin", "end").rowsBetween(Window.unboundedPreceding, -1)
    pauses = found.select(by, sf.max("end").over(earlier).alias("since"), sf.col("begin").alias("until")).where(
        sf.col("since") < sf.col("until")
    )
    last = found.groupBy(by).agg(sf.max("end").alias("since"))
    now = last.agg(sf.max("since").alias("now")) if until is None else None
    going_on = last.withColumn("until", sf.lit(None).cast("long"))
    both = pauses.unionByName(going_on)
    if now is None:
        assert until is not None
        both = both.withColumn("now", sf.lit(microseconds(until - _EPOCH)))
    else:
        both = both.crossJoin(sf.broadcast(now))
    return (
        both.join(_habits(found, pauses, by), by)
        .withColumn("seconds", (sf.coalesce("until", "now") - sf.col("since")) / 1e6)
        .where(sf.col("seconds") > sf.greatest(sf.col("habit") * factor, sf.lit(duration(least).total_seconds())))
        .select(
            by,
            sf.timestamp_micros("since").alias("since"),
            sf.timestamp_micros("until").alias("until"),
            "seconds",
            "habit",
        )
    )


def _habits(found: DataFrame, pauses: DataFrame, by: str) -> DataFrame:
    """The median pause of each producer, in seconds: pauses within an island count by their mean."""
    within = found.where(sf.col("count") > 1).select(
        by,
        ((sf.col("end") - sf.col("begin")) / (sf.col("count") - 1)).alias("pause"),
        (sf.col("count") - 1).alias("times"),
    )
    between = pauses.select(
        by,
        (sf.col("until") - sf.col("since")).cast("double").alias("pause"),
        sf.lit(1).cast("long").alias("times"),
    )
    median = sf.percentile("pause", 0.5, sf.col("times")) / 1e6
    return within.unionByName(between).groupBy(by).agg(median.alias("habit"))


_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
