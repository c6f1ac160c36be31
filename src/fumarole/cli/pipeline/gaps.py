"""`fumarole pipeline gaps`: when producers were silent for longer than usual."""

from __future__ import annotations

from typing import Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.pipeline.options import Chosen, Engine, Shown
from fumarole.cli.terminal import finite
from fumarole.core.packages import need


@command(
    "pipeline gaps",
    panel="Jobs",
    examples="""
        fumarole pipeline gaps --archive archive --factor 10
    """,
)
def gaps(
    chosen: Chosen,
    *,
    factor: Annotated[
        float, typer.Option(callback=finite, min=1, help="Silent for so many times its habit is a gap.")
    ] = 5.0,
    least: Annotated[str, typer.Option(metavar="DURATION", help="Nothing shorter is a gap.")] = "1 s",
    shown: Shown,
    engine: Engine,
) -> None:
    """Find out when producers were silent for longer than is their habit."""
    need("pipeline", "pyspark")
    from fumarole.cli.pipeline.table import Table, run_batch
    from fumarole.pipeline.times import moment
    from fumarole.pipeline.transforms.gaps import gaps as found

    table = Table(
        "gaps",
        chosen.part,
        lambda spark: found(chosen.part.messages(spark), factor, least, moment(chosen.until)),
        "since",
        ["since", "producer"],
    )
    run_batch(engine, table, shown)
