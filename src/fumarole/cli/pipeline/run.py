"""`fumarole pipeline run`: the standing job, which keeps tables up to date with an archive."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.pipeline.options import Archive, Declared, Namespace, SparkOptions, declarations
from fumarole.cli.terminal import YELLOW, count_text, duration_text, finite, paint, printable, say
from fumarole.core.packages import need

if TYPE_CHECKING:
    from fumarole.core.payloads import Payloads
    from fumarole.pipeline.jobs.standing import BatchReport


@command(
    "pipeline run",
    panel="Jobs",
    examples="""
        fumarole pipeline run --archive archive --out tables
        fumarole pipeline run --archive archive --out tables --once --window '10 s' --window '1 hour'
        fumarole pipeline run --archive archive --out tables --tables my_tables.py
        fumarole pipeline run --archive /shared/archive --out /shared/tables --master spark://head:7077
    """,
)
def pipeline_run(
    archive: Archive,
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="The folder for the tables and the job's log.")],
    *,
    namespace: Namespace = "default",
    window: Annotated[
        list[str] | None, typer.Option("--window", metavar="DURATION", help="Rollup windows. May be repeated.")
    ] = None,
    lateness: Annotated[
        str, typer.Option(metavar="DURATION", help="The distance of the watermark behind the newest message.")
    ] = "10 minutes",
    interval: Annotated[
        float,
        typer.Option(
            callback=finite, min=0.1, metavar="SECONDS", help="The time between two looks for new sealed files."
        ),
    ] = 5.0,
    batch_rows: Annotated[int, typer.Option(min=1, metavar="N", help="Messages in one batch, at most.")] = 5_000_000,
    once: Annotated[bool, typer.Option("--once", help="Catch up with the archive, then end.")] = False,
    payloads: Declared = None,
    tables: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A module with tables of your own: @pipeline.table(NAME, key=[…])."),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="RULES",
            help="Delete what is older, every hour: 'raw 30 days, 1m 1 year, 1h forever'. See `expire`.",
        ),
    ] = None,
    spark_options: SparkOptions,
) -> None:
    """Keep readings with their metadata, rollups and gaps up to date with an archive, exactly once."""
    need("pipeline", "pyspark")
    windows = window or ["1 minute", "1 hour"]
    declared = declarations(payloads)
    run_standing(
        spark_options, archive, out, namespace, windows, lateness, interval, batch_rows, once, declared, tables, keep
    )


def run_standing(
    spark_options: SparkOptions,
    archive: str,
    out: str,
    namespace: str,
    windows: list[str],
    lateness: str,
    interval: float,
    batch_rows: int,
    once: bool,
    payloads: Payloads | None = None,
    tables: Path | None = None,
    keep: str | None = None,
) -> None:
    """Runs batches until Ctrl-C or SIGTERM, or until it has caught up."""
    from fumarole.cli.pipeline.spark import check_out, spark_session, told
    from fumarole.pipeline.archive.places import open_root
    from fumarole.pipeline.archive.seals import check_namespace
    from fumarole.pipeline.jobs.expiring import kept
    from fumarole.pipeline.jobs.own_tables import own_tables
    from fumarole.pipeline.jobs.standing import StandingJob, alone, run
    from fumarole.pipeline.jobs.table_files import check_tiers
    from fumarole.pipeline.times import duration, shown

    with told():
        check_namespace(open_root(archive), namespace)
        for each in (*windows, lateness):
            duration(each)
        rules = None if keep is None else kept(keep)
        check_tiers(rules or {}, [shown(duration(each)) for each in windows])
        own = [] if tables is None else own_tables(tables)
    check_out(spark_options, out)
    stop = threading.Event()
    with told(), alone(out), spark_session(spark_options, "run") as spark:
        # Spark installs a handler of its own for Ctrl-C, so this handler is installed after Spark's.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        job = StandingJob(spark, archive, out, namespace, windows, lateness, batch_rows, payloads, own=own)
        before = job.state.number
        if before:
            say(f"going on after batch {job.state.number:,}, with {count_text(job.state.messages, 'message')} done")
        follow = f"following {archive}, a look every {interval:g} s; Ctrl-C ends"
        say(f"catching up with {archive}" if once else follow)
        run(job, tell, warn, once, interval, stop.wait, rules)
        batches = "1 batch" if job.state.number == 1 else f"{job.state.number:,} batches"
        new = "" if job.state.number > before else "nothing new: "
        say(f"{new}{count_text(job.state.messages, 'message')} in {batches}")


def tell(progress: BatchReport) -> None:
    """A line about a batch, and one for each file that could not be read."""
    parts = [
        f"batch {progress.number:,}",
        count_text(progress.rows, "row"),
        f"{progress.rate:,.0f} rows/s",
        f"{progress.seconds:.1f} s",
    ]
    parts += [] if progress.lag is None else [f"lag {duration_text(progress.lag)}"]
    parts += [f"watermark {progress.watermark:%Y-%m-%d %H:%M:%S}"] if progress.watermark else []
    parts += [f"{progress.late:,} late"] if progress.late else []
    parts += [f"{progress.again:,} described anew"] if progress.again else []
    parts += [f"{progress.unfit:,} not as declared"] if progress.unfit else []
    parts += [f"{count_text(progress.left, 'file')} to go"] if progress.left else []
    say("  ".join(parts))
    for line in progress.aside:
        say(paint(f"set aside, not read: {printable(line)}", YELLOW, sys.stderr))


def warn(file: str) -> None:
    """A line about a file that cannot be read now."""
    say(paint(f"not read yet: {printable(file)}", YELLOW, sys.stderr))
