"""Commands that work on an archive with Spark: `pipeline run`, `rollup`, `enrich`, `gaps`, `traffic`, and so on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fumarole.app.commands.pipeline import Archive, Namespace, need_pipeline

Topic = Annotated[str | None, typer.Option("--topic", metavar="PATTERN", help="Only messages on these topics.")]
Where = Annotated[
    str | None,
    typer.Option("--where", metavar="QUERY", help="Only of producers whose metadata, at that time, was like this."),
]
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="From then on. ISO 8601; UTC if it says none.")
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Before then.")]
Master = Annotated[
    str, typer.Option("--master", metavar="URL", help="Where Spark runs: local[*], spark://HOST:PORT, …")
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark. May be repeated.")
]
Out = Annotated[
    str | None, typer.Option("--out", metavar="DIR", help="Write the table there, as Parquet. Left out: show it.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, metavar="N", help="Rows to show.")]
AsJson = Annotated[bool, typer.Option("--json", help="A JSON object on stdout for each row.")]
Every = Annotated[str, typer.Option("--every", metavar="DURATION", help="The length of a window: 30s, 1m, 1 hour.")]


def pipeline_run(
    archive: Archive,
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Where the tables are to be, and the job's log.")],
    namespace: Namespace = "default",
    window: Annotated[
        list[str] | None, typer.Option("--window", metavar="DURATION", help="Rollup windows. May be repeated.")
    ] = None,
    lateness: Annotated[
        str, typer.Option(metavar="DURATION", help="How far behind the newest message the watermark is.")
    ] = "10 minutes",
    interval: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="How often to look for newly sealed files.")
    ] = 5.0,
    batch_rows: Annotated[
        int, typer.Option(min=1, metavar="N", help="At most so many messages at a time.")
    ] = 5_000_000,
    once: Annotated[bool, typer.Option("--once", help="Catch up with the archive, then end.")] = False,
    master: Master = "local[*]",
    conf: Conf = None,
) -> None:
    """Keep readings with their metadata, rollups and gaps up to date with an archive, exactly once."""
    need_pipeline()
    from fumarole.app.commands.analysing import run_standing

    windows = window or ["1 minute", "1 hour"]
    run_standing(archive, out, namespace, windows, lateness, interval, batch_rows, once, master, conf or [])


def rollup(
    archive: Archive,
    every: Every = "1 minute",
    namespace: Namespace = "default",
    topic: Topic = None,
    where: Where = None,
    since: Since = None,
    until: Until = None,
    out: Out = None,
    limit: Limit = 40,
    as_json: AsJson = False,
    master: Master = "local[*]",
    conf: Conf = None,
) -> None:
    """Sum values up by windows of time: count, min, mean, max, standard deviation, quantiles."""
    need_pipeline()
    from fumarole.app.commands.analysing import Shown, Spark, run_batch
    from fumarole.pipeline.jobs.batch import Part
    from fumarole.pipeline.transforms.rollup import rollup as rolled_up

    run_batch(
        Spark("rollup", master, conf or []),
        lambda spark: rolled_up(Part(archive, namespace, topic, where, since, until).messages(spark), every),
        Shown(out, limit, as_json, "start", ["start", "topic", "producer"]),
    )


def enrich(
    archive: Archive,
    namespace: Namespace = "default",
    topic: Topic = None,
    where: Where = None,
    since: Since = None,
    until: Until = None,
    out: Out = None,
    limit: Limit = 40,
    as_json: AsJson = False,
    master: Master = "local[*]",
    conf: Conf = None,
) -> None:
    """Add to each message the metadata that held at its time."""
    need_pipeline()
    from fumarole.app.commands.analysing import Shown, Spark, run_batch
    from fumarole.pipeline.jobs.batch import Part

    run_batch(
        Spark("enrich", master, conf or []),
        lambda spark: Part(archive, namespace, topic, where, since, until).enriched(spark),
        Shown(out, limit, as_json, "time", ["time"], hidden=["payload", "headers", "changes", "epoch", "sequence"]),
    )


def gaps(
    archive: Archive,
    factor: Annotated[float, typer.Option(min=1, help="Silent for so many times its habit is a gap.")] = 5.0,
    least: Annotated[str, typer.Option(metavar="DURATION", help="Nothing shorter is a gap.")] = "1 s",
    namespace: Namespace = "default",
    topic: Topic = None,
    where: Where = None,
    since: Since = None,
    until: Until = None,
    out: Out = None,
    limit: Limit = 40,
    as_json: AsJson = False,
    master: Master = "local[*]",
    conf: Conf = None,
) -> None:
    """Find out when producers were silent for longer than is their habit."""
    need_pipeline()
    from fumarole.app.commands.analysing import Shown, Spark, run_batch
    from fumarole.pipeline.jobs.batch import Part
    from fumarole.pipeline.times import moment
    from fumarole.pipeline.transforms.gaps import gaps as found_gaps

    run_batch(
        Spark("gaps", master, conf or []),
        lambda spark: found_gaps(
            Part(archive, namespace, topic, where, since, until).messages(spark), factor, least, moment(until)
        ),
        Shown(out, limit, as_json, "since", ["since", "producer"]),
    )


def traffic(
    archive: Archive,
    depth: Annotated[int | None, typer.Option(min=0, metavar="N", help="So many words deep. Left out: all.")] = None,
    namespace: Namespace = "default",
    topic: Topic = None,
    where: Where = None,
    since: Since = None,
    until: Until = None,
    out: Out = None,
    limit: Limit = 40,
    as_json: AsJson = False,
    master: Master = "local[*]",
    conf: Conf = None,
) -> None:
    """Count messages and bytes by subtree of topics."""
    need_pipeline()
    from fumarole.app.commands.analysing import Shown, Spark, run_batch
    from fumarole.pipeline.jobs.batch import Part
    from fumarole.pipeline.transforms.traffic import traffic as by_subtree

    run_batch(
        Spark("traffic", master, conf or []),
        lambda spark: by_subtree(Part(archive, namespace, topic, where, since, until).messages(spark), depth),
        Shown(out, limit, as_json, None, ["-messages", "depth", "subtree"]),
    )


def balance(
    archive: Archive,
    every: Every = "1 hour",
    namespace: Namespace = "default",
    topic: Topic = None,
    where: Where = None,
    since: Since = None,
    until: Until = None,
    out: Out = None,
    limit: Limit = 40,
    as_json: AsJson = False,
    master: Master = "local[*]",
    conf: Conf = None,
) -> None:
    """See how evenly the recorders of a group were served."""
    need_pipeline()
    from fumarole.app.commands.analysing import Shown, Spark, run_batch
    from fumarole.pipeline.jobs.batch import Part
    from fumarole.pipeline.transforms.traffic import balance as served

    run_batch(
        Spark("balance", master, conf or []),
        lambda spark: served(Part(archive, namespace, topic, where, since, until).messages(spark), every),
        Shown(out, limit, as_json, "start", ["start", "recorder"]),
    )


def whatif(
    archive: Archive,
    namespace: Namespace = "default",
    topic: Topic = None,
    where: Where = None,
    since: Since = None,
    until: Until = None,
    as_json: AsJson = False,
    master: Master = "local[*]",
    conf: Conf = None,
) -> None:
    """Find out what a subscription would have received."""
    need_pipeline()
    from fumarole.app.commands.analysing import Spark, run_what_if
    from fumarole.pipeline.jobs.batch import Part

    part = Part(archive, namespace, topic, where, since, until)
    run_what_if(Spark("whatif", master, conf or []), part, as_json)


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
    need_pipeline()
    from fumarole.app.commands.analysing import run_compaction

    run_compaction(archive, namespace, target, settled, grace)


def report(
    archive: Archive,
    page: Annotated[Path, typer.Option("--page", metavar="FILE", help="Where the page is to be.")] = Path(
        "report.html"
    ),
    producer: Annotated[
        str | None, typer.Option(metavar="UUID", help="Whose values to show. Left out: the most talkative one's.")
    ] = None,
    namespace: Namespace = "default",
    topic: Topic = None,
    where: Where = None,
    since: Since = None,
    until: Until = None,
    master: Master = "local[*]",
    conf: Conf = None,
) -> None:
    """Make one HTML page of an archive: rates, busy hours, top topics, gaps, and the values of a producer."""
    need_pipeline()
    from fumarole.app.commands.analysing import Spark, run_report
    from fumarole.pipeline.jobs.batch import Part

    run_report(
        Spark("report", master, conf or []), Part(archive, namespace, topic, where, since, until), page, producer
    )


def demo(
    folder: Annotated[Path, typer.Option(metavar="DIR", help="Where everything is put; new or empty.")] = Path(
        "pipeline"
    ),
    seconds: Annotated[
        float, typer.Option(min=5, metavar="SECONDS", help="How long the stations are observed.")
    ] = 60.0,
    rate: Annotated[float, typer.Option(min=1, metavar="N", help="Readings a second.")] = 2000.0,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="The broker's; 0 is any free one.")] = 0,
) -> None:
    """Watch the whole pipeline: broker, simulated stations, recorders, the standing job, and a report."""
    need_pipeline()
    from fumarole.app.commands.analysing import told
    from fumarole.app.demo_pipeline import demonstrate
    from fumarole.pipeline.jobs.spark import check_java

    with told():
        check_java()
        demonstrate(folder, seconds, rate, port)
