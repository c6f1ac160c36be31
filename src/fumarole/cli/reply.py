"""`fumarole reply`: answer requests with a text, an echo, or the output of a command."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.message_lines import say_listening
from fumarole.cli.options import Access, Group
from fumarole.cli.terminal import MISUSED, YELLOW, fail, paint, printable, run, say
from fumarole.protocols.nats import MOST_AWAITED

if TYPE_CHECKING:
    import asyncio

    from fumarole.client import Message

COMMANDS_AT_ONCE = 8
EXIT_CODE = "Exit-Code"
"""The header of an answer whose command failed."""


@command(
    "reply",
    panel="Messages",
    examples="""
        fumarole reply time.utc --command 'date -u'
        fumarole reply echo --echo --group echoes
    """,
)
def reply(
    *,
    pattern: Annotated[str, typer.Argument(help="The pattern of the requests to answer.")],
    text: Annotated[str | None, typer.Argument(help="The answer.")] = None,
    echo: Annotated[bool, typer.Option("--echo", help="Answer with the request's own payload.")] = False,
    command: Annotated[
        str | None,
        typer.Option(
            metavar="CMD",
            help="Run this in a shell, with the payload on stdin and $TOPIC set; its output is the answer.",
        ),
    ] = None,
    group: Group = "",
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, max=MOST_AWAITED, help="End after so many requests.")
    ] = None,
    access: Access,
) -> None:
    """Answer requests with a text, an echo, or the output of a command."""
    if [text is not None, echo, command is not None].count(True) != 1:
        fail("say how to answer: with TEXT, --echo or --command, one of them", MISUSED)
    run(answer(access, pattern, group, count, text, command), interrupted=0)


async def answer(
    access: Access, pattern: str, group: str, count: int | None, text: str | None, command: str | None
) -> None:
    """Answers requests until Ctrl-C, or until `count` are answered."""
    import asyncio

    async with access.connect("reply") as client:
        async with client.subscribe(pattern, group=group, limit=count) as requests, asyncio.TaskGroup() as commands:
            say_listening(pattern, group)
            free = asyncio.Semaphore(COMMANDS_AT_ONCE)
            async for request in requests:
                if command is not None:
                    await free.acquire()
                    commands.create_task(_answer_by_command(request, command, free))
                else:
                    data = request.payload if text is None else text.encode("utf-8", "surrogateescape")
                    await _respond(request, data)
        await client.flush()


async def _answer_by_command(request: Message, command: str, free: asyncio.Semaphore) -> None:
    import asyncio

    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_shell(
            command, stdin=pipe, stdout=pipe, env={**os.environ, "TOPIC": request.topic}
        )
        printed, _ = await process.communicate(request.payload)
        await _respond(request, printed, process.returncode or 0)
    finally:
        free.release()


async def _respond(request: Message, payload: bytes, exit_code: int = 0) -> None:
    from fumarole.client import NoReplyTopicError, PayloadTooLargeError, PendingFullError

    headers = {EXIT_CODE: str(exit_code)} if exit_code else None
    try:
        await request.respond(payload, headers=headers)
    except NoReplyTopicError:
        _say_unanswered(request, "not a request, not answered")
    except (PayloadTooLargeError, PendingFullError) as error:  # the other requests still get their answers
        _say_unanswered(request, f"not answered: {error}")


def _say_unanswered(request: Message, why: str) -> None:
    say(paint(printable(f"{request.topic}: {why}"), YELLOW, sys.stderr))
