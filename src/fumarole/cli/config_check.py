"""`fumarole config check`: name every mistake in a configuration."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.terminal import GREEN, MISUSED, fail, paint


@command(
    "config check",
    panel="Broker",
    examples="""
        fumarole config check fumarole.toml
    """,
)
def check(file: Annotated[Path, typer.Argument(help="A configuration in TOML.")]) -> None:
    """Name every mistake in a configuration, with its line and what was expected."""
    from fumarole.config.load import ConfigurationError, load
    from fumarole.config.payloads import load_payloads
    from fumarole.config.rules import load_rules

    mistakes = []
    for read in (lambda: load(file, {}, {}), lambda: load_payloads(file), lambda: load_rules(file)):
        try:
            read()
        except ConfigurationError as error:
            mistakes += [each for each in error.mistakes if each not in mistakes]
    if mistakes:
        fail(str(ConfigurationError(mistakes)), MISUSED)
    typer.echo(paint(f"{file}: no mistakes", GREEN, sys.stdout))
