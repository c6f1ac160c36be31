"""`fumarole pipeline balance`: each recorder's share of the messages of its group."""

from __future__ import annotations

from fumarole.cli.command import command
from fumarole.cli.pipeline.options import Chosen, Every, Shown, WarmSparkOptions
from fumarole.cli.pipeline.warm import in_warm_session
from fumarole.core.packages import need


@command(
    "pipeline balance",
    panel="Jobs",
    examples="""
        fumarole pipeline balance --archive archive --every '10 minutes'
    """,
)
@in_warm_session
def balance(chosen: Chosen, *, every: Every = "1 hour", shown: Shown, spark_options: WarmSparkOptions) -> None:
    """Show each recorder's share of the messages of its group."""
    need("pipeline", "pyspark")
    from fumarole.cli.pipeline.table import Table, run_batch
    from fumarole.pipeline.transforms.traffic import balance as served

    run_batch(
        spark_options,
        Table(
            "balance",
            chosen.part,
            lambda spark: served(chosen.part.messages(spark), every),
            "start",
            ["start", "recorder"],
            largest="messages",
            columns=("start", "recorder", "messages", "bytes", "share", "evenness"),
        ),
        shown,
    )
