"""`fumarole pipeline whatif`: what a subscription would have received."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.pipeline.options import Chosen, SparkOptions, WarmSparkOptions
from fumarole.cli.pipeline.warm import in_warm_session
from fumarole.cli.progress import waiting
from fumarole.cli.terminal import YELLOW, count_text, paint, printable, say
from fumarole.core.packages import need

if TYPE_CHECKING:
    from fumarole.pipeline.jobs.batch import Part


@command(
    "pipeline whatif",
    panel="Jobs",
    examples="""
        fumarole pipeline whatif --archive archive --topic 'volcanoes.>' --where "Region = 'usa'"
    """,
)
@in_warm_session
def whatif(
    chosen: Chosen,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object on stdout.")] = False,
    spark_options: WarmSparkOptions,
) -> None:
    """Find out what a subscription would have received."""
    need("pipeline", "pyspark")
    run_what_if(spark_options, chosen.part, as_json)


def run_what_if(spark_options: SparkOptions, part: Part, as_json: bool) -> None:
    """A sentence about what would have been received."""
    from fumarole.cli.pipeline.spark import spark_session
    from fumarole.cli.pipeline.table import plain, say_unfit, shown_text
    from fumarole.pipeline.jobs.batch import what_if

    with spark_session(spark_options, "whatif", part) as running, waiting("Spark is at work"):
        received = what_if(running, part)
    if as_json:
        sys.stdout.write(json.dumps({name: plain(value) for name, value in asdict(received).items()}) + "\n")
        return
    say_unfit(part)
    for key in received.unknown_keys:
        say(paint(f"no producer in this archive has ever had the key {printable(key)}", YELLOW, sys.stderr))
    if received.first is None or received.last is None:
        sys.stdout.write("This subscription would have received nothing.\n")
        return
    sys.stdout.write(
        f"This subscription would have received {count_text(received.messages, 'message')} "
        f"({received.bytes:,} bytes) on {count_text(received.topics, 'topic')} "
        f"from {count_text(received.producers, 'producer')},\n"
        f"between {shown_text(received.first)} and {shown_text(received.last)}, "
        f"at most {received.busiest_second:,} in a second.\n"
    )
