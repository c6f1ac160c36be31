"""`fumarole pipeline rollup`: values summed up by windows of time."""

from __future__ import annotations

from fumarole.cli.command import command
from fumarole.cli.pipeline.options import Chosen, Engine, Every, Shown
from fumarole.core.packages import need


@command(
    "pipeline rollup",
    panel="Jobs",
    examples="""
        fumarole pipeline rollup --archive archive --every '1 minute' --topic 'volcanoes.usa.>'
        fumarole pipeline rollup --archive archive --every '1 hour' --out hourly
    """,
)
def rollup(chosen: Chosen, *, every: Every = "1 minute", shown: Shown, engine: Engine) -> None:
    """Sum values up by windows of time: count, min, mean, max, standard deviation, quantiles."""
    need("pipeline", "pyspark")
    from fumarole.cli.pipeline.table import Table, run_batch
    from fumarole.pipeline.transforms.rollup import rollup as rolled_up

    table = Table(
        "rollup",
        chosen.part,
        lambda spark: rolled_up(chosen.part.messages(spark), every),
        "start",
        ["start", "topic", "producer"],
    )
    run_batch(engine, table, shown)
