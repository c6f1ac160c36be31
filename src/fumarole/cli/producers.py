"""`fumarole producers`: producers with their metadata and last readings."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.message_lines import value_text, write
from fumarole.cli.options import Access
from fumarole.cli.query_mistakes import query_mistakes
from fumarole.cli.terminal import YELLOW, json_text, paint, printable, run, say

if TYPE_CHECKING:
    from rich.table import Table

    from fumarole.client import ProducerInfo

MOST_SHOWN = 1_000
"""Producers, by one command."""
UNBOUNDED_WIDTH = 10_000
"""Of a table that goes to a file or a pipe."""


@command(
    "producers",
    panel="Observation",
    examples="""
        fumarole producers
        fumarole producers --where "Kind = 'temperature' and Room like '4%'"
        fumarole producers --json | jq .metadata
    """,
)
def producers(
    *,
    where: Annotated[
        str, typer.Option(metavar="QUERY", help="Only producers that this query selects. Left out: all.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per producer, for scripts.")] = False,
    access: Access,
) -> None:
    """Show producers with their metadata and last readings."""
    run(show_producers(access, where, as_json))


async def show_producers(access: Access, query: str, as_json: bool) -> None:
    """Prints the producers that the query selects, or all."""
    with query_mistakes():
        async with access.connect("producers") as client:
            found = await client.producers(query, most=MOST_SHOWN + 1)
    producers = found[:MOST_SHOWN]
    if as_json:
        write("".join(json_text(each._asdict()) + "\n" for each in producers).encode())
    elif producers:
        from rich.console import Console

        Console(width=None if sys.stdout.isatty() else UNBOUNDED_WIDTH).print(_table(producers))
    else:
        say("no producer" + (" that this query selects" if query else ""))
    if len(found) > MOST_SHOWN:
        say(paint(f"the first {MOST_SHOWN:,}, there are more", YELLOW, sys.stderr))


def _table(producers: list[ProducerInfo]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("id", no_wrap=True)
    table.add_column("metadata", overflow="fold")
    for name in ("last reading", "age"):
        table.add_column(name, justify="right")
    for each in producers:
        metadata = ", ".join(f"{key} = {value_text(value)}" for key, value in sorted(each.metadata.items()))
        value = "" if each.value is None else str(each.value)
        age = "" if each.age is None else f"{each.age:,.1f} s"
        table.add_row(each.id, Text(printable(metadata)), Text(printable(value)), age)
    return table
