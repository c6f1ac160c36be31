"""`fumarole pipeline sql`: run SQL over an archive."""

from __future__ import annotations

from typing import Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.pipeline.options import Archive, Declared, Namespace, Shown, WarmSparkOptions, declarations
from fumarole.cli.pipeline.warm import in_warm_session
from fumarole.core.packages import need


@command(
    "pipeline sql",
    panel="Jobs",
    examples="""
        fumarole pipeline sql --archive archive "SELECT topic, count(*) FROM readings GROUP BY topic"
        fumarole pipeline sql --archive archive "SELECT metadata['Region'], avg(value) FROM readings GROUP BY 1"
    """,
)
@in_warm_session
def sql(
    query: Annotated[str, typer.Argument(help="SQL over the views readings, metadata and rollups.")],
    *,
    archive: Archive,
    namespace: Namespace = "default",
    tables: Annotated[
        str | None, typer.Option(metavar="DIR", help="The output of a standing job, for rollups. Left out: made now.")
    ] = None,
    payloads: Declared = None,
    shown: Shown,
    spark_options: WarmSparkOptions,
) -> None:
    """Run SQL over readings with their fields and metadata, over metadata, and over rollups."""
    need("pipeline", "pyspark")
    from pyspark.sql import DataFrame, SparkSession

    from fumarole.cli.pipeline.table import Table, run_batch
    from fumarole.pipeline.jobs.batch import Part
    from fumarole.pipeline.views import sql as views

    declared = declarations(payloads)

    def answered(spark: SparkSession) -> DataFrame:
        views(spark, archive, tables, declared, namespace)
        return spark.sql(query)

    run_batch(spark_options, Table("sql", Part(archive, namespace), answered, None, []), shown)
