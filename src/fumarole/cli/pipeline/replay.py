"""`fumarole pipeline replay`: publish recorded messages again."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.options import Access
from fumarole.cli.pipeline.options import Archive, Namespace
from fumarole.cli.terminal import MISUSED, YELLOW, count_text, fail, finite, paint, printable, run, say
from fumarole.core.packages import need

if TYPE_CHECKING:
    from fumarole.pipeline.replay import Range

FLUSH_SECONDS = 60.0


@command(
    "pipeline replay",
    panel="Archive",
    examples="""
        fumarole pipeline replay --archive archive --speed 10
        fumarole pipeline replay --archive archive --since 2026-11-15T22:00 --until 2026-11-15T22:05
    """,
)
def replay(
    *,
    archive: Archive,
    speed: Annotated[
        float, typer.Option(callback=finite, min=0.0, help="So many times the recorded pace; 0: as fast as possible.")
    ] = 1.0,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only messages from this time on: 2026-11-15T22:00, UTC without an offset."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Before this.")] = None,
    topic: Annotated[str, typer.Option(metavar="PATTERN", help="Only messages on topics of this pattern.")] = ">",
    namespace: Namespace = "default",
    access: Access,
) -> None:
    """Publish recorded messages again, at the recorded pace."""
    need("pipeline")
    from fumarole.pipeline.errors import TimeError
    from fumarole.pipeline.replay import Range
    from fumarole.pipeline.times import between

    try:
        wanted = Range(*between(since, until), topic)
    except TimeError as error:
        fail(str(error), MISUSED)
    run(replay_archive(access, archive, namespace, wanted, speed))


async def replay_archive(access: Access, archive: str, namespace: str, wanted: Range, speed: float) -> None:
    """Publishes the messages, and shows the progress on a terminal."""
    from fumarole.client import RefusedError
    from fumarole.pipeline.replay import replay

    shown = sys.stderr.isatty()

    def progress(time: int, count: int) -> None:
        if shown:
            reached = datetime.fromtimestamp(time / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
            sys.stderr.write(f"\r{reached} UTC, {count_text(count, 'message')} ")
            sys.stderr.flush()

    async with access.connect("replay", presence=False) as client:
        done = await replay(client, archive, namespace, wanted, speed, progress)
        try:
            await client.flush(FLUSH_SECONDS)
        except RefusedError as error:
            say(paint(f"the broker refused some of them: {printable(str(error))}", YELLOW, sys.stderr))
    if shown:
        sys.stderr.write("\r")
    if done.left_out:
        odd = count_text(done.left_out, "header")
        say(paint(f"{odd} left out: a name with a space, or a line break, cannot be sent", YELLOW, sys.stderr))
    if client.losses:
        lost = f"the connection was lost {count_text(client.losses, 'time')}"
        say(paint(f"{lost}: what was sent just before may not have been heard", YELLOW, sys.stderr))
    say(f"{count_text(done.messages, 'message')} published")
