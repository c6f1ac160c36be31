"""`fumarole pipeline traffic`: messages and bytes by subtree of topics."""

from __future__ import annotations

from typing import Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.pipeline.options import Chosen, Shown, WarmSparkOptions
from fumarole.cli.pipeline.warm import in_warm_session
from fumarole.core.packages import need


@command(
    "pipeline traffic",
    panel="Jobs",
    examples="""
        fumarole pipeline traffic --archive archive --depth 2
    """,
)
@in_warm_session
def traffic(
    chosen: Chosen,
    *,
    depth: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The depth of the subtrees in words. Left out: all words.")
    ] = None,
    shown: Shown,
    spark_options: WarmSparkOptions,
) -> None:
    """Count messages and bytes by subtree of topics."""
    need("pipeline", "pyspark")
    from fumarole.cli.pipeline.table import Table, run_batch
    from fumarole.pipeline.transforms.traffic import traffic as by_subtree

    part = chosen.part
    table = Table(
        "traffic",
        part,
        lambda spark: by_subtree(part.asked(spark), depth),
        None,
        ["-messages", "depth", "subtree"],
        largest="messages",
        columns=("subtree", "depth", "topics", "messages", "bytes"),
    )
    run_batch(spark_options, table, shown)
