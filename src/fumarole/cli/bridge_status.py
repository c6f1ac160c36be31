"""`fumarole bridge status`: a bridge's broker, routes, bindings and counters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fumarole.cli.command import command
from fumarole.cli.options import AsJsonObject
from fumarole.cli.terminal import finite, printable, run

if TYPE_CHECKING:
    from rich.console import RenderableType


@command(
    "bridge status",
    panel="Broker",
    examples="""
        fumarole bridge status
        fumarole bridge status --router tcp://localhost:5555 --json | jq .bindings
    """,
)
def status(
    router: Annotated[
        str, typer.Option(metavar="ENDPOINT", help="The endpoint of the bridge.")
    ] = "tcp://localhost:5555",
    as_json: AsJsonObject = False,
    timeout: Annotated[
        float,
        typer.Option(callback=finite, min=0.1, metavar="SECONDS", help="The time in which the bridge must answer."),
    ] = 5.0,
    bridge_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The public CURVE key of the bridge, if it has one.")
    ] = None,
    own_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The key of this client, one that the bridge accepts.")
    ] = None,
) -> None:
    """Show a bridge: the broker's state, routes with their remaining time, bindings in force, counters."""
    run(show_status(router, timeout, as_json, bridge_key, own_key))


async def show_status(
    router: str, seconds: float, as_json: bool, bridge_key: Path | None, own_key: Path | None
) -> None:
    """Requests the status of the bridge, and prints it."""
    from fumarole.bridge.client import BridgeClient

    async with BridgeClient(router, timeout=seconds, bridge_key=bridge_key, own_key=own_key) as client:
        status = await client.status(seconds)
    if as_json:
        print(json.dumps(status))  # noqa: T201
        return
    from rich.console import Console

    console = Console()
    console.print(_overview(status))
    if status["routes"]["shown"]:
        console.print(_routes(status["routes"]["shown"]))
    more = status["routes"]["count"] - len(status["routes"]["shown"])
    if more > 0:
        console.print(f"… and {more:,} more")


def _overview(status: dict[str, Any]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    broker = status["broker"]
    table = Table(box=None, show_header=False, pad_edge=False)
    rows = {
        "bridge": f"{status['name']} on {status['router']}",
        "broker": f"{broker['address']}, {broker['state']}",
        "routes": f"{status['routes']['count']:,}, each for {status['ttl']:g} s",
        **{f"{kind} bindings": _listed(keys) for kind, keys in status["bindings"].items()},
        **_link(status.get("link")),
        "calls": f"{status['calls']:,} under way",
        **{what: f"{status[what]:,}" for what in ("received", "delivered", "published", "refused")},
        **{f"dropped: {reason}": f"{number:,}" for reason, number in status["dropped"].items() if number},
    }
    for name, value in rows.items():
        table.add_row(Text(name, style="dim"), Text(printable(value)))
    return table


def _link(link: dict[str, Any] | None) -> dict[str, str]:
    if link is None:
        return {}
    crossed = f"{link['to_namespace']:,} to it, {link['to_amqp']:,} from it, {link['not_taken']:,} not taken"
    return {"namespace": f"{link['namespace']}, {link['state']}: {crossed}"}


def _listed(keys: list[str], most: int = 20) -> str:
    more = f" … {len(keys) - most:,} more" if len(keys) > most else ""
    return (", ".join(keys[:most]) or "none") + more


def _routes(routes: list[dict[str, Any]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("route", "key", "client"):
        table.add_column(column)
    table.add_column("seconds left", justify="right")
    for route in routes:
        # Clients choose their keys: show neither markup nor control characters.
        table.add_row(route["kind"], Text(printable(route["key"])), route["client"], f"{route['seconds']:.1f}")
    return table
