"""`fumarole password`: hash a password for the configuration."""

from __future__ import annotations

import sys

import typer

from fumarole.cli.command import command
from fumarole.cli.terminal import fail


@command(
    "password",
    panel="Broker",
    examples="""
        fumarole password
    """,
)
def password() -> None:
    """Hash a password for the configuration. It is read from the terminal, or from the first line of stdin."""
    from fumarole.server.credentials import hash_password

    try:
        typer.echo(hash_password(_asked_password()))
    except ValueError as error:
        fail(str(error))


def _asked_password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    from getpass import getpass

    try:
        given = getpass("Password: ")
        if getpass("Again: ") != given:
            fail("these were two different passwords")
    except (EOFError, KeyboardInterrupt):
        raise typer.Exit(1) from None
    return given
