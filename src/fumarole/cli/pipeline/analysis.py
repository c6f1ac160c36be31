"""Commands that work on an archive with Spark: `pipeline run`, `rollup`, `enrich`, `gaps`, `traffic`, and so on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fumarole.cli.pipeline.options import Archive, Namespace, need_pipeline
from fumarole.cli.shared_options import spread
from fumarole.cli.terminal import finite

if TYPE_CHECKING:
    from fumarole.pipeline.jobs.batch import Part

Every = Annotated[str, typer.Option("--every", metavar="DURATION", help="The length of a window: 30s, 1m, 1 hour.")]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which messages of an archive."""

    archive: Archive
    namespace: Namespace = "default"
    topic: Annotated[str | None, typer.Option(metavar="PATTERN", help="Only messages on these topics.")] = None
    where: Annotated[
        str | None,
        typer.Option(metavar="QUERY", help="Only of producers whose metadata, at that time, was like this."),
    ] = None
    since: Annotated[str | None, typer.Option(metavar="TIME", help="From then on. ISO 8601; UTC if it says none.")] = (
        None
    )
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Before then.")] = None

    @property
    def part(self) -> Part:
        from fumarole.pipeline.jobs.batch import Part

        return Part(self.archive, self.namespace, self.topic, self.where, self.since, self.until)


@dataclass(frozen=True, slots=True)
class Shown:
    """What becomes of a table."""

    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write the table there, as Parquet. Left out: show it.")
    ] = None
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Rows to show.")] = 40
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object on stdout for each row.")] = False


@dataclass(frozen=True, slots=True)
class Engine:
    """Where and how Spark runs."""

    master: Annotated[
        str,
        typer.Option(metavar="URL", rich_help_panel="Spark", help="Where Spark runs: local[*], spark://HOST:PORT, …"),
    ] = "local[*]"
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", rich_help_panel="Spark", help="A setting of Spark. May be repeated."),
    ] = None


@spread
def pipeline_run(
    archive: Archive,
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Where the tables are to be, and the job's log.")],
    *,
    namespace: Namespace = "default",
    window: Annotated[
        list[str] | None, typer.Option("--window", metavar="DURATION", help="Rollup windows. May be repeated.")
    ] = None,
    lateness: Annotated[
        str, typer.Option(metavar="DURATION", help="How far behind the newest message the watermark is.")
    ] = "10 minutes",
    interval: Annotated[
        float,
        typer.Option(callback=finite, min=0.1, metavar="SECONDS", help="How often to look for newly sealed files."),
    ] = 5.0,
    batch_rows: Annotated[
        int, typer.Option(min=1, metavar="N", help="At most so many messages at a time.")
    ] = 5_000_000,
    once: Annotated[bool, typer.Option("--once", help="Catch up with the archive, then end.")] = False,
    engine: Engine,
) -> None:
    """Keep readings with their metadata, rollups and gaps up to date with an archive, exactly once."""
    need_pipeline("pyspark")
    from fumarole.cli.pipeline.analysing import run_standing

    windows = window or ["1 minute", "1 hour"]
    run_standing(engine, archive, out, namespace, windows, lateness, interval, batch_rows, once)


@spread
def rollup(chosen: Chosen, *, every: Every = "1 minute", shown: Shown, engine: Engine) -> None:
    """Sum values up by windows of time: count, min, mean, max, standard deviation, quantiles."""
    need_pipeline("pyspark")
    from fumarole.cli.pipeline.analysing import Table, run_batch
    from fumarole.pipeline.transforms.rollup import rollup as rolled_up

    table = Table(
        "rollup",
        chosen.part,
        lambda spark: rolled_up(chosen.part.messages(spark), every),
        "start",
        ["start", "topic", "producer"],
    )
    run_batch(engine, table, shown)


@spread
def enrich(chosen: Chosen, shown: Shown, engine: Engine) -> None:
    """Add to each message the metadata that held at its time."""
    need_pipeline("pyspark")
    from fumarole.cli.pipeline.analysing import Table, run_batch

    hidden = ["payload", "headers", "changes", "epoch", "sequence"]
    run_batch(engine, Table("enrich", chosen.part, chosen.part.enriched, "time", ["time"], hidden), shown)


