"""`fumarole last`: the last values, as a table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.message_lines import as_json_line, write
from fumarole.cli.options import Access
from fumarole.cli.query_mistakes import query_mistakes
from fumarole.cli.terminal import YELLOW, paint, printable, run, say

if TYPE_CHECKING:
    from rich.table import Table

    from fumarole.client import Message

MOST_SHOWN = 10_000
"""Values, in a table."""
UNBOUNDED_WIDTH = 10_000
"""Of a table that goes to a file or a pipe."""
LONGEST_VALUE = 200


@command(
    "last",
    panel="Messages",
    examples="""
        fumarole last 'volcanoes.>'
        fumarole last --where "Kind = 'temperature'"
        fumarole last 'volcanoes.usa.*' --json | jq .payload
    """,
)
def last(
    *,
    pattern: Annotated[str, typer.Argument(help="`*` is one word, `foo*` part of one, `>` the rest.")] = ">",
    where: Annotated[
        str, typer.Option(metavar="QUERY", help="The last readings of the producers that this query selects.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per value, for scripts.")] = False,
    access: Access,
) -> None:
    """Show the last values: of each topic the retained or the last message, and its age."""
    run(show_last(access, pattern, where, as_json))


async def show_last(access: Access, pattern: str, where: str, as_json: bool) -> None:
    """Prints the values, and ends."""
    found: list[Message] = []
    more = 0
    with query_mistakes():
        async with access.connect("last") as client:
            async for message in client.last(pattern, where=where):
                if as_json:
                    write(as_json_line(message))
                elif len(found) < MOST_SHOWN:
                    found.append(message)
                else:
                    more += 1
    if found:
        from rich.console import Console

        found.sort(key=lambda message: message.topic)
        Console(width=None if sys.stdout.isatty() else UNBOUNDED_WIDTH).print(_table(found))
    elif not as_json:
        say("nothing is known of these topics: no message is retained there, and the namespace keeps no last ones")
    if more:
        say(paint(f"the first {MOST_SHOWN:,}, there are {more:,} more", YELLOW, sys.stderr))


def _table(found: list[Message]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("topic", no_wrap=True)
    for name in ("value", "age"):
        table.add_column(name, justify="right", overflow="fold")
    for message in found:
        value = message.text if len(message.payload) <= LONGEST_VALUE else f"{message.text[:LONGEST_VALUE]}…"
        age = "" if message.age is None else f"{message.age:,.1f} s"
        table.add_row(Text(printable(message.topic)), Text(printable(value)), age)
    return table
