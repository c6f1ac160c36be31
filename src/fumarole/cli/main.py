"""The command line: `fumarole COMMAND …`. Each command has a file named like it; see docs/reference/command-line.md.

A command's file is imported when the command runs, or when the help lists it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from fumarole import __version__
from fumarole.cli.command import ARGUMENTS, Command
from fumarole.cli.terminal import MISUSED, fail, standard_streams
from fumarole.core.packages import explained

NAMES = (
    *("serve", "demo", "password", "token", "nkey", "reload", "bridge", "bridge status", "config check"),
    *("pub", "sub", "last", "request", "reply"),
    *("stats", "producers", "view", "producer forget", "query explain", "cluster status", "bench", "record"),
    *("pipeline replay", "pipeline verify", "pipeline run", "pipeline rollup", "pipeline enrich", "pipeline gaps"),
    *("pipeline traffic", "pipeline balance", "pipeline whatif", "pipeline sql", "pipeline report", "pipeline demo"),
    "pipeline compact",
    "pipeline expire",
    "pipeline view",
    "pipeline server",
    "pipeline watch",
)
GROUPS = {
    "bridge": ("Broker", ""),
    "config": ("Broker", "Check a configuration."),
    "cluster": ("Observation", "Show the state of a cluster."),
    "producer": ("Observation", "Change one producer."),
    "query": ("Observation", "Explain a query."),
    "pipeline": ("Archive", "Verify, replay and analyse an archive."),
}
"""Commands that have others below them: the panel of each, and the help of each that is no command itself."""


def load(name: str) -> Command:
    """The command of this name, from its file."""
    place = name.replace("pipeline ", "pipeline.").replace(" ", "_")
    found = vars(import_module(f"fumarole.cli.{place}")).values()
    return next(each for each in found if isinstance(each, Command) and each.name == name)


class Tree(TyperGroup):
    """Commands that are built on first use. A missing package ends the command with a sentence."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        inner = f"{self.name} " if self.name in GROUPS else ""
        below = [name.removeprefix(inner).partition(" ")[0] for name in NAMES if name.startswith(inner)]
        alone = [name for name in below if inner or name not in GROUPS]
        self._inner = inner
        self.commands = dict.fromkeys(alone if inner else [*alone, *GROUPS])  # type: ignore[assignment] # see get_command

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ImportError as error:
            if not (sentence := explained(error)):
                raise
            fail(sentence, MISUSED)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """The entry of a command in the help: its name, its panel, its first line."""
        if cmd_name not in self.commands:
            return None
        name = self._inner + cmd_name
        if name in NAMES:
            command = load(name)
            panel, text = command.panel, command.help
        else:
            panel, text = GROUPS[name]
        return TyperCommand(cmd_name, help=text, rich_help_panel=panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands:
            return super().resolve_command(ctx, args)  # which fails, with what may have been meant
        return args[0], _whole(self._inner + args[0]), args[1:]


app = typer.Typer(
    cls=Tree,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done, 1 failed, 2 a mistake in arguments or configuration, 130 interrupted.",
)


def _whole(name: str) -> Any:
    """A command with its options. `serve` has one for each setting."""
    command = load(name) if name in NAMES else None
    if name in GROUPS:
        group = typer.Typer(cls=Tree, name=name, no_args_is_help=command is None, help=GROUPS[name][1])
        if command is not None:
            group.callback(invoke_without_command=True, help=command.help, epilog=command.epilog)(command.run)
        return get_group(group)
    assert command is not None
    run = command.run
    if name == "serve":
        from fumarole.cli.serve_options import serve_with_settings

        run = serve_with_settings(run)
    alone = typer.Typer(add_completion=False)
    last_word = name.rsplit(maxsplit=1)[-1]
    alone.command(last_word, help=command.help, epilog=command.epilog, rich_help_panel=command.panel)(run)
    whole = get_command(alone)
    whole.name = last_word
    return whole


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
        ARGUMENTS.set(tuple(sys.argv[1:]))
        app()


if __name__ == "__main__":
    main()
