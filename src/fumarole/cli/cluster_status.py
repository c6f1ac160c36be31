"""`fumarole cluster status`: the nodes of a cluster, as one of them sees it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from fumarole.cli.command import command
from fumarole.cli.options import Access, AsJsonObject
from fumarole.cli.terminal import duration_text, printable, run

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDE = 110
"""Columns of a terminal that has room for addresses too."""
STYLES = {"live": "green", "joining": "yellow", "leaving": "yellow", "doubted": "red"}


@command(
    "cluster status",
    panel="Observation",
    examples="""
        fumarole cluster status
        fumarole cluster status --json | jq '.peers[].state'
    """,
)
def status(*, as_json: AsJsonObject = False, access: Access) -> None:
    """Show the nodes of the cluster, the links between them, and the changes that each has not confirmed."""
    run(_show(access, as_json))


async def _show(access: Access, as_json: bool) -> None:
    from rich.console import Console

    from fumarole.client import ClientError, NoResponders

    async with access.connect("cluster status") as client:
        try:
            seen = await client.cluster()
        except NoResponders:
            raise ClientError(f"{client.server} is not a Fumarole broker: it knows no cluster") from None
    if as_json:
        typer.echo(json.dumps(seen))
    else:
        console = Console()
        console.print(_table(seen, wide=console.width >= WIDE))


def _table(seen: dict[str, Any], wide: bool) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if seen["cluster"] is None:
        return Text(f"{printable(seen['node'])} is not part of a cluster")
    title = Text(f"cluster {printable(seen['cluster'])}, seen by {printable(seen['node'])}", style="bold")
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("node", "state"):
        table.add_column(name, no_wrap=True)
    for name in ("consumers", "round trip", "behind", "forwarded", "received", "dropped"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("address", "version") if wide else ():
        table.add_column(name, no_wrap=True)
    own = f"{seen['consumers']:,}"
    table.add_row(printable(seen["node"]), "here", own, *[""] * 5, *_where(seen, wide))
    for peer in seen["peers"]:
        behind = "" if peer["behind"] is None else f"{peer['behind']:,}"
        table.add_row(
            printable(peer["node"]),
            Text(peer["state"], style=STYLES.get(peer["state"], "")),
            f"{peer['consumers']:,}",
            f"{peer['round_trip'] * 1000:.2f} ms",
            behind,
            f"{peer['forwarded']:,}",
            f"{peer['received']:,}",
            f"{sum(peer['dropped'].values()):,}",
            *_where(peer, wide),
        )
    return Group(title, table, *[Text(_missing(each), style="red") for each in seen.get("missing", ())])


def _missing(node: dict[str, Any]) -> str:
    """`b at 127.0.0.1:6223 has been away for 12 s: connection refused`"""
    name, address = printable(node["node"]), printable(node["address"])
    what = f"{name} at {address} has been away" if name else f"no node has been found at {address}"
    why = f": {printable(node['why'])}" if node["why"] else ""
    return f"{what} for {duration_text(node['away'])}{why}"


def _where(node: dict[str, Any], wide: bool) -> list[str]:
    return [printable(node["address"]), printable(node["version"])] if wide else []
