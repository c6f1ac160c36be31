"""Rules over an archive: the alarms that they would have raised, by the code of the live job (P13)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from fumarole.core.rules import Rules
from fumarole.pipeline.jobs.batch import Part
from fumarole.pipeline.times import as_utc, moment
from fumarole.pipeline.transforms.alarms import as_alarms, watched

COLUMNS: Final = ("rule", "producer", "since", "until", "seconds", "value", "metadata", "topic")


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What rules would have done."""

    begin: datetime | None
    end: datetime | None
    """When the first and the last message was heard; None: there was none."""
    episodes: DataFrame
    """For each alarm one row: see `episodes`."""
    counted: Observation

    def muted(self) -> int:
        """Alarms over the limit of their rule, which are not among the episodes. Known when these were asked for."""
        return int(self.counted.get["muted"] or 0)


def rehearse(spark: SparkSession, part: Part, rules: Rules) -> Rehearsal:
    """Goes through a part of an archive. Metadata is known from before it; nothing else is.

    Raises PatternError, QueryError, PipelineError.
    """
    messages = part.messages(spark)
    heard = messages.agg(sf.min("recorded").alias("begin"), sf.max("recorded").alias("end")).first()
    assert heard is not None
    begin, end = (None if heard[name] is None else as_utc(heard[name]) for name in ("begin", "end"))
    asked = moment(part.until)
    until = end if asked is None or end is None else max(asked, end)
    changes = part.changes(spark)
    if until is not None:
        changes = changes.where(sf.col("time") <= sf.lit(until))
    counted = Observation()
    rows = watched(messages, Rules(rules.alarms), changes, until).observe(counted, sf.sum("muted").alias("muted"))
    return Rehearsal(begin, end, episodes(as_alarms(rows), until), counted)


def episodes(said: DataFrame, until: datetime | None = None) -> DataFrame:
    """Alarms from their begin to their end: rule, producer, since, until (null: still open), seconds, and the value,
    metadata and topic with which it was raised. Of one that is open seconds are counted `until` then.

    Alarms that begin at the same time have other numbers: see `again` in `core.alarms`.
    """
    raised = sf.col("state") == "raised"
    first = [sf.max(sf.when(raised, sf.col(name))).alias(name) for name in ("value", "metadata", "topic")]
    ended = sf.coalesce(sf.col("until"), sf.lit(until).cast("timestamp"))
    seconds = (sf.unix_micros(ended) - sf.unix_micros("since")) / 1e6
    again = sf.get_json_object("payload", "$.again").alias("again")
    whole = said.groupBy("rule", "producer", "since", again).agg(sf.max("until").alias("until"), *first)
    return whole.withColumn("seconds", seconds).select(*COLUMNS)