@spread
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
    need_pipeline("pyspark")
    from fumarole.cli.pipeline.analysing import Table, run_batch
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


@spread
def traffic(
    chosen: Chosen,
    *,
    depth: Annotated[int | None, typer.Option(min=0, metavar="N", help="So many words deep. Left out: all.")] = None,
    shown: Shown,
    engine: Engine,
) -> None:
    """Count messages and bytes by subtree of topics."""
    need_pipeline("pyspark")
    from fumarole.cli.pipeline.analysing import Table, run_batch
    from fumarole.pipeline.transforms.traffic import traffic as by_subtree

    table = Table(
        "traffic",
        chosen.part,
        lambda spark: by_subtree(chosen.part.messages(spark), depth),
        None,
        ["-messages", "depth", "subtree"],
    )
    run_batch(engine, table, shown)


@spread
def balance(chosen: Chosen, *, every: Every = "1 hour", shown: Shown, engine: Engine) -> None:
    """See how evenly the recorders of a group were served."""
    need_pipeline("pyspark")
    from fumarole.cli.pipeline.analysing import Table, run_batch
    from fumarole.pipeline.transforms.traffic import balance as served

    run_batch(
        engine,
        Table(
            "balance",
            chosen.part,
            lambda spark: served(chosen.part.messages(spark), every),
            "start",
            ["start", "recorder"],
        ),
        shown,
    )


@spread
def whatif(
    chosen: Chosen,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object on stdout.")] = False,
    engine: Engine,
) -> None:
    """Find out what a subscription would have received."""
    need_pipeline("pyspark")
    from fumarole.cli.pipeline.analysing import run_what_if

    run_what_if(engine, chosen.part, as_json)


def compact(
    archive: Archive,
    namespace: Namespace = "default",
    target: Annotated[int, typer.Option(min=1, metavar="MIB", help="About how large files are to be.")] = 128,
    settled: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Only hours that ended so long ago: recorders may still add to others."),
    ] = "10 minutes",
    grace: Annotated[
        str, typer.Option(metavar="DURATION", help="How long replaced files stay, for those who read them.")
    ] = "1 hour",
) -> None:
    """Make few large files of many small ones, beside readers and recorders."""
    need_pipeline("pyspark")
    from fumarole.cli.pipeline.analysing import run_compaction

    run_compaction(archive, namespace, target, settled, grace)


@spread
def report(
    chosen: Chosen,
    *,
    page: Annotated[Path, typer.Option(metavar="FILE", help="Where the page is to be.")] = Path("report.html"),
    producer: Annotated[
        str | None, typer.Option(metavar="UUID", help="Whose values to show. Left out: the most talkative one's.")
    ] = None,
    engine: Engine,
) -> None:
    """Make one HTML page of an archive: rates, busy hours, top topics, gaps, and the values of a producer."""
    need_pipeline("pyspark", "matplotlib")
    from fumarole.cli.pipeline.analysing import run_report

    run_report(engine, chosen.part, page, producer)


def demo(
    folder: Annotated[Path, typer.Option(metavar="DIR", help="Where everything is put; new or empty.")] = Path(
        "pipeline"
    ),
    seconds: Annotated[
        float, typer.Option(callback=finite, min=5, metavar="SECONDS", help="How long the stations are observed.")
    ] = 60.0,
    rate: Annotated[float, typer.Option(callback=finite, min=1, metavar="N", help="Readings a second.")] = 2000.0,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="The broker's; 0 is any free one.")] = 0,
) -> None:
    """Watch the whole pipeline: broker, simulated stations, recorders, the standing job, and a report."""
    need_pipeline("pyspark", "matplotlib")
    from fumarole.cli.pipeline.analysing import told
    from fumarole.demo.pipeline import demonstrate
    from fumarole.pipeline.jobs.spark import check_java

    with told():
        check_java()
        demonstrate(folder, seconds, rate, port)
