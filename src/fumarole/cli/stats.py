"""`fumarole stats`: the broker's counters of a namespace."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fumarole.cli.command import command
from fumarole.cli.options import Access
from fumarole.cli.terminal import finite, printable, run

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fumarole.client import Client

Counters = dict[str, Any]
STANDING = {"connections", "consumers", "producers"}
"""Numbers that are a current amount, not a sum, so they have no rate."""


@command(
    "stats",
    panel="Observation",
    examples="""
        fumarole stats --watch
        fumarole stats --consumers
        fumarole stats --json | jq .dropped
    """,
)
def stats(
    *,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Repeat, with rates, until Ctrl-C.")] = False,
    interval: Annotated[
        float, typer.Option(callback=finite, min=0.1, metavar="SECONDS", help="The time between two repeats.")
    ] = 1.0,
    consumers: Annotated[
        bool, typer.Option("--consumers", "-c", help="Show also the consumers that lost most.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object each time, for scripts.")] = False,
    access: Access,
) -> None:
    """Show the broker's counters of your namespace."""
    run(show_counters(access, interval if watch else None, consumers, as_json), interrupted=0)


async def show_counters(access: Access, interval: float | None, with_consumers: bool, as_json: bool) -> None:
    """Prints the counters: once, or at each interval."""
    async with access.connect("stats") as client:
        if as_json:
            await _print_json(client, interval, with_consumers)
        else:
            await _print_tables(client, interval, with_consumers)


async def _look(client: Client, with_consumers: bool) -> Counters:
    from fumarole.client import ClientError, NoResponders

    try:
        counters = await client.stats()
        if with_consumers:
            counters["worst_consumers"] = (await client.consumers())["worst"]
    except NoResponders:
        raise ClientError(f"{client.server} is not a Fumarole broker: it does not tell what it counts") from None
    return counters


async def _print_json(client: Client, interval: float | None, with_consumers: bool) -> None:
    import asyncio

    while True:
        print(json.dumps(await _look(client, with_consumers)), flush=True)  # noqa: T201
        if interval is None:
            return
        await asyncio.sleep(interval)


async def _print_tables(client: Client, interval: float | None, with_consumers: bool) -> None:
    import asyncio

    from rich.console import Console
    from rich.live import Live

    console = Console()
    before, seen = None, 0.0
    now = await _look(client, with_consumers)
    if interval is None:
        console.print(_tables(now, None, 0))
        return
    screen = Live(console=console, auto_refresh=False, screen=True) if console.is_terminal else None
    with screen or nullcontext():
        while True:
            tables = _tables(now, before, time.monotonic() - seen)
            if screen is None:
                console.print(tables)
            else:
                screen.update(tables, refresh=True)
            before, seen = now, time.monotonic()
            await asyncio.sleep(interval)
            now = await _look(client, with_consumers)


def flat(counters: Counters) -> dict[str, int]:
    """The numbers by name; a number with a reason is named like `dropped: outbox full`."""
    numbers: dict[str, int] = {}
    for name, value in counters.items():
        if isinstance(value, dict):
            # Quotas are shown with --json only.
            numbers |= {f"{name}: {reason}": number for reason, number in value.items() if isinstance(number, int)}
        elif isinstance(value, int):
            numbers[name.replace("_", " ")] = value
    return numbers


def _tables(counters: Counters, before: Counters | None, seconds: float) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    title = Text(printable(f"namespace {counters['namespace']} on {counters['node']}"), style="bold")
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("")
    table.add_column("sum", justify="right")
    if before is not None:
        table.add_column("a second", justify="right")
    earlier = flat(before) if before else {}
    for name, number in flat(counters).items():
        cells = [name, f"{number:,}"]
        if before is not None and name not in STANDING:
            cells.append(f"{(number - earlier.get(name, 0)) / seconds:,.0f}")
        table.add_row(*cells, style="red" if name.startswith("dropped") and number else None)
    worst = counters.get("worst_consumers")
    return Group(title, table) if worst is None else Group(title, table, "", _consumers_table(worst))


def _consumers_table(worst: list[dict[str, Any]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("connection", "pattern", "group"):
        table.add_column(name)
    for name in ("delivered", "dropped"):
        table.add_column(name, justify="right")
    for consumer in worst:
        # Clients choose their names: show neither markup nor control characters.
        texts = [Text(printable(str(consumer[name]))) for name in ("connection", "pattern", "group")]
        numbers = [f"{consumer[name]:,}" for name in ("delivered", "dropped")]
        table.add_row(*texts, *numbers, style="red" if consumer["dropped"] else None)
    return table
