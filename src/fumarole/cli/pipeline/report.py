"""`fumarole pipeline report`: one HTML page of an archive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.pipeline.options import Chosen, SparkOptions, WarmSparkOptions
from fumarole.cli.pipeline.warm import in_warm_session
from fumarole.cli.progress import waiting
from fumarole.cli.terminal import MISUSED, fail, say
from fumarole.core.packages import need

if TYPE_CHECKING:
    from fumarole.pipeline.jobs.batch import Part


@command(
    "pipeline report",
    panel="Jobs",
    examples="""
        fumarole pipeline report --archive archive --page report.html
    """,
)
@in_warm_session
def report(
    chosen: Chosen,
    *,
    page: Annotated[Path, typer.Option(metavar="FILE", help="The file for the page.")] = Path("report.html"),
    producer: Annotated[
        str | None,
        typer.Option(
            metavar="UUID", help="The producer whose values are shown. Left out: the one with the most messages."
        ),
    ] = None,
    spark_options: WarmSparkOptions,
) -> None:
    """Make one HTML page of an archive: rates, busy hours, top topics, gaps, and the values of a producer."""
    need("pipeline", "pyspark", "matplotlib")
    run_report(spark_options, chosen.part, page, producer)


def run_report(spark_options: SparkOptions, part: Part, page: Path, producer: str | None) -> None:
    """One page."""
    from fumarole.cli.pipeline.spark import spark_session, told
    from fumarole.cli.pipeline.table import say_unfit
    from fumarole.pipeline.report.figures import gather
    from fumarole.pipeline.report.page import written

    if not page.absolute().parent.is_dir():
        fail(f"{page} cannot be written: {page.parent} is no folder", MISUSED)
    with spark_session(spark_options, "report", part) as running, waiting("Spark is running"):
        figures = gather(running, part, producer)
        say_unfit(part)
    with told():
        page.write_text(written(figures))
    say(f"written to {page}")
