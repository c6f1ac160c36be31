"""What the commands of `analysis` do: a Spark session, a job, and a table, a line or a page for a person."""

from __future__ import annotations

import json
import math
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from fumarole.cli.pipeline.analysis import Engine, Shown
from fumarole.cli.progress import waiting
from fumarole.cli.terminal import (
    INTERRUPTED,
    MISUSED,
    YELLOW,
    count_text,
    duration_text,
    fail,
    paint,
    printable,
    say,
    trouble_text,
)
from fumarole.core.errors import FumaroleError, PatternError
from fumarole.core.query.errors import QueryError
from fumarole.pipeline.archive.places import open_root
from fumarole.pipeline.archive.seals import check_namespace
from fumarole.pipeline.errors import TimeError
from fumarole.pipeline.jobs.batch import Part, what_if, write
from fumarole.pipeline.jobs.compacting import DamagedError, compact, sweep
from fumarole.pipeline.jobs.failures import FAILURES, in_short
from fumarole.pipeline.jobs.spark import session
from fumarole.pipeline.jobs.standing import Progress, StandingJob, alone, run
from fumarole.pipeline.times import as_utc, duration


@contextmanager
def spark_session(engine: Engine, name: str, part: Part | None = None) -> Iterator[SparkSession]:
    """A session for a command, on a part of an archive; what goes wrong in it becomes one line."""
    settings = dict(_setting(text) for text in engine.conf or [])
    if part is not None:
        with told():
            part.check()  # whatever can be known without Spark, whose start takes a while
    folder = Path(tempfile.mkdtemp(prefix="fumarole-spark-"))
    complaints = folder / "spark.log"
    with told(complaints):
        try:
            with waiting("starting Spark"):
                spark = session(f"fumarole {name}", engine.master, settings, complaints)
            try:
                yield spark
            finally:
                spark.stop()
        except FAILURES:
            raise  # what Spark had to say is kept, for whoever wants to know more
        except BaseException:
            shutil.rmtree(folder)
            raise
    shutil.rmtree(folder)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        fail(f"--conf takes KEY=VALUE, not {text!r}", MISUSED)
    return key, value


@contextmanager
def told(complaints: Path | None = None) -> Iterator[None]:
    """Errors become one line, and Ctrl-C ends quietly."""
    try:
        yield
    except QueryError as error:
        fail(error.caret(), MISUSED)
    except (PatternError, TimeError) as error:
        fail(str(error), MISUSED)
    except FumaroleError as error:
        fail(str(error))
    except OSError as error:
        fail(trouble_text(error))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except FAILURES as error:
        fail(f"Spark: {in_short(error)}" + (f" (more in {complaints})" if complaints else ""))


# The standing job.


def run_standing(
    engine: Engine,
    archive: str,
    out: str,
    namespace: str,
    windows: list[str],
    lateness: str,
    interval: float,
    batch_rows: int,
    once: bool,
) -> None:
    """Batches until it is told to stop, or has caught up."""
    with told():
        check_namespace(open_root(archive), namespace)
        for each in (*windows, lateness):
            duration(each)
    stop = threading.Event()
    with told(), alone(out), spark_session(engine, "run") as spark:
        # Spark sets a handler of its own for Ctrl-C, so this comes after it.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        job = StandingJob(spark, archive, out, namespace, windows, lateness, batch_rows)
        before = job.state.number
        if before:
            say(f"going on after batch {job.state.number:,}, with {count_text(job.state.messages, 'message')} done")
        follow = f"following {archive}, a look every {interval:g} s; Ctrl-C ends"
        say(f"catching up with {archive}" if once else follow)
        run(job, tell, warn, once, interval, stop.wait)
        batches = "1 batch" if job.state.number == 1 else f"{job.state.number:,} batches"
        new = "" if job.state.number > before else "nothing new: "
        say(f"{new}{count_text(job.state.messages, 'message')} in {batches}")


def tell(progress: Progress) -> None:
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
    parts += [f"{count_text(progress.left, 'file')} to go"] if progress.left else []
    say("  ".join(parts))
    for line in progress.aside:
        say(paint(f"set aside, not read: {printable(line)}", YELLOW, sys.stderr))


def warn(file: str) -> None:
    """A line about a file that cannot be had, and may be later."""
    say(paint(f"not read yet: {printable(file)}", YELLOW, sys.stderr))


# Tables.


@dataclass(frozen=True, slots=True)
class Table:
    """What a command makes, and how it is laid out and shown."""

    name: str
    part: Part
    made: Callable[[SparkSession], DataFrame]
    by: str | None
    """The column of times by which it is laid out."""
    order: list[str]
    hidden: list[str] = field(default_factory=list)


