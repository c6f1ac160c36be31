"""The command line: `fumarole COMMAND …`. Each command is in `commands/`; `docs/command-line.md` shows them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from fumarole import __version__
from fumarole.cli import bench_options as bench
from fumarole.cli import bridge as bridging
from fumarole.cli import cluster_status as clusters
from fumarole.cli import demo as demonstration
from fumarole.cli import messages, observing
from fumarole.cli import serve as server
from fumarole.cli.pipeline import analysis
from fumarole.cli.pipeline import options as pipeline_commands
from fumarole.cli.terminal import standard_streams

EXAMPLES = {
    "serve": """
        fumarole serve
        fumarole serve --nats 127.0.0.1:4222 --nats '[::1]:4222' --data /var/lib/fumarole
        fumarole serve --config fumarole.toml --log-level debug
        fumarole serve --node b --cluster 127.0.0.1:6223 --peer 127.0.0.1:6222
        fumarole serve --workers auto
    """,
    "pub": """
        fumarole pub volcanoes.usa.atka 21.5 -H 'Unit: celsius'
        seq 1000 | fumarole pub volcanoes.usa.atka --rate 100
        fumarole pub volcanoes.usa.atka --whole < report.pdf
    """,
    "sub": """
        fumarole sub 'volcanoes.usa.>'
        fumarole sub 'volcanoes.*.*' --group archive --json | jq .payload
        fumarole sub volcanoes.usa.atka --raw --count 10 --timeout 60
        fumarole sub --where "Kind = 'temperature' and Room like '4%'"
    """,
    "request": """
        fumarole request time.utc
        fumarole request health.check --replies all --timeout 1
    """,
    "reply": """
        fumarole reply time.utc --command 'date -u'
        fumarole reply echo --echo --group echoes
    """,
    "stats": """
        fumarole stats --watch
        fumarole stats --consumers
        fumarole stats --json | jq .dropped
    """,
    "producers": """
        fumarole producers
        fumarole producers --where "Kind = 'temperature' and Room like '4%'"
        fumarole producers --json | jq .metadata
    """,
    "producer forget": """
        fumarole producer forget 2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60
    """,
    "query explain": """
        fumarole query explain "Kind = 'temperature' and not Room like '4%'"
    """,
    "record": """
        fumarole record --archive archive
        fumarole record --archive archive --topic 'volcanoes.>' --roll-seconds 10
        fumarole record --archive s3://bucket/archive --where "Region = 'usa'" --name tokyo-1
    """,
    "pipeline run": """
        fumarole pipeline run --archive archive --out tables
        fumarole pipeline run --archive archive --out tables --once --window '10 s' --window '1 hour'
        fumarole pipeline run --archive /shared/archive --out /shared/tables --master spark://head:7077
    """,
    "pipeline rollup": """
        fumarole pipeline rollup --archive archive --every '1 minute' --topic 'volcanoes.usa.>'
        fumarole pipeline rollup --archive archive --every '1 hour' --out hourly
    """,
    "pipeline enrich": """
        fumarole pipeline enrich --archive archive --since 2026-01-31 --out enriched
    """,
    "pipeline gaps": """
        fumarole pipeline gaps --archive archive --factor 10
    """,
    "pipeline traffic": """
        fumarole pipeline traffic --archive archive --depth 2
    """,
    "pipeline balance": """
        fumarole pipeline balance --archive archive --every '10 minutes'
    """,
    "pipeline whatif": """
        fumarole pipeline whatif --archive archive --topic 'volcanoes.>' --where "Region = 'usa'"
    """,
    "pipeline compact": """
        fumarole pipeline compact --archive archive
    """,
    "pipeline demo": """
        fumarole pipeline demo --folder /tmp/volcanoes --seconds 120
    """,
    "pipeline report": """
        fumarole pipeline report --archive archive --page report.html
    """,
    "pipeline replay": """
        fumarole pipeline replay --archive archive --speed 10
        fumarole pipeline replay --archive archive --since 2026-11-15T22:00 --until 2026-11-15T22:05
    """,
    "pipeline verify": """
        fumarole pipeline verify --archive archive
    """,
    "cluster status": """
        fumarole cluster status
        fumarole cluster status --json | jq '.peers[].state'
    """,
    "bench": """
        fumarole bench
        fumarole bench --publishers 2 --consumers 3 --size 16 --duration 10
        fumarole bench --rate 10000 --json
    """,
    "demo": """
        fumarole demo
        fumarole demo --port 4333 --rate 10000
        fumarole demo --nodes 3
    """,
    "bridge": """
        fumarole bridge --amqp amqp://guest:guest@localhost:5672 --topics 'test.#' --ttl 60
        fumarole bridge --exchange volcanoes --servers nats://127.0.0.1:4222
        fumarole bridge --config fumarole.toml
    """,
    "bridge status": """
        fumarole bridge status
        fumarole bridge status --router tcp://localhost:5555 --json | jq .bindings
    """,
    "config check": """
        fumarole config check fumarole.toml
    """,
    "password": """
        fumarole password
    """,
    "token": """
        fumarole token --json
    """,
}
"""Shown at the end of each command's help."""


