"""`fumarole pipeline enrich`: each message with the metadata that held at its time."""

from __future__ import annotations

from fumarole.cli.command import command
from fumarole.cli.pipeline.options import Chosen, Shown, WarmSparkOptions
from fumarole.cli.pipeline.warm import in_warm_session
from fumarole.core.packages import need


@command(
    "pipeline enrich",
    panel="Jobs",
    examples="""
        fumarole pipeline enrich --archive archive --since 2026-01-31 --out enriched
    """,
)
@in_warm_session
def enrich(chosen: Chosen, shown: Shown, spark_options: WarmSparkOptions) -> None:
    """Add to each message the metadata that held at its time."""
    need("pipeline", "pyspark")
    from fumarole.cli.pipeline.table import Table, run_batch

    part = chosen.part
    hidden = ["payload", "headers", "changes", "epoch", "sequence", "event_time", "wrong_clock"]
    run_batch(spark_options, Table("enrich", part, part.enriched, "time", ["time"], hidden, "value"), shown)
