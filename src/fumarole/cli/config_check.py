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

    try:
        load(file, {}, {})
    except ConfigurationError as error:
        fail(str(error), MISUSED)
    typer.echo(paint(f"{file}: no mistakes", GREEN, sys.stdout))
