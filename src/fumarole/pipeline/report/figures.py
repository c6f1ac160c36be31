"""What the report shows, as numbers: everything that Spark has to be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from fumarole.core.query.tree import Value
from fumarole.pipeline import reading
from fumarole.pipeline.columns.time import window_start
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.jobs.batch import Part, Received, received
from fumarole.pipeline.rows import held
from fumarole.pipeline.times import as_utc
from fumarole.pipeline.transforms.gaps import gaps
from fumarole.pipeline.transforms.rollup import finite, rollup
from fumarole.pipeline.transforms.traffic import balance

MOST_BUCKETS: Final = 180
MOST_CELLS: Final = 60
MOST_STREAMS: Final = 6
MOST_TOPICS: Final = 14
MOST_GAPS: Final = 400
MOST_EPISODES: Final = 400
MOST_POINTS: Final = 1500
_WIDTHS: Final = [
    timedelta(seconds=seconds)
    for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400, 604_800)
]

Series = dict[str, dict[datetime, int]]
"""Messages by name and by the begin of the bucket."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A silence, with a name for the producer."""

    producer: str
    name: str
    since: datetime
    until: datetime | None
    seconds: float
    habit: float


@dataclass(frozen=True, slots=True)
class Episode:
    """An alarm, with a name for its producer."""

    rule: str
    name: str
    since: datetime
    until: datetime | None
    seconds: float
    value: float | None


@dataclass(frozen=True, slots=True)
class Window:
    """A producer's values in a window."""

    start: datetime
    count: int
    low: float
    high: float
    mean: float
    p05: float
    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class Chosen:
    """The producer whose values are shown."""

    producer: str
    name: str
    metadata: dict[str, Value]
    width: timedelta
    windows: list[Window]
    points: list[tuple[datetime, float]]


@dataclass(frozen=True, slots=True)
class Figures:
    """All that is on the page."""

    title: str
    asked: list[tuple[str, str]]
    total: Received
    begin: datetime
    end: datetime
    width: timedelta
    streams: Series
    hours: dict[tuple[datetime, int], int]
    """By day and hour of the day, of archives of several days."""
    heat: Series
    """By topic and bucket, of shorter ones."""
    heat_width: timedelta
    topics: list[tuple[str, int, int]]
    """Topic, messages, bytes."""
    gaps: list[Gap]
    recorders: list[tuple[str, int, float]]
    """Recorder, messages, share."""
    chosen: Chosen | None
    episodes: list[Episode] | None = None
    """What rules would have raised; None: no rules were tried."""


def gather(spark: SparkSession, part: Part, producer: str | None = None, rehearsed: DataFrame | None = None) -> Figures:
    """Asks Spark. `rehearsed` are episodes of `jobs.whatif_rules`. Raises PipelineError where there is nothing."""
    messages = part.asked(spark).persist()
    total = received(messages)
    if total.first is None or total.last is None:
        raise PipelineError("there are no such messages in this archive, so there is nothing to show")
    begin, end = total.first, total.last
    width = bucket(end - begin, MOST_BUCKETS)
    by_topic = messages.groupBy("topic").agg(
        sf.count(sf.lit(1)).alias("messages"), sf.sum(sf.octet_length("payload")).alias("bytes")
    )
    topics = [
        (each["topic"], each["messages"], each["bytes"])
        for each in by_topic.orderBy(sf.desc("messages"), "topic").limit(MOST_TOPICS).collect()
    ]
    names = _names(messages)
    if producer is not None and producer not in names:
        raise PipelineError(f"no message of a producer {producer} is in this archive, or in the part asked for")
    long = end - begin >= timedelta(days=2)
    heat_width = bucket(end - begin, MOST_CELLS)
    figures = Figures(
        title=f"{part.archive.rstrip('/').rpartition('/')[2] or part.archive}, namespace {part.namespace}",
        asked=[(name, str(value)) for name in ("topic", "where", "since", "until") if (value := getattr(part, name))],
        total=total,
        begin=begin,
        end=end,
        width=width,
        streams=_streams(messages, width),
        hours=_hours(messages) if long else {},
        heat={} if long else _heat(messages, [topic for topic, _, _ in topics], heat_width),
        heat_width=heat_width,
        topics=topics,
        gaps=_gaps(messages, names),
        recorders=_recorders(messages),
        chosen=_chosen(spark, part, messages, producer, names, end - begin),
        episodes=None if rehearsed is None else _episodes(rehearsed, names),
    )
    messages.unpersist()
    return figures


def bucket(length: timedelta, most: int) -> timedelta:
    """The finest of the usual widths that gives at most so many buckets."""
    return next((width for width in _WIDTHS if length / width <= most), _WIDTHS[-1])


