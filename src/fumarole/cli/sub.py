"""`fumarole sub`: show messages as they are published, by pattern or by query."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fumarole.cli.command import command
from fumarole.cli.message_lines import one_line, say_listening, shower, value_text, write
from fumarole.cli.options import Access, AsJson, Group, Raw
from fumarole.cli.query_mistakes import query_mistakes
from fumarole.cli.terminal import CYAN, DIM, GREEN, YELLOW, count_text, fail, finite, json_text, paint, period, run, say
from fumarole.protocols.nats import MOST_AWAITED

if TYPE_CHECKING:
    from fumarole.client import Change, Reading


@command(
    "sub",
    panel="Messages",
    examples="""
        fumarole sub 'volcanoes.usa.>'
        fumarole sub 'volcanoes.*.*' --group archive --json | jq .payload
        fumarole sub volcanoes.usa.atka --raw --count 10 --timeout 60
        fumarole sub 'volcanoes.>' --last --every 1s
        fumarole sub --where "Kind = 'temperature' and Room like '4%'"
    """,
)
def sub(
    *,
    pattern: Annotated[str, typer.Argument(help="`*` is one word, `foo*` part of one, `>` the rest.")] = ">",
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, max=MOST_AWAITED, help="End after so many messages.")
    ] = None,
    group: Group = "",
    raw: Raw = False,
    as_json: AsJson = False,
    timeout: Annotated[
        float | None,
        typer.Option(callback=finite, min=0.001, metavar="SECONDS", help="End when none came for so long."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="QUERY", help="Show readings of the producers that this query selects, and the changes of that set."
        ),
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="Show the last values first, with their age.")] = False,
    every: Annotated[
        str | None,
        typer.Option(
            callback=period,
            metavar="PERIOD",
            help="Only the newest message of each topic in this time: 500ms, 1s; 0: whenever there is room.",
        ),
    ] = None,
    access: Access,
) -> None:
    """Show messages as they are published."""
    asked = Asked(access, pattern, count, group, timeout, raw, as_json, last, every)
    if where is not None:
        run(show_readings(asked, where), interrupted=0)
    else:
        run(show_messages(asked), interrupted=0)


@dataclass(frozen=True, slots=True)
class Asked:
    """The options, and the connection."""

    access: Access
    pattern: str
    count: int | None
    group: str
    seconds: float | None
    raw: bool
    as_json: bool
    last: bool
    every: str | None

    def too_few(self, came: str) -> None:
        """The time between two messages is over. With a count the command fails; else it ends."""
        if self.count is not None:
            fail(f"{came} of {self.count}, then none for {self.seconds:g} s")


async def show_messages(asked: Asked) -> None:
    """Prints messages as they come."""
    import asyncio

    show = shower(asked.raw, asked.as_json)
    async with (
        asked.access.connect("sub") as client,
        client.subscribe(
            asked.pattern, group=asked.group, limit=asked.count, last=asked.last, every=asked.every
        ) as messages,
    ):
        say_listening(asked.pattern, asked.group)
        try:
            batches = messages.batches()
            while True:
                async with asyncio.timeout(asked.seconds):
                    batch = await anext(batches)
                write(b"".join(map(show, batch)))
        except StopAsyncIteration:
            pass
        except TimeoutError:
            asked.too_few(count_text(messages.received, "message"))
        finally:
            _say_dropped(messages.dropped, "message")


async def show_readings(asked: Asked, query: str) -> None:
    """Prints readings and changes as they come; only readings are counted."""
    import asyncio

    from fumarole.client import Reading

    show = _as_value if asked.raw else _as_json if asked.as_json else _as_text
    with query_mistakes():
        async with (
            asked.access.connect("sub") as client,
            client.where(query, topic=asked.pattern, group=asked.group, last=asked.last, every=asked.every) as readings,
        ):
            if sys.stderr.isatty():
                say(paint(f"readings where {query}; Ctrl-C ends", DIM, sys.stderr))
            taken = 0
            try:
                while asked.count is None or taken < asked.count:
                    async with asyncio.timeout(asked.seconds):
                        each = await anext(readings)
                    taken += isinstance(each, Reading)
                    write(show(each).encode())
            except StopAsyncIteration:
                pass
            except TimeoutError:
                asked.too_few(count_text(taken, "reading"))
            finally:
                _say_dropped(readings.dropped, "reading")


def _say_dropped(dropped: int, what: str) -> None:
    if dropped:
        say(paint(f"{count_text(dropped, what)} came faster than they could be shown", YELLOW, sys.stderr))


def _as_value(each: Reading | Change) -> str:
    from fumarole.client import Change

    return "" if isinstance(each, Change) else f"{each.value}\n"


def _as_json(each: Reading | Change) -> str:
    from fumarole.client import Change

    said: dict[str, Any]
    if isinstance(each, Change):
        said = {"New": each.new, "Del": each.gone}
    else:
        said = {"id": each.producer, "metadata": each.metadata, "value": each.value, "topic": each.topic}
        if each.age is not None:
            said["age"] = each.age
    return json_text(said) + "\n"


def _as_text(each: Reading | Change) -> str:
    """`+ id` and `- id`; `id  21.5`, then lines for its own topic, the age of a last value, and each changed key."""
    from fumarole.client import Change

    if isinstance(each, Change):
        lines = [paint(f"- {gone}", YELLOW, sys.stdout) for gone in each.gone]
        lines += [paint(f"+ {new}", GREEN, sys.stdout) for new in each.new]
    else:
        lines = [f"{paint(each.producer, CYAN, sys.stdout)}  {one_line(str(each.value))}"]
        details = [] if each.topic == f"readings.{each.producer}" else [f"topic: {each.topic}"]
        details += [] if each.age is None else [f"Last: {each.age:g}"]
        details += [f"{key} = {value_text(value)}" for key, value in each.metadata.items()]
        lines += [paint(f"    {one_line(detail)}", DIM, sys.stdout) for detail in details]
    return "".join(f"{line}\n" for line in lines)
