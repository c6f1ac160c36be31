"""`fumarole bridge`: run a bridge between AMQP and ZeroMQ."""
# ruff: noqa: ARG001, the settings are read all together, from the context

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fumarole.cli.command import command
from fumarole.cli.terminal import MISUSED, fail

if TYPE_CHECKING:
    from fumarole.config.settings import BridgeSettings, Log

NOT_SETTINGS = frozenset({"config", "insecure", "ready_file", "log_level", "log_format"})
"""Options of `bridge` that are not settings of one bridge."""
AMQP = "AMQP"
ZEROMQ = "ZeroMQ (sizes such as 64KiB, times such as 500ms)"
LINK = "A namespace of a fumarole broker"


def _option(help_text: str, panel: str, **more: Any) -> Any:
    return typer.Option(metavar="VALUE", help=help_text, rich_help_panel=panel, **more)


@command(
    "bridge",
    panel="Broker",
    examples="""
        fumarole bridge --amqp amqp://guest:guest@localhost:5672 --topics 'test.#' --ttl 60
        fumarole bridge --exchange volcanoes --servers nats://127.0.0.1:4222
        fumarole bridge --config fumarole.toml
    """,
)
def bridge(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Run the bridges of this file instead, side by side.")
    ] = None,
    name: Annotated[
        str | None, _option("The name of the bridge, in logs and in the names of its queues.", AMQP)
    ] = None,
    amqp: Annotated[
        str | None, _option("The AMQP broker.", AMQP, envvar="FUMAROLE_BRIDGE_AMQP", show_envvar=True)
    ] = None,
    topic_exchange: Annotated[str | None, _option("The exchange on which topics are bound.", AMQP)] = None,
    topics: Annotated[
        list[str] | None, _option("A topic that is always bound; clients may bind no others. May be repeated.", AMQP)
    ] = None,
    direct_exchange: Annotated[str | None, _option("The exchange on which direct names are bound.", AMQP)] = None,
    direct_queue: Annotated[str | None, _option("The queue for direct messages.", AMQP)] = None,
    router: Annotated[str | None, _option("The endpoint for ZeroMQ clients.", ZEROMQ)] = None,
    ttl: Annotated[str | None, _option("The time for which a bind holds.", ZEROMQ)] = None,
    curve_key: Annotated[str | None, _option("The bridge's CURVE key, a file.", ZEROMQ)] = None,
    curve_clients: Annotated[str | None, _option("A folder with the public keys of clients.", ZEROMQ)] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Accept clients of other machines without CURVE.", rich_help_panel=ZEROMQ)
    ] = False,
    payload: Annotated[str | None, _option("The largest payload.", ZEROMQ)] = None,
    waiting: Annotated[str | None, _option("Messages that wait for a slow client.", ZEROMQ)] = None,
    topics_per_client: Annotated[str | None, _option("Topics of one client.", ZEROMQ)] = None,
    routes: Annotated[str | None, _option("Routes of all clients.", ZEROMQ)] = None,
    exchange: Annotated[str | None, _option("Join the topic exchange with this namespace.", LINK)] = None,
    servers: Annotated[
        str | None, _option("The addresses of that broker.", LINK, envvar="FUMAROLE_BRIDGE_SERVERS", show_envvar=True)
    ] = None,
    log_level: Annotated[str | None, typer.Option(metavar="VALUE", help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(metavar="VALUE", help="text or json.")] = None,
    ready_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="When every bridge is open, write their endpoints here.")
    ] = None,
) -> None:
    """Run a bridge that lets ZeroMQ clients take part in an AMQP broker's routing, until Ctrl-C or SIGTERM."""
    if context.invoked_subcommand is not None:
        return
    given = {f"--{key.replace('_', '-')}": value for key, value in context.params.items() if key not in NOT_SETTINGS}
    bridges, log = _settings(config, given, {"--log-level": log_level, "--log-format": log_format})
    from fumarole.bridge.errors import CannotBridgeError
    from fumarole.server import logs, loop
    from fumarole.server.bridges import run_bridges

    logs.start(log)
    try:
        loop.run(run_bridges(bridges, ready_file, insecure))
    except CannotBridgeError as error:
        fail(str(error))


def _settings(
    config: Path | None, given: dict[str, Any], log: dict[str, Any]
) -> tuple[tuple[BridgeSettings, ...], Log]:
    from fumarole.config.load import ConfigurationError, load, load_bridge

    try:
        settings = load(config, {}, log)
        if config is None:
            return (load_bridge(given),), settings.log
    except ConfigurationError as error:
        fail(str(error), MISUSED)
    named = [flag for flag, value in given.items() if value and not flag.endswith(("-amqp", "-servers"))]
    if named:
        fail(f"{named[0]} is for a bridge of flags alone; with --config, the file says everything", MISUSED)
    if not settings.bridges:
        fail(f"{config} has no [[bridges]]", MISUSED)
    return settings.bridges, settings.log
