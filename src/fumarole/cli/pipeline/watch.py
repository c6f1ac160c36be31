"""`fumarole pipeline watch`: rules over live messages; the alarms are published."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.options import DEFAULT_SERVERS
from fumarole.cli.pipeline.options import Declared, RemoteSparkOptions, declarations, rules_file
from fumarole.cli.terminal import MISUSED, YELLOW, count_text, duration_text, fail, paint, say
from fumarole.core.packages import need

if TYPE_CHECKING:
    from fumarole.pipeline.jobs.watching import Progress, Watch


@command(
    "pipeline watch",
    panel="Jobs",
    examples="""
        fumarole pipeline watch --rules rules.toml
        fumarole pipeline watch --rules rules.toml --servers nats://broker:4222 --checkpoint /var/lib/watch
    """,
)
def watch(
    rules: Annotated[Path, typer.Option(metavar="FILE", help="The rules, in TOML.")],
    *,
    servers: Annotated[
        str, typer.Option(envvar="FUMAROLE_SERVERS", metavar="URL,…", help="Brokers, tried in turn.")
    ] = DEFAULT_SERVERS,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder of the job's state. Left out: a restart begins without state."),
    ] = None,
    topic: Annotated[str, typer.Option(metavar="PATTERN", help="Only messages on these topics.")] = ">",
    where: Annotated[
        str, typer.Option(metavar="QUERY", help="Only readings of the producers that this query selects.")
    ] = "",
    payloads: Declared = None,
    open_root: Annotated[
        str, typer.Option("--open", metavar="TOPIC", help="Where open alarms are retained: TOPIC.RULE.PRODUCER.")
    ] = "open",
    adopt: Annotated[
        bool,
        typer.Option("--adopt", help="Continue from a checkpoint of other rules, and list the state that is kept."),
    ] = False,
    metrics: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve metrics for Prometheus, at /metrics.")
    ] = None,
    spark_options: RemoteSparkOptions,
) -> None:
    """Raise and clear alarms over live messages, by rules."""
    need("pipeline", "pyspark")
    from fumarole.pipeline.jobs.watching import Watch

    found = rules_file(rules)
    declarations(payloads)
    folder = Path(tempfile.mkdtemp(prefix="fumarole-watch-")) if checkpoint is None else checkpoint
    run_watch(spark_options, Watch(found, servers, folder, topic, where, payloads, open_root, adopt), metrics)


def run_watch(spark_options: RemoteSparkOptions, asked: Watch, metrics: str | None = None) -> None:
    """Runs until Ctrl-C or SIGTERM."""
    from fumarole.cli.pipeline.spark import spark_session, told
    from fumarole.core.query.parse import parse
    from fumarole.pipeline.jobs.watch_metrics import Publisher, message, served
    from fumarole.pipeline.jobs.watching import WatchingJob, check, run, settings
    from fumarole.pipeline.patterns import grammar_of

    address = _address(metrics)
    with told():
        grammar_of(asked.topic)
        if asked.where:
            parse(asked.where)
        changed = check(asked)
    if changed:
        say(paint(changed, YELLOW, sys.stderr))
    stop = threading.Event()
    own = [f"{key}={value}" for key, value in settings(os.cpu_count() or 1).items()]
    with spark_session(replace(spark_options, conf=[*own, *(spark_options.conf or [])]), "watch") as spark:
        # Spark installs a handler of its own for Ctrl-C, so this handler is installed after Spark's.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        say(f"watching {asked.servers} by {count_text(len(asked.rules.declared), 'rule')}; Ctrl-C ends")
        job = WatchingJob(spark, asked)
        with ExitStack() as stack:
            if address is not None:
                port = stack.enter_context(served(job.progress, *address))
                say(f"metrics at http://{address[0]}:{port}/metrics")
            publisher = stack.enter_context(Publisher(asked.servers).started())

            def both(progress: Progress) -> None:
                tell(progress)
                publisher.publish(message(progress))

            run(job, both, stop.wait)


def _address(given: str | None) -> tuple[str, int] | None:
    """Raises FumaroleError."""
    if given is None:
        return None
    from fumarole.config.values import RefusedError, read_address

    try:
        found = read_address(given)
    except RefusedError as error:
        fail(f"--metrics: found {error.found}, expected {error.expected}", MISUSED)
    return found.host, found.port


def tell(progress: Progress) -> None:
    """A line about the state of the job."""
    firing = [f"{name} {count:,}" for name, count in progress.open.items() if count]
    parts = [
        f"{progress.rate:,.0f} rows/s",
        *([] if progress.lag is None else [f"lag {duration_text(progress.lag)}"]),
        f"{count_text(progress.producers, 'producer')} in {progress.state_bytes / 1024:,.0f} KiB",
        f"open: {', '.join(firing) or 'none'}",
        *([f"heard until {progress.heard_until:%H:%M:%S}"] if progress.heard_until else []),
        *([f"{progress.late:,} late"] if progress.late else []),
        *([f"{progress.muted:,} over the limit"] if progress.muted else []),
        *([f"begun again {progress.restarts:,} times"] if progress.restarts else []),
    ]
    say("  ".join(parts))
