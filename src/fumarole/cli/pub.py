"""`fumarole pub`: publish a message, or each line of stdin."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.message_lines import stdin_chunks, stdin_lines
from fumarole.cli.options import Access, Headers, header_pairs
from fumarole.cli.progress import Progress
from fumarole.cli.terminal import DIM, MISUSED, count_text, fail, finite, paint, run, say

BATCH = 4096
"""Messages between two readings of the clock."""
FLUSH_SECONDS = 30.0
LATENESS = 0.05


@command(
    "pub",
    panel="Messages",
    examples="""
        fumarole pub volcanoes.usa.atka 21.5 -H 'Unit: celsius'
        seq 1000 | fumarole pub volcanoes.usa.atka --rate 100
        fumarole pub volcanoes.usa.atka --whole < report.pdf
        fumarole pub volcanoes.usa.atka.status calm --retain
    """,
)
def pub(
    *,
    topic: Annotated[str, typer.Argument(help="The topic: words of letters, digits, - and _, with dots between them.")],
    payload: Annotated[str | None, typer.Argument(help="The payload. Left out: each line of stdin.")] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Publish the payload so many times, or so many lines.")
    ] = None,
    rate: Annotated[float | None, typer.Option(callback=finite, min=0.001, help="Messages a second, at most.")] = None,
    header: Headers = None,
    reply: Annotated[str, typer.Option(metavar="TOPIC", help="The topic for answers.")] = "",
    whole: Annotated[bool, typer.Option("--whole", help="All of stdin is one message.")] = False,
    retain: Annotated[
        bool,
        typer.Option(
            "--retain", help="The broker keeps the message as the newest of its topic. An empty payload removes it."
        ),
    ] = False,
    access: Access,
) -> None:
    """Publish a message, or each line of stdin."""
    if whole and payload is not None:
        fail("--whole takes the message from stdin, so no payload can be given", MISUSED)
    headers = header_pairs(header) + ([("Retain", "1")] if retain else [])
    run(publish(access, Work(topic, payload, count, rate, headers, reply, whole)))


@dataclass(frozen=True, slots=True)
class Work:
    """The messages to publish. Without a payload, they come from stdin."""

    topic: str
    payload: str | None = None
    count: int | None = None
    rate: float | None = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    reply: str = ""
    whole: bool = False

    def total(self) -> int | None:
        """The number of messages, if it is known."""
        return self.count or (None if self.payload is None and not self.whole else 1)


class Pace:
    """A limit of messages a second. A short delay is caught up."""

    def __init__(self, rate: float) -> None:
        self._interval = 1 / rate
        self._due = 0.0

    async def wait(self) -> None:
        """Returns when the next message is due."""
        import asyncio

        now = asyncio.get_running_loop().time()
        if self._due > now:
            await asyncio.sleep(self._due - now)
        self._due = max(self._due, now - LATENESS) + self._interval


async def publish(access: Access, work: Work) -> None:
    """Publishes all messages, and returns when the server has received them."""
    published = 0
    pace = None if work.rate is None else Pace(work.rate)
    async with access.connect("pub") as client:
        with Progress("publishing", work.total(), "messages") as progress:
            async for batch in _limited(_payloads(work), work.count):
                if pace is None and not work.headers and not work.reply:
                    published += await client.publish_many((work.topic, payload) for payload in batch)
                    batch = []
                for payload in batch:
                    if pace is not None:
                        await pace.wait()
                    await client.publish(work.topic, payload, headers=work.headers, reply=work.reply)
                    published += 1
                    progress.show(published)
                progress.show(published)
            await client.flush(FLUSH_SECONDS)
    if sys.stderr.isatty():
        say(paint(f"published {count_text(published, 'message')}", DIM, sys.stderr))


async def _payloads(work: Work) -> AsyncIterator[list[bytes]]:
    if work.whole:
        yield [b"".join([chunk async for chunk in stdin_chunks()])]
    elif work.payload is not None:
        payload = work.payload.encode("utf-8", "surrogateescape")
        left = work.count or 1
        while left:
            batch = [payload] * min(left, BATCH)
            left -= len(batch)
            yield batch
    else:
        if sys.stdin.isatty():
            say(paint("each line is a message; Ctrl-D ends", DIM, sys.stderr))
        async for lines in stdin_lines():
            yield lines


async def _limited(batches: AsyncIterator[list[bytes]], count: int | None) -> AsyncIterator[list[bytes]]:
    """The first `count` payloads."""
    async for batch in batches:
        if count is not None:
            batch = batch[:count]
            count -= len(batch)
        yield batch
        if count == 0:
            return
