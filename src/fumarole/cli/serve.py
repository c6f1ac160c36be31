"""`fumarole serve`: run a broker."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fumarole.cli.command import command
from fumarole.cli.terminal import MISUSED, fail

if TYPE_CHECKING:
    from fumarole.config.settings import Settings
    from fumarole.server.broker import Broker

NOT_SETTINGS = frozenset({"config", "ready_file", "insecure"})
"""Options that are not settings; `serve_with_settings` adds the settings."""


@command(
    "serve",
    panel="Broker",
    examples="""
        fumarole serve
        fumarole serve --nats 127.0.0.1:4222 --nats '[::1]:4222' --data /var/lib/fumarole
        fumarole serve --config fumarole.toml --log-level debug
        fumarole serve --node b --cluster 127.0.0.1:6223 --peer 127.0.0.1:6222
        fumarole serve --workers auto
    """,
)
def serve(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Settings in TOML. FUMAROLE_… variables override the file, and flags override both."
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", envvar="FUMAROLE_INSECURE", help="Accept clients of other machines without users."),
    ] = False,
    ready_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="When every door is open, write their addresses here.")
    ] = None,
) -> None:
    """Run a broker until Ctrl-C or SIGTERM. SIGHUP loads the configuration again, SIGUSR2 sends clients away first."""
    settings = _settings(config, context.params)
    from fumarole.server import logs, loop
    from fumarole.server.broker import CannotServeError, openable, serve
    from fumarole.server.reach import ExposedError, check_reach

    logs.start(settings.log)
    try:
        check_reach(settings, insecure)
        settings = openable(settings)
        load = None if config is None else partial(_loaded, config, context.params, insecure)
        if settings.workers != 1:
            from fumarole.server.workers import serve_with_workers

            serve_with_workers(settings, loop.run, lambda broker: _announce(broker, ready_file), load)
        else:
            loop.run(serve(settings, started=lambda broker: _announce(broker, ready_file), load=load))
    except (CannotServeError, ExposedError) as error:
        fail(str(error))


def _flags(given: dict[str, Any]) -> dict[str, Any]:
    return {f"--{name.replace('_', '-')}": value for name, value in given.items() if name not in NOT_SETTINGS}


def _settings(config: Path | None, given: dict[str, Any]) -> Settings:
    from fumarole.config.load import ConfigurationError, load

    try:
        return load(config, os.environ, _flags(given))
    except ConfigurationError as error:
        fail(str(error), MISUSED)


def _loaded(config: Path, given: dict[str, Any], insecure: bool) -> Settings:
    """Loads the settings again, for a reload. Raises ConfigurationError, CannotServeError or MissingPackageError."""
    from fumarole.config.load import load
    from fumarole.server.broker import openable
    from fumarole.server.reach import check_reach

    settings = load(config, os.environ, _flags(given))
    check_reach(settings, insecure)
    return openable(settings)


def _announce(broker: Broker, ready_file: Path | None) -> None:
    """Raises CannotServeError."""
    if ready_file is None:
        return
    from fumarole.server.broker import CannotServeError

    addresses = ((door.scheme, *door.address) for door in broker.doors)
    lines = [f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}\n" for scheme, host, port in addresses]
    # A process that waits for the file must never see half of it.
    part = ready_file.with_name(f".{ready_file.name}.{os.getpid()}")
    try:
        part.write_text("".join(lines))
        part.replace(ready_file)
    except OSError as error:
        raise CannotServeError(f"cannot write {ready_file}: {error.strerror}") from None
