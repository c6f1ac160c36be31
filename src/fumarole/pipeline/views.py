"""Views for SQL: `pipeline.sql(spark, archive)`, and `spark.sql("SELECT …")` just works (P8).

readings   messages with their declared fields, and `metadata` as of their time, a map of texts: metadata['Region']
metadata   what producers said of themselves: time, producer, key, and the value by its kind
rollups    windows: those of a standing job, with their length in `every`, or else of a minute, made when asked for
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from fumarole.pipeline import reading
from fumarole.pipeline.columns.where import METADATA
from fumarole.pipeline.jobs.log import JobError, Log
from fumarole.pipeline.jobs.output import output
from fumarole.pipeline.tables import VALUE_TEXT
from fumarole.pipeline.transforms.enrich import enrich
from fumarole.pipeline.transforms.rollup import rollup

VIEWS = ("readings", "metadata", "rollups")


def sql(
    spark: SparkSession,
    path: reading.Place,
    out: reading.Place | None = None,
    payloads: reading.Given = None,
    namespace: str = "default",
) -> None:
    """Makes the views of an archive, and of the output of a standing job where there is one, in this session.

    Raises ArchiveError, JobError, PipelineError.
    """
    messages = reading.archive(spark, path, namespace=namespace, payloads=payloads)
    changes = reading.changes(spark, path, namespace=namespace)
    described = enrich(messages, changes).withColumn(METADATA, sf.expr(VALUE_TEXT))
    described.createOrReplaceTempView("readings")
    changes.createOrReplaceTempView("metadata")
    made = rollup(messages).withColumn("every", sf.lit("1m")) if out is None else _rollups(spark, out)
    made.createOrReplaceTempView("rollups")


def _rollups(spark: SparkSession, out: reading.Place) -> DataFrame:
    job = Log(out).job()
    if job is None:
        raise JobError(f"there is no output of a job at {out}; `fumarole pipeline run --out` makes one")
    tables = [output(spark, out, "rollup", every).withColumn("every", sf.lit(every)) for every in job.windows]
    return reduce(DataFrame.unionByName, tables)
