"""`fumarole pipeline gaps`: silences of producers that are longer than usual."""

from __future__ import annotations

from typing import Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.pipeline.options import Chosen, Shown, WarmSparkOptions
from fumarole.cli.pipeline.warm import in_warm_session
from fumarole.cli.terminal import MISUSED, fail, finite
from fumarole.core.packages import need


@command(
    "pipeline gaps",
    panel="Jobs",
    examples="""
        fumarole pipeline gaps --archive archive --factor 10
    """,
)
@in_warm_session
def gaps(
    chosen: Chosen,
    *,
    factor: Annotated[
        float, typer.Option(callback=finite, min=1, help="A silence longer than so many times the habit is a gap.")
    ] = 5.0,
    least: Annotated[str, typer.Option(metavar="DURATION", help="The shortest gap.")] = "1 s",
    by: Annotated[str, typer.Option(metavar="NAME", help="Silences by producer, or by topic.")] = "producer",
    shown: Shown,
    spark_options: WarmSparkOptions,
) -> None:
    """List silences of producers that are longer than their habit."""
    need("pipeline", "pyspark")
    from fumarole.cli.pipeline.spark import told
    from fumarole.cli.pipeline.table import Table, run_batch
    from fumarole.pipeline.times import duration, moment
    from fumarole.pipeline.transforms.gaps import BY
    from fumarole.pipeline.transforms.gaps import gaps as found

    if by not in BY:
        fail(f"--by: silences are those of a {' or a '.join(BY)}, not of {by!r}", MISUSED)
    part = chosen.part
    with told():
        duration(least)
    table = Table(
        "gaps",
        part,
        lambda spark: found(part.asked(spark), factor, least, moment(chosen.until), by),
        "since",
        ["since", by],
        largest="seconds",
        columns=(by, "since", "until", "seconds", "habit"),
    )
    run_batch(spark_options, table, shown)
