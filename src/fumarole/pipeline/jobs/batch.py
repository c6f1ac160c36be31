"""Batch jobs: a part of an archive, one transform, a table."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from fumarole.core.query.parse import parse
from fumarole.core.query.tree import keys
from fumarole.pipeline import reading
from fumarole.pipeline.archive.places import open_root
from fumarole.pipeline.archive.seals import check_namespace
from fumarole.pipeline.columns.time import utc_date
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.patterns import grammar_of
from fumarole.pipeline.reading import spark_path
from fumarole.pipeline.times import as_utc, between
from fumarole.pipeline.transforms.enrich import enrich
from fumarole.pipeline.transforms.traffic import summary


@dataclass(frozen=True, slots=True)
class Part:
    """Which messages of an archive."""

    archive: str
    namespace: str = "default"
    topic: str | None = None
    where: str | None = None
    since: str | datetime | None = None
    until: str | datetime | None = None

    def check(self) -> None:
        """Raises PatternError, QueryError, PipelineError, ArchiveError: all that can be known without Spark."""
        between(self.since, self.until)
        if self.topic is not None:
            grammar_of(self.topic)
        if self.where is not None:
            parse(self.where)
        check_namespace(open_root(self.archive), self.namespace)

    def messages(self, spark: SparkSession) -> DataFrame:
        """They themselves. Raises PatternError, QueryError, ArchiveError."""
        return reading.archive(spark, self.archive, self.topic, self.where, self.since, self.until, self.namespace)

    def enriched(self, spark: SparkSession) -> DataFrame:
        """With the metadata that held at their time."""
        return enrich(self.messages(spark), reading.changes(spark, self.archive, self.until, self.namespace))


def write(frame: DataFrame, out: str, by: str | None = "time") -> int:
    """Writes a table as Parquet, by day where it has a column of times; whole or not at all. Returns its rows.

    Raises PipelineError where there is something already.
    """
    from pyspark.sql import Observation

    root = open_root(out)
    if root.exists():
        raise PipelineError(f"{root.name} is there already; name a folder that is not")
    seen = Observation()
    counted = frame.observe(seen, sf.count(sf.lit(1)).alias("rows"))
    place = f"{root.name}.writing-{uuid.uuid4().hex[:8]}" if root.is_local else root.name
    try:
        if by is None:
            counted.write.parquet(spark_path(place))
        else:
            counted.withColumn("date", utc_date(sf.col(by))).write.partitionBy("date").parquet(spark_path(place))
        if root.is_local:
            Path(place).rename(root.name)
    except BaseException:
        if root.is_local:
            shutil.rmtree(place, ignore_errors=True)
        raise
    rows: int = seen.get["rows"]
    return rows


@dataclass(frozen=True, slots=True)
class Received:
    """What a subscription would have received."""

    messages: int
    bytes: int
    topics: int
    producers: int
    first: datetime | None
    last: datetime | None
    busiest_second: int
    unknown_keys: tuple[str, ...] = ()
    """Keys of the query that no producer has ever had: most likely they are misspelt."""


def what_if(spark: SparkSession, part: Part) -> Received:
    """All in all. Raises PatternError, QueryError, ArchiveError."""
    return replace(received(part.messages(spark)), unknown_keys=_unknown_keys(spark, part))


def _unknown_keys(spark: SparkSession, part: Part) -> tuple[str, ...]:
    """Keys that neither a change nor a message of the archive names."""
    asked = set() if part.where is None else set(keys(parse(part.where)))
    if not asked:
        return ()
    said = reading.changes(spark, part.archive, None, part.namespace).select("key")
    unknown = asked - _among(said, asked)
    if unknown:
        messages = reading.archive(spark, part.archive, namespace=part.namespace)
        own = messages.select(sf.explode("changes.key").alias("key"))
        unknown -= _among(own, unknown)
    return tuple(sorted(unknown))


def _among(said: DataFrame, asked: set[str]) -> set[str]:
    return {row["key"] for row in said.where(sf.col("key").isin(*asked)).distinct().collect()}


def received(messages: DataFrame) -> Received:
    """What these are."""
    row = summary(messages).first()
    assert row is not None
    figures: dict[str, Any] = row.asDict()
    for name in ("first", "last"):
        figures[name] = figures[name] and as_utc(figures[name])
    return Received(**figures)