def run_batch(engine: Engine, table: Table, shown: Shown) -> None:
    """One table, written or shown."""
    with spark_session(engine, table.name, table.part) as spark:
        frame = table.made(spark)
        if shown.out is not None:
            with waiting("Spark is at work"):
                rows = write(frame, shown.out, table.by)
            say(f"{count_text(rows, 'row')} written to {shown.out}")
            return
        order = [sf.desc(name[1:]) if name.startswith("-") else sf.asc(name) for name in table.order]
        columns = [column for column in frame.columns if column not in table.hidden]
        with waiting("Spark is at work"):
            rows_shown = frame.orderBy(*order).select(*columns).limit(shown.limit + 1).collect()
        _show([row.asDict(recursive=True) for row in rows_shown], columns, shown)


def _show(rows: list[dict[str, Any]], columns: list[str], shown: Shown) -> None:
    if shown.as_json:
        for row in rows[: shown.limit]:
            sys.stdout.write(json.dumps({name: _plain(value) for name, value in row.items()}) + "\n")
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as Grid

    table = Grid(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        numeric = any(isinstance(row[name], int | float) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows[: shown.limit]:
        table.add_row(*[escape(_text(row[name])) for name in columns])
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    if len(rows) > shown.limit:
        say(f"more than {count_text(shown.limit, 'row')}: --limit shows more, --out writes all")


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return as_utc(value).replace(tzinfo=None).isoformat()
    if isinstance(value, dict):
        return {key: _metadata(each) if isinstance(each, dict) else each for key, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None  # the mean of numbers whose sum is none; JSON has no word for it
    return value


def _metadata(value: dict[str, Any]) -> Any:
    kind = value.get("kind")
    exact = value.get("text") if kind == "number" else None
    return value.get(str(kind)) if exact is None else int(exact)


def _text(value: Any) -> str:
    match value:
        case None:
            return "–"
        case datetime():
            fraction = f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
            return f"{as_utc(value):%Y-%m-%d %H:%M:%S}{fraction}"
        case float():
            return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.1f}"
        case int():
            return f"{value:,}"
        case dict():
            return ", ".join(f"{printable(key)} = {each!r}" for key, each in _plain(value).items())
        case _:
            return printable(str(value))


def run_what_if(engine: Engine, part: Part, as_json: bool) -> None:
    """A sentence about what would have been received."""
    with spark_session(engine, "whatif", part) as running, waiting("Spark is at work"):
        received = what_if(running, part)
    if as_json:
        sys.stdout.write(json.dumps({name: _plain(value) for name, value in asdict(received).items()}) + "\n")
        return
    if received.first is None or received.last is None:
        sys.stdout.write("This subscription would have received nothing.\n")
        return
    sys.stdout.write(
        f"This subscription would have received {count_text(received.messages, 'message')} "
        f"({received.bytes:,} bytes) on {count_text(received.topics, 'topic')} "
        f"from {count_text(received.producers, 'producer')},\n"
        f"between {_text(received.first)} and {_text(received.last)}, "
        f"at most {received.busiest_second:,} in a second.\n"
    )


def run_compaction(archive: str, namespace: str, target: int, settled: str, grace: str) -> None:
    """Says what became of which files, and which could not be read."""
    with told():
        root = open_root(archive)
        files = made = 0
        damaged: DamagedError | None = None
        try:
            for step in compact(root, namespace, target=target << 20, settled=duration(settled)):
                became = f"{step.before:,} bytes, now {step.after:,}"
                say(f"{printable(step.path)}: {count_text(step.rows, 'row')} of {step.files:,} files, {became}")
                files, made = files + step.files, made + 1
        except DamagedError as error:
            damaged = error
        swept = sweep(root, namespace, grace=duration(grace))
        say(f"{files:,} files became {made:,}; {swept:,} that were replaced before have been deleted")
        if damaged is not None:
            raise damaged


def run_report(engine: Engine, part: Part, page: Path, producer: str | None) -> None:
    """One page."""
    from fumarole.pipeline.report.figures import gather
    from fumarole.pipeline.report.page import written

    if not page.absolute().parent.is_dir():
        fail(f"{page} cannot be written: {page.parent} is no folder", MISUSED)
    with spark_session(engine, "report", part) as running, waiting("Spark is at work"):
        figures = gather(running, part, producer)
    with told():
        page.write_text(written(figures))
    say(f"written to {page}")