class Commands(TyperGroup):
    """`serve` gets its many options only when it is really asked for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and command.callback is not None and name == "serve":
            from fumarole.cli.serve_options import serve_with_settings

            full = typer.Typer(add_completion=False)
            _add(full, serve_with_settings(server.serve), "Broker")
            command = get_command(full)
            command.name = name
        return name, command, rest


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done, 1 failed, 2 a mistake in arguments or configuration, 130 interrupted.",
)
config = typer.Typer(no_args_is_help=True, help="Look at a configuration.")
app.add_typer(config, name="config", rich_help_panel="Broker")
cluster = typer.Typer(no_args_is_help=True, help="Look at a cluster.")
app.add_typer(cluster, name="cluster", rich_help_panel="Observation")
producer = typer.Typer(no_args_is_help=True, help="Deal with one producer.")
app.add_typer(producer, name="producer", rich_help_panel="Observation")
query = typer.Typer(no_args_is_help=True, help="Look at a query.")
app.add_typer(query, name="query", rich_help_panel="Observation")

pipeline = typer.Typer(no_args_is_help=True, help="Work with an archive.")
app.add_typer(pipeline, name="pipeline", rich_help_panel="Archive")


bridge = typer.Typer(no_args_is_help=False)
app.add_typer(bridge, name="bridge", rich_help_panel="Broker")


def _examples(name: str) -> str:
    lines = [line.strip() for line in EXAMPLES[name].strip().splitlines()]
    # `\\b` keeps the lines as they are; brackets would be taken for markup.
    return "Examples\n\n\b\n" + "\n".join(f"  {line}" for line in lines).replace("[", "\\[")


def _add(to: typer.Typer, command: Callable[..., None], panel: str, name: str | None = None) -> None:
    full_name = name or command.__name__
    epilog = _examples(full_name)
    to.command(full_name.split()[-1], help=command.__doc__, epilog=epilog, rich_help_panel=panel)(command)


_add(app, server.serve, "Broker")
_add(app, demonstration.demo, "Broker")
bridge.callback(invoke_without_command=True, help=bridging.bridge.__doc__, epilog=_examples("bridge"))(bridging.bridge)
_add(bridge, bridging.status, "Broker", "bridge status")
_add(config, server.check, "Broker", "config check")
_add(app, server.password, "Broker")
_add(app, server.token, "Broker")
for message_command in (messages.pub, messages.sub, messages.request, messages.reply):
    _add(app, message_command, "Messages")
_add(app, observing.stats, "Observation")
_add(app, observing.producers, "Observation")
_add(producer, observing.forget, "Observation", "producer forget")
_add(query, observing.explain, "Observation", "query explain")
_add(cluster, clusters.status, "Observation", "cluster status")
_add(app, bench.bench, "Observation")
_add(app, pipeline_commands.record, "Archive")
_add(pipeline, pipeline_commands.replay, "Archive", "pipeline replay")
_add(pipeline, pipeline_commands.verify, "Archive", "pipeline verify")
_add(pipeline, analysis.pipeline_run, "Jobs", "pipeline run")
for analysis_command in (
    analysis.rollup,
    analysis.enrich,
    analysis.gaps,
    analysis.traffic,
    analysis.balance,
    analysis.whatif,
    analysis.report,
    analysis.demo,
):
    _add(pipeline, analysis_command, "Jobs", f"pipeline {analysis_command.__name__}")
_add(pipeline, analysis.compact, "Archive", "pipeline compact")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fumarole {__version__}")
        raise typer.Exit


@app.callback()
def fumarole(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """A message exchange for many small, fresh messages. Any NATS client can use it."""


def main() -> None:
    """What the `fumarole` command calls."""
    with standard_streams():
        app()


if __name__ == "__main__":
    main()
