"""The archive as DataFrames, by Spark's own Parquet reader: only what is sealed, and of that the hours asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql import functions as sf

from fumarole.core.query.parse import parse
from fumarole.core.query.tree import keys
from fumarole.core.topic import Grammar
from fumarole.pipeline.archive.places import Root
from fumarole.pipeline.archive.seals import SealedFile, sealed
from fumarole.pipeline.columns.topic import topic_matches
from fumarole.pipeline.columns.where import METADATA
from fumarole.pipeline.columns.where import where as holds
from fumarole.pipeline.patterns import grammar_of
from fumarole.pipeline.tables import CHANGES, MESSAGES
from fumarole.pipeline.times import between, moment
from fumarole.pipeline.transforms.enrich import enrich

Place = str | os.PathLike[str] | Root
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
) -> DataFrame:
    """The messages of an archive that this subscription would have received, in [since, until).

    `topic` is a pattern, of either grammar unless one is given; `where` a query over the metadata that held when the
    message came, its own included (M5), and over the message (F6). Raises PatternError, QueryError, TimeError,
    ArchiveError.
    """
    begin, end = between(since, until)
    matches = None if topic is None else topic_matches("topic", topic, grammar or grammar_of(topic))
    query = None if where is None else parse(where)
    files = sealed(path, namespace, begin, end)
    found = messages_of(spark, files)
    if begin is not None:
        found = found.where(sf.col("time") >= sf.lit(begin))
    if end is not None:
        found = found.where(sf.col("time") < sf.lit(end))
    if matches is not None:
        found = found.where(matches)
    if query is None:
        return found
    readings = found.where(sf.col("producer").isNotNull())
    if not (named := keys(query)):
        return readings.where(holds(query, readings))
    described = enrich(readings, changes_of(spark, files), sorted(named))
    return described.where(holds(query, described)).drop(METADATA)


def changes(
    spark: SparkSession, path: Place, until: str | datetime | None = None, namespace: str = "default"
) -> DataFrame:
    """The changes of metadata that an archive has, one row for each key. Raises ArchiveError."""
    end = moment(until)
    found = changes_of(spark, sealed(path, namespace, None, end))
    return found if end is None else found.where(sf.col("time") < sf.lit(end))


def messages_of(spark: SparkSession, files: Iterable[SealedFile]) -> DataFrame:
    """The messages in these files."""
    return read_files(spark, [file.uri for file in files if file.kind == "messages"], MESSAGES)


def changes_of(spark: SparkSession, files: Iterable[SealedFile]) -> DataFrame:
    """The changes of metadata in these files."""
    return read_files(spark, [file.uri for file in files if file.kind == "changes"], CHANGES)


def read_files(spark: SparkSession, uris: list[str], schema: types.StructType, **options: str) -> DataFrame:
    """The rows of these files or folders: of all of them, and of no others, whatever the session's settings are."""
    if not uris:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).options(**_EXACT, **options).parquet(*map(spark_path, uris))


def spark_path(uri: str) -> str:
    """As Spark has to be told: a path is one of this machine, whatever Spark's usual file system is, and S3 is s3a."""
    if uri.startswith("/"):
        return f"file://{uri}"
    return uri.replace("s3://", "s3a://", 1)
