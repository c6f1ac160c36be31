"""The command line: `fumarole COMMAND …`. Each command has a file named like it; see docs/reference/command-line.md."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from fumarole import __version__
from fumarole.cli import (
    bench,
    bridge,
    bridge_status,
    cluster_status,
    config_check,
    demo,
    password,
    producer_forget,
    producers,
    pub,
    query_explain,
    record,
    reply,
    request,
    serve,
    stats,
    sub,
    token,
)
from fumarole.cli import pipeline as jobs
from fumarole.cli.command import Command
from fumarole.cli.terminal import MISUSED, fail, standard_streams
from fumarole.core.packages import explained

COMMANDS = (
    *(serve.serve, demo.demo, bridge.bridge, bridge_status.status, config_check.check, password.password, token.token),
    *(pub.pub, sub.sub, request.request, reply.reply),
    *(stats.stats, producers.producers, producer_forget.forget, query_explain.explain, cluster_status.status),
    *(bench.bench, record.record, *jobs.COMMANDS),
)
GROUPS = {
    "bridge": ("Broker", bridge.bridge.help),
    "config": ("Broker", "Look at a configuration."),
    "cluster": ("Observation", "Look at a cluster."),
    "producer": ("Observation", "Deal with one producer."),
    "query": ("Observation", "Look at a query."),
    "pipeline": ("Archive", "Work with an archive."),
}
"""Commands that have others below them: the panel and the help of each."""


class Tree(TyperGroup):
    """`serve` gets its many options only when it is really asked for. A package that is missing ends a command."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ImportError as error:
            if not (sentence := explained(error)):
                raise
            fail(sentence, MISUSED)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and command.callback is not None and name == "serve":
            from fumarole.cli.serve_options import serve_with_settings

            full = typer.Typer(add_completion=False)
            _add(full, serve.serve, serve_with_settings(serve.serve.run))
            command = get_command(full)
            command.name = name
        return name, command, rest


app = typer.Typer(
    cls=Tree,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done, 1 failed, 2 a mistake in arguments or configuration, 130 interrupted.",
)


def _add(to: typer.Typer, command: Command, run: Any = None) -> None:
    last_word = command.name.split()[-1]
    to.command(last_word, help=command.help, epilog=command.epilog, rich_help_panel=command.panel)(run or command.run)


def _grow() -> None:
    groups = {name: typer.Typer(no_args_is_help=name != "bridge", help=text) for name, (_, text) in GROUPS.items()}
    for name, group in groups.items():
        app.add_typer(group, name=name, rich_help_panel=GROUPS[name][0])
    for each in COMMANDS:
        first, _, rest = each.name.partition(" ")
        if rest:
            _add(groups[first], each)
        elif first in groups:
            groups[first].callback(invoke_without_command=True, help=each.help, epilog=each.epilog)(each.run)
        else:
            _add(app, each)


_grow()


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
