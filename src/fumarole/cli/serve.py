"""Commands around the broker itself: `serve`, `config check`, `password`, `token`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fumarole.cli.terminal import GREEN, MISUSED, fail, paint

if TYPE_CHECKING:
    from fumarole.config.settings import Settings
    from fumarole.server.broker import Broker

NOT_SETTINGS = frozenset({"config", "ready_file"})
"""Options of `serve` that are not settings; the others are added by `serve_with_settings`."""


def serve(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings in TOML. FUMAROLE_… variables and flags go over it.")
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="When every door is open, write their addresses here.")
    ] = None,
) -> None:
    """Run a broker until Ctrl-C or SIGTERM."""
    settings = _settings(config, context.params)
    import uvloop

    from fumarole.server import logs
    from fumarole.server.broker import CannotServeError, serve

    logs.start(settings.log)
    try:
        if settings.workers != 1:
            from fumarole.server.workers import serve_with_workers

            serve_with_workers(settings, uvloop.run, lambda broker: _announce(broker, ready_file))
        else:
            uvloop.run(serve(settings, started=lambda broker: _announce(broker, ready_file)))
    except CannotServeError as error:
        fail(str(error))


def _settings(config: Path | None, given: dict[str, Any]) -> Settings:
    from fumarole.config.load import ConfigurationError, load

    flags = {f"--{name.replace('_', '-')}": value for name, value in given.items() if name not in NOT_SETTINGS}
    try:
        return load(config, os.environ, flags)
    except ConfigurationError as error:
        fail(str(error), MISUSED)


def _announce(broker: Broker, ready_file: Path | None) -> None:
    """Raises CannotServeError."""
    if ready_file is None:
        return
    from fumarole.server.broker import CannotServeError

    addresses = ((door.scheme, *door.address) for door in broker.doors)
    lines = [f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}\n" for scheme, host, port in addresses]
    # Whoever waits for the file must never see half of it.
    part = ready_file.with_name(f".{ready_file.name}.{os.getpid()}")
    try:
        part.write_text("".join(lines))
        part.replace(ready_file)
    except OSError as error:
        raise CannotServeError(f"cannot write {ready_file}: {error.strerror}") from None


def check(file: Annotated[Path, typer.Argument(help="A configuration in TOML.")]) -> None:
    """Name every mistake in a configuration, with its line and what was expected."""
    from fumarole.config.load import ConfigurationError, load

    try:
        load(file, {}, {})
    except ConfigurationError as error:
        fail(str(error), MISUSED)
    typer.echo(paint(f"{file}: no mistakes", GREEN, sys.stdout))


def password() -> None:
    """Hash a password for the configuration; it is asked for, or the first line of stdin."""
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


def token(as_json: Annotated[bool, typer.Option("--json", help="As a JSON object.")] = False) -> None:
    """Make a token for a client, and its digest for the configuration."""
    from fumarole.server.credentials import new_token

    secret, digest = new_token()
    if as_json:
        typer.echo(json.dumps({"token": secret, "digest": digest}))
    else:
        typer.echo(f"for the client         {secret}\nfor the configuration  {digest}")
