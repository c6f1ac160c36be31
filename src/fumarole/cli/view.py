"""`fumarole view`: a live view as a table that updates in place."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.message_lines import value_text, write
from fumarole.cli.options import Access
from fumarole.cli.query_mistakes import query_mistakes
from fumarole.cli.terminal import json_text, printable, run

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from fumarole.client.view import Entry, ViewSubscription
    from fumarole.core.query.tree import Value
    from fumarole.core.query.view import View


@command(
    "view",
    panel="Observation",
    examples="""
        fumarole view "select Room where Kind = 'thermostat'"
        fumarole view "select Region, count(*) where Status = 'failed'" --json
        fumarole view "select Room where Kind = 'thermostat'" --once
    """,
)
def view(
    *,
    text: Annotated[str, typer.Argument(metavar="VIEW", help="select KEY, … [, count(*)] where QUERY")],
    once: Annotated[bool, typer.Option("--once", help="Show the view as it is now, and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per change, for scripts.")] = False,
    access: Access,
) -> None:
    """Show the distinct values of some metadata keys, and how they change."""
    run(show_view(access, text, once, as_json), interrupted=0)


async def show_view(access: Access, text: str, once: bool, as_json: bool) -> None:
    """Prints the entries of the view, then its changes."""
    from fumarole.core.query.view import parse_view

    with query_mistakes():
        async with access.connect("view") as client, client.view(text) as found:
            if as_json:
                if once:
                    write((json_text({"New": found.entries, "Del": []}) + "\n").encode())
                    return
                async for change in found:
                    write((json_text({"New": change.new, "Del": change.gone}) + "\n").encode())
            elif once or not sys.stdout.isatty():
                show_entries(parse_view(found.text), found.entries)
            else:
                await _live(found)


async def _live(found: ViewSubscription) -> None:
    from rich.live import Live

    from fumarole.core.query.view import parse_view

    parsed = parse_view(found.text)
    with Live(_table(parsed, found.entries), auto_refresh=False) as live:
        async for _ in found:
            live.update(_table(parsed, found.entries), refresh=True)


def show_entries(parsed: View, entries: Iterable[Entry]) -> None:
    """Prints the entries of a view as a table."""
    from rich.console import Console

    Console().print(_table(parsed, entries))


def _table(parsed: View, entries: Iterable[Entry]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim", pad_edge=False)
    for key in parsed.keys:
        table.add_column(Text(printable(key)))
    if parsed.counted:
        table.add_column("count", justify="right")
    for entry in sorted(entries, key=lambda entry: [str(each) for each in entry]):
        table.add_row(*map(_cell, entry))
    return table


def _cell(value: Value | None) -> Text:
    from rich.text import Text

    return Text(printable(value if isinstance(value, str) else "" if value is None else value_text(value)))