def _streams(messages: DataFrame, width: timedelta) -> Series:
    """By subtree: the first two words, the most talkative ones by name and the rest together."""
    subtree = sf.array_join(sf.slice(sf.split("topic", r"\.", -1), 1, 2), ".")
    counted = (
        messages.groupBy(subtree.alias("name"), window_start(sf.col("time"), width).alias("start"))
        .agg(sf.count(sf.lit(1)).alias("messages"))
        .collect()
    )
    totals: dict[str, int] = {}
    for row in counted:
        totals[row["name"]] = totals.get(row["name"], 0) + row["messages"]
    largest = sorted(totals, key=lambda name: (-totals[name], name))[:MOST_STREAMS]
    series: Series = {name: {} for name in largest}
    for row in counted:
        into = series.setdefault(row["name"] if row["name"] in largest else "others", {})
        into[as_utc(row["start"])] = into.get(as_utc(row["start"]), 0) + row["messages"]
    return series


def _heat(messages: DataFrame, topics: list[str], width: timedelta) -> Series:
    series: Series = {topic: {} for topic in topics}
    counted = messages.where(sf.col("topic").isin(topics)).groupBy(
        "topic", window_start(sf.col("time"), width).alias("start")
    )
    for row in counted.agg(sf.count(sf.lit(1)).alias("messages")).collect():
        series[row["topic"]][as_utc(row["start"])] = row["messages"]
    return series


def _hours(messages: DataFrame) -> dict[tuple[datetime, int], int]:
    counted = messages.groupBy(window_start(sf.col("time"), timedelta(hours=1)).alias("start")).agg(
        sf.count(sf.lit(1)).alias("messages")
    )
    starts = [(as_utc(row["start"]), row["messages"]) for row in counted.collect()]
    return {(start.replace(hour=0), start.hour): count for start, count in starts}


def _names(messages: DataFrame) -> dict[str, str]:
    """What to call producers: the topic that they mostly publish on says more than a UUID."""
    counted = messages.where(sf.col("producer").isNotNull()).groupBy("producer").agg(sf.mode("topic").alias("topic"))
    return {row["producer"]: f"{row['topic']} ({row['producer'][:8]})" for row in counted.collect()}


def _gaps(messages: DataFrame, names: dict[str, str]) -> list[Gap]:
    return [
        Gap(
            row["producer"],
            names[row["producer"]],
            as_utc(row["since"]),
            row["until"] and as_utc(row["until"]),
            row["seconds"],
            row["habit"],
        )
        for row in gaps(messages).orderBy(sf.desc("seconds")).limit(MOST_GAPS).collect()
    ]


def _episodes(rehearsed: DataFrame, names: dict[str, str]) -> list[Episode]:
    """The longest ones."""
    return [
        Episode(
            row["rule"],
            names.get(row["producer"], row["producer"]),
            as_utc(row["since"]),
            row["until"] and as_utc(row["until"]),
            row["seconds"] or 0.0,
            row["value"],
        )
        for row in rehearsed.orderBy(sf.desc_nulls_last("seconds"), "since").limit(MOST_EPISODES).collect()
    ]


def _recorders(messages: DataFrame) -> list[tuple[str, int, float]]:
    whole = balance(messages, timedelta(days=36_500))
    return [(row["recorder"], row["messages"], row["share"]) for row in whole.orderBy("recorder").collect()]


def _chosen(
    spark: SparkSession,
    part: Part,
    messages: DataFrame,
    producer: str | None,
    names: dict[str, str],
    length: timedelta,
) -> Chosen | None:
    numbers = messages.where(sf.col("producer").isNotNull() & finite(sf.col("value")).isNotNull())
    if producer is None:
        most = numbers.groupBy("producer").count().orderBy(sf.desc("count"), "producer").first()
        if most is None:
            return None
        producer = str(most["producer"])
    own = numbers.where(sf.col("producer") == producer)
    width = bucket(length, 90)
    windows = [
        Window(
            as_utc(row["start"]),
            row["numbers"],
            row["min"],
            row["max"],
            row["mean"],
            row["p05"],
            row["p50"],
            row["p95"],
        )
        for row in rollup(own, width, by=()).orderBy("start").collect()
    ]
    share = min(1.0, MOST_POINTS / max(1, sum(window.count for window in windows)))
    points = [
        (as_utc(row["time"]), row["value"]) for row in own.sample(fraction=share, seed=1).orderBy("time").collect()
    ]
    said = reading.changes(spark, part.archive, part.until, part.namespace).where(sf.col("producer") == producer)
    in_order = said.orderBy("time", "epoch", "recorder", "sequence").collect()
    metadata = held(row.asDict() for row in in_order)
    return Chosen(producer, names[producer], metadata, width, windows, points)
