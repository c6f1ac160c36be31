"""What `sub --where`, `producers`, `producer forget` and `query explain` do."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fumarole.cli.access import Access
from fumarole.cli.lines import write
from fumarole.cli.terminal import (
    CYAN,
    DIM,
    GREEN,
    MISUSED,
    YELLOW,
    count_text,
    fail,
    json_text,
    paint,
    printable,
    say,
)
from fumarole.client import Change, InvalidReadingError, ProducerInfo, QueryRefusedError, Reading
from fumarole.core.query.errors import QueryError

if TYPE_CHECKING:
    from rich.table import Table

MOST_SHOWN = 1_000
"""Producers, by one command."""
UNBOUNDED_WIDTH = 10_000
"""Of a table that goes to a file or a pipe."""

Show = Callable[[Reading | Change], str]


async def show_readings(
    access: Access,
    query: str,
    pattern: str,
    count: int | None,
    group: str,
    seconds: float | None,
    raw: bool,
    as_json: bool,
) -> None:
    """Prints readings and changes as they come; only readings are counted."""
    show = _as_value if raw else _as_json if as_json else _as_text
    with query_mistakes():
        async with access.connect("sub") as client, client.where(query, topic=pattern, group=group) as readings:
            if sys.stderr.isatty():
                say(paint(f"readings where {query}; Ctrl-C ends", DIM, sys.stderr))
            taken = 0
            try:
                while count is None or taken < count:
                    async with asyncio.timeout(seconds):
                        each = await anext(readings)
                    taken += isinstance(each, Reading)
                    write(show(each).encode())
            except StopAsyncIteration:
                pass
            except TimeoutError:
                if count is not None:
                    fail(f"{count_text(taken, 'reading')} of {count}, then none for {seconds:g} s")
            finally:
                if readings.dropped:
                    lost = f"{count_text(readings.dropped, 'reading')} came faster than they could be shown"
                    say(paint(lost, YELLOW, sys.stderr))


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


async def forget(access: Access, identity: str) -> None:
    """Makes the broker forget a producer."""
    async with access.connect("producer forget") as client:
        try:
            producer = client.producer(identity=identity)
        except InvalidReadingError as error:
            fail(str(error), MISUSED)
        if not await producer.forget():
            fail(f"there is no producer {producer.id}")


def explained(query: str) -> str:
    """The tree of a query and the keys it depends on."""
    from fumarole.core.limits import Limits
    from fumarole.core.query.parse import parse
    from fumarole.core.query.tree import explain

    with query_mistakes():
        return explain(parse(query, Limits()))


@contextmanager
def query_mistakes() -> Iterator[None]:
    """Inside, a wrong query ends the command with the place of the mistake."""
    try:
        yield
    except (QueryError, QueryRefusedError) as error:
        fail(error.caret(), MISUSED)


def _as_value(each: Reading | Change) -> str:
    return "" if isinstance(each, Change) else f"{each.value}\n"


def _as_json(each: Reading | Change) -> str:
    said: dict[str, Any]
    if isinstance(each, Change):
        said = {"New": each.new, "Del": each.gone}
    else:
        said = {"id": each.producer, "metadata": each.metadata, "value": each.value, "topic": each.topic}
    return json_text(said) + "\n"


def _as_text(each: Reading | Change) -> str:
    """`+ id` and `- id`; `id  21.5`, then a line for a topic of its own and for each thing new about the producer."""
    if isinstance(each, Change):
        lines = [paint(f"- {gone}", YELLOW, sys.stdout) for gone in each.gone]
        lines += [paint(f"+ {new}", GREEN, sys.stdout) for new in each.new]
    else:
        lines = [f"{paint(each.producer, CYAN, sys.stdout)}  {_shown(str(each.value))}"]
        details = [] if each.topic == f"readings.{each.producer}" else [f"topic: {each.topic}"]
        details += [f"{key} = {_text(value)}" for key, value in each.metadata.items()]
        lines += [paint(f"    {_shown(detail)}", DIM, sys.stdout) for detail in details]
    return "".join(f"{line}\n" for line in lines)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shown(text: str) -> str:
    # What others say about themselves must not steer this terminal.
    return printable(text) if sys.stdout.isatty() else text


def _table(producers: list[ProducerInfo]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("id", no_wrap=True)
    table.add_column("metadata", overflow="fold")
    for name in ("last reading", "age"):
        table.add_column(name, justify="right")
    for each in producers:
        metadata = ", ".join(f"{key} = {_text(value)}" for key, value in sorted(each.metadata.items()))
        value = "" if each.value is None else str(each.value)
        age = "" if each.age is None else f"{each.age:,.1f} s"
        table.add_row(each.id, Text(printable(metadata)), Text(printable(value)), age)
    return table
