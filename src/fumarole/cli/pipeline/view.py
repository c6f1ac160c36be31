"""`fumarole pipeline view`: what a live view showed at a time."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.pipeline.options import Archive, Namespace, WarmSparkOptions
from fumarole.cli.pipeline.warm import in_warm_session
from fumarole.cli.progress import waiting
from fumarole.cli.terminal import json_text
from fumarole.core.packages import need


@command(
    "pipeline view",
    panel="Jobs",
    examples="""
        fumarole pipeline view --archive archive "select Region, count(*) where Status = 'failed'"
        fumarole pipeline view --archive archive "select Room where Kind = 'thermostat'" --at 2026-01-31T12:00
    """,
)
@in_warm_session
def view(
    text: Annotated[str, typer.Argument(metavar="VIEW", help="select KEY, … [, count(*)] where QUERY")],
    *,
    archive: Archive,
    namespace: Namespace = "default",
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="As of this time. ISO 8601; UTC without an offset. Left out: the last change."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, as `fumarole view --once` has it.")] = False,
    spark_options: WarmSparkOptions,
) -> None:
    """Show the entries of a view as of any time of an archive."""
    need("pipeline", "pyspark")
    from fumarole.cli.pipeline.spark import spark_session, told
    from fumarole.cli.view import show_entries
    from fumarole.core.query.view import arrays, parse_view
    from fumarole.pipeline import reading
    from fumarole.pipeline.jobs.batch import Part
    from fumarole.pipeline.times import moment
    from fumarole.pipeline.transforms.view import entries
    from fumarole.pipeline.transforms.view import view as found

    with told():
        asked, time = parse_view(text), moment(at)
    with spark_session(spark_options, "view", Part(archive, namespace)) as spark, waiting("Spark is at work"):
        rows = arrays(entries(found(reading.changes(spark, archive, namespace=namespace), asked, time)))
    if as_json:
        sys.stdout.write(json_text({"New": rows, "Del": []}) + "\n")
        return
    show_entries(asked, [tuple(row) for row in rows])
