"""The archive as DataFrames, by Spark's own Parquet reader: only what is sealed, and of that the hours asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql import functions as sf

from fumarole.core.payloads import Payloads
from fumarole.core.query.parse import parse
from fumarole.core.query.tree import keys
from fumarole.core.topic import Grammar
from fumarole.pipeline.analysis import without
from fumarole.pipeline.archive.places import Root
from fumarole.pipeline.archive.seals import SealedFile, sealed
from fumarole.pipeline.columns.topic import topic_matches
from fumarole.pipeline.columns.where import METADATA
from fumarole.pipeline.columns.where import where as holds
from fumarole.pipeline.declared import payloads as declarations
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.patterns import grammar_of, literal_start
from fumarole.pipeline.store_reading import read_by_arrow
from fumarole.pipeline.tables import ARCHIVED, CHANGES, DESCRIBED, MESSAGES
from fumarole.pipeline.times import between, moment
from fumarole.pipeline.transforms.decode import decode, timed
from fumarole.pipeline.transforms.enrich import enrich

_S3A: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
NO_S3: Final = (
    "Spark has no connector for S3 here, and writes there only with one; "
    "give it one with --conf spark.jars.packages=org.apache.spark:spark-hadoop-cloud_2.13:"
)
Place = str | os.PathLike[str] | Root
Given = str | os.PathLike[str] | Payloads | list[dict[str, Any]] | None
"""Declarations of payloads: a file, tables of the same form, or both as read."""
_EXACT: Final = {
    "__globPaths__": "false",  # `*` or `[1]` in the name of a folder is a name, not a pattern
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "parquet.page.verify-checksum.enabled": "true",  # a bit that has changed may be read as another value
}


def archive(
    spark: SparkSession,
    path: Place,
    topic: str | None = None,
    where: str | None = None,
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    namespace: str = "default",
    grammar: Grammar | None = None,
    payloads: Given = None,
) -> DataFrame:
    """The messages of an archive that this subscription would have received, in [since, until).

    `topic` is a pattern, of either grammar unless one is given; `where` a query over the metadata that held when the
    message came, its own included (M5), and over the message (F6); `payloads` a file of declarations, or what
    `pipeline.payloads` gives (P6). The column `time` is the sensor's where that is given and believed, else the
    recorder's, which is `recorded` (P7): see `transforms.decode`. Raises PatternError, QueryError, TimeError,
    ArchiveError, PipelineError.
    """
    begin, end = between(since, until)
    matches = None if topic is None else topic_matches("topic", topic, grammar or grammar_of(topic))
    query = None if where is None else parse(where)
    declared = declarations(payloads)
    early, late = _reach(begin, end, declared)
    files = sealed(path, namespace, early, late, literal_start(topic or ">"))
    found = messages_of(spark, files, early, late)
    if matches is not None:
        found = found.where(matches)
    found = by_event_time(found, files, declared)
    if begin is not None:
        found = found.where(sf.col("time") >= sf.lit(begin))
    if end is not None:
        found = found.where(sf.col("time") < sf.lit(end))
    if query is None:
        return found
    readings = found.where(sf.col("producer").isNotNull())
    if not (named := keys(query)):
        return readings.where(holds(query, ARCHIVED))
    described = enrich(readings, changes_of(spark, files), sorted(named))
    return without(described.where(holds(query, DESCRIBED)), METADATA)


def changes(
    spark: SparkSession, path: Place, until: str | datetime | None = None, namespace: str = "default"
) -> DataFrame:
    """The changes of metadata that an archive has, one row for each key. Raises ArchiveError."""
    end = moment(until)
    found = changes_of(spark, sealed(path, namespace, None, end))
    return found if end is None else found.where(sf.col("time") < sf.lit(end))


def _reach(begin: datetime | None, end: datetime | None, declared: Payloads) -> tuple[datetime | None, datetime | None]:
    """When messages may have been recorded whose own time is in the range, where only their payload tells it."""
    if not any(each.time for each in declared.declared):
        return begin, end
    ahead = timedelta(microseconds=max(each.ahead for each in declared.declared))
    behind = timedelta(microseconds=max(each.behind for each in declared.declared))
    return begin and begin - ahead, end and end + behind


def by_event_time(messages: DataFrame, files: Iterable[SealedFile], declared: Payloads) -> DataFrame:
    """Messages of these files with what their payloads say, and by their own times (P6, P7)."""
    if declared.declared:
        return decode(messages, declared)
    if any(file.has_events for file in files):
        return timed(messages)
    # As it is: Parquet's own statistics of the column `time` can be used.
    return messages.withColumns({"recorded": sf.col("time"), "wrong_clock": sf.lit(False)})


def messages_of(
    spark: SparkSession, files: Iterable[SealedFile], since: datetime | None = None, until: datetime | None = None
) -> DataFrame:
    """The messages in these files, as they were recorded. Some that were recorded outside the range may be left out."""
    chosen = [file for file in files if file.kind == "messages"]
    found = _rows(spark, chosen, MESSAGES)
    if any(file.has_events for file in chosen):
        return found
    if since is not None:
        found = found.where(sf.col("time") >= sf.lit(since))
    return found if until is None else found.where(sf.col("time") < sf.lit(until))


def changes_of(spark: SparkSession, files: Iterable[SealedFile]) -> DataFrame:
    """The changes of metadata in these files."""
    return _rows(spark, [file for file in files if file.kind == "changes"], CHANGES)


def _rows(spark: SparkSession, files: list[SealedFile], schema: types.StructType) -> DataFrame:
    """By Spark's own reader, or by pyarrow where the files are in S3 and Spark has no connector for it."""
    if any(map(is_s3, [file.uri for file in files])) and not has_s3(spark):
        return read_by_arrow(spark, files, schema)
    return read_files(spark, [file.uri for file in files], schema)


def read_files(spark: SparkSession, uris: list[str], schema: types.StructType, **options: str) -> DataFrame:
    """The rows of these files or folders: of all of them, and of no others, whatever the session's settings are."""
    if not uris:
        return spark.createDataFrame([], schema)
    if any(map(is_s3, uris)) and not has_s3(spark):
        raise PipelineError(f"{NO_S3}{spark.version}")
    return spark.read.schema(schema).options(**_EXACT, **options).parquet(*map(spark_path, uris))


def spark_path(uri: str) -> str:
    """As Spark has to be told: a path is one of this machine, whatever Spark's usual file system is, and S3 is s3a."""
    if uri.startswith("/"):
        return f"file://{uri}"
    return uri.replace("s3://", "s3a://", 1)


def is_s3(uri: str) -> bool:
    """Is it in S3, or in a store that speaks like it?"""
    return uri.startswith(("s3://", "s3a://"))


def has_s3(spark: SparkSession) -> bool:
    """Has this Spark a connector for S3? Of a Connect server only the server knows: then it is True."""
    java = getattr(spark, "_jvm", None)
    if java is None:
        return True
    try:
        java.java.lang.Thread.currentThread().getContextClassLoader().loadClass(_S3A)
    except Py4JError:
        return False
    return True
