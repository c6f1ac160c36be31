"""Batch jobs: a part of an archive, one transform, a table."""

from __future__ import annotations

import shutil
import threading
import uuid
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession, types
from pyspark.sql import functions as sf

from fumarole.core.payloads import NUMBERS, Payloads
from fumarole.core.query.parse import parse
from fumarole.core.query.tree import keys
from fumarole.pipeline import reading
from fumarole.pipeline.archive.places import open_root
from fumarole.pipeline.archive.seals import check_namespace
from fumarole.pipeline.columns import where as columns
from fumarole.pipeline.columns.time import utc_date
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.patterns import grammar_of
from fumarole.pipeline.reading import spark_path
from fumarole.pipeline.shipping import is_remote
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
    payloads: Payloads = field(default_factory=Payloads)
    value_field: str | None = None
    """The declared field that is the value; None: the one that is declared to be it."""
    value: str | None = None
    """A test on the value, without its name: `> 80`."""
    _seen: list[tuple[SparkSession, Observation]] = field(default_factory=list, compare=False, repr=False)

    def check(self) -> None:
        """Raises PatternError, QueryError, PipelineError, ArchiveError: all that can be known without Spark."""
        between(self.since, self.until)
        if self.topic is not None:
            grammar_of(self.topic)
        if self.where is not None:
            parse(self.where)
        if self.value is not None:
            parse(f"value {self.value}")
        self._check_field()
        check_namespace(open_root(self.archive), self.namespace)

    def messages(self, spark: SparkSession) -> DataFrame:
        """They themselves. Raises PatternError, QueryError, ArchiveError."""
        found = reading.archive(
            *(spark, self.archive, self.topic, self.where, self.since, self.until, self.namespace),
            payloads=self.payloads,
        )
        if self.payloads.declared:
            seen = Observation()
            found = found.observe(seen, sf.count_if(~sf.col("fits")).alias("unfit"))
            self._seen.append((spark, seen))
        column, test = self._value_column(), self._value_test()
        found = found if column is None else found.withColumn("value", column)
        return found if test is None else found.where(test)

    def unfit(self) -> int:
        """How many payloads were not as declared, among the messages that the last job has read (P6)."""
        if not self._seen:
            return 0
        found: list[int] = []
        spark, seen = self._seen[-1]
        _wait_for_counts(spark)

        def ask() -> None:
            with suppress(Py4JError, PySparkException):  # of a job with nothing to do Spark has a row without columns
                found.append(seen.get["unfit"])

        # Where Spark finds out that a job has nothing to do it does not say that nothing was counted.
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(COUNTED_SECONDS)
        return found[0] if found else 0

    def asked(self, spark: SparkSession) -> DataFrame:
        """Without the server's own topics, unless the pattern names them: of these no question is about sensors."""
        messages = self.messages(spark)
        return messages if (self.topic or "").startswith(OWN) else messages.where(~_is_own())

    def changes(self, spark: SparkSession) -> DataFrame:
        """What is needed to know the metadata that held at their time."""
        return reading.changes(spark, self.archive, None, self.namespace)

    def enriched(self, spark: SparkSession) -> DataFrame:
        """With the metadata that held at their time."""
        return enrich(self.messages(spark), self.changes(spark))

    def _value_test(self) -> Column | None:
        if self.value is None:
            return None
        return columns.where(f"value {self.value}", types.StructType().add("value", types.DoubleType()))

    def _value_column(self) -> Column | None:
        return None if self.value_field is None else sf.col("fields")[self.value_field].cast("double")

    def _check_field(self) -> None:
        numbers = [name for name, kind in self.payloads.types.items() if kind in NUMBERS]
        if self.value_field is not None and self.value_field not in numbers:
            known = f"there are {', '.join(numbers)}" if numbers else "none is declared; --payloads names a file"
            raise PipelineError(f"no payload is declared to have a number {self.value_field!r}; {known}")


COUNTED_SECONDS: Final = 2.0
MOST_MILLISECONDS: Final = 20_000
OWN: Final = ("_FORGOTTEN", "_INBOX", "$")
"""How topics of the server itself begin."""


def _wait_for_counts(spark: SparkSession) -> None:
    """Spark hands on what a job has counted after the job's end, on a busy machine seconds later."""
    if is_remote(spark):
        return  # there it comes with the rows
    with suppress(Py4JError):
        context: Any = spark.sparkContext._jsc
        context.sc().listenerBus().waitUntilEmpty(MOST_MILLISECONDS)


def _is_own() -> Column:
    return reduce(or_, [sf.col("topic").startswith(begin) for begin in OWN])


def write(frame: DataFrame, out: str, by: str | None = "time") -> int:
    """Writes a table as Parquet, by day where it has a column of times; whole or not at all. Returns its rows.

    Raises PipelineError where there is something already.
    """
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
