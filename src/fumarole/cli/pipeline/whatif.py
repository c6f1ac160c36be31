"""`fumarole pipeline whatif`: what a subscription would have received."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.pipeline.options import Chosen, Shown, SparkOptions, WarmSparkOptions, rules_file
from fumarole.cli.pipeline.warm import in_warm_session
from fumarole.cli.progress import waiting
from fumarole.cli.terminal import MISUSED, YELLOW, count_text, fail, paint, printable, say
from fumarole.core.packages import need

if TYPE_CHECKING:
    from fumarole.core.rules import Rules
    from fumarole.pipeline.jobs.batch import Part


@command(
    "pipeline whatif",
    panel="Jobs",
    examples="""
        fumarole pipeline whatif --archive archive --topic 'volcanoes.>' --where "Region = 'usa'"
        fumarole pipeline whatif --archive archive --rules rules.toml --since 2026-02-01 --until 2026-03-01
    """,
)
@in_warm_session
def whatif(
    chosen: Chosen,
    *,
    rules: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Which alarms these rules, in TOML, would have raised.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --rules: a report with the alarms in it.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object on stdout; with --rules one for each alarm.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="With --rules: alarms to show.")] = 40,
    spark_options: WarmSparkOptions,
) -> None:
    """Show what a subscription would have received, or which alarms rules would have raised."""
    need("pipeline", "pyspark")
    if rules is not None:
        run_rehearsal(spark_options, chosen.part, rules_file(rules), page, Shown(limit=limit, as_json=as_json))
        return
    if page is not None:
        fail("--page is a report of alarms: it needs --rules", MISUSED)
    run_what_if(spark_options, chosen.part, as_json)


def run_rehearsal(spark_options: SparkOptions, part: Part, rules: Rules, page: Path | None, shown: Shown) -> None:
    """Prints a table of alarms, and writes a report with `--page`."""
    from fumarole.cli.pipeline.spark import spark_session, told
    from fumarole.cli.pipeline.table import say_unfit, show_rows
    from fumarole.pipeline.jobs.whatif_rules import rehearse
    from fumarole.pipeline.report.figures import gather
    from fumarole.pipeline.report.page import written

    if not rules.alarms:
        fail("these rules raise no alarms", MISUSED)
    with spark_session(spark_options, "whatif", part) as running, waiting("Spark is at work"):
        found = rehearse(running, part, rules)
        columns = ["rule", "producer", "since", "until", "seconds", "value", "metadata"]
        ordered = found.episodes.orderBy("since", "rule", "producer").persist()
        rows = [row.asDict() for row in ordered.select(*columns).limit(shown.limit + 1).collect()]
        counts = {row["rule"]: row["count"] for row in ordered.groupBy("rule").count().collect()}
        muted = found.muted()
        figures = None if page is None else gather(running, part, rehearsed=ordered)
        ordered.unpersist()
    if page is not None and figures is not None:
        with told():
            page.write_text(written(figures))
    show_rows(rows, columns, shown)
    say_unfit(part)
    each = ", ".join(f"{rule.name} {counts.get(rule.name, 0):,}" for rule in rules.alarms)
    say(f"these rules would have raised {count_text(sum(counts.values()), 'alarm')}: {each}")
    if muted:
        say(paint(f"{count_text(muted, 'alarm')} more over the limit of their rule, not listed", YELLOW, sys.stderr))
    if page is not None:
        say(f"written to {page}")


def run_what_if(spark_options: SparkOptions, part: Part, as_json: bool) -> None:
    """A sentence about what would have been received."""
    from fumarole.cli.pipeline.spark import spark_session
    from fumarole.cli.pipeline.table import plain, say_unfit, shown_text
    from fumarole.pipeline.jobs.batch import what_if

    with spark_session(spark_options, "whatif", part) as running, waiting("Spark is at work"):
        received = what_if(running, part)
    say_unfit(part)
    if as_json:
        sys.stdout.write(json.dumps({name: plain(value) for name, value in asdict(received).items()}) + "\n")
        return
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
