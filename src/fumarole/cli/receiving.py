"""What `sub`, `request` and `reply` do."""

from __future__ import annotations

import asyncio
import os
import sys

from fumarole.cli.access import Access
from fumarole.cli.lines import shower, write
from fumarole.cli.terminal import DIM, YELLOW, count_text, fail, paint, printable, say
from fumarole.client import Message, NoReplyTopicError, PayloadTooLargeError, PendingFullError, Subscription

COMMANDS_AT_ONCE = 8
EXIT_CODE = "Exit-Code"
"""The header of an answer whose command failed."""


async def show_messages(
    access: Access, pattern: str, count: int | None, group: str, seconds: float | None, raw: bool, as_json: bool
) -> None:
    """Prints messages as they come."""
    show = shower(raw, as_json)
    async with access.connect("sub") as client, client.subscribe(pattern, group=group, limit=count) as messages:
        _say_listening(pattern, group)
        try:
            batches = messages.batches()
            while True:
                async with asyncio.timeout(seconds):
                    batch = await anext(batches)
                write(b"".join(map(show, batch)))
        except StopAsyncIteration:
            pass
        except TimeoutError:
            if count is not None:
                fail(f"{count_text(messages.received, 'message')} of {count}, then none for {seconds:g} s")
        finally:
            _say_dropped(messages)


async def ask(
    access: Access,
    topic: str,
    payload: str,
    wanted: int | None,
    seconds: float,
    headers: list[tuple[str, str]],
    raw: bool,
    as_json: bool,
) -> None:
    """Prints the replies to a request."""
    show = shower(raw, as_json, replies=True)
    async with access.connect("request") as client:
        data = payload.encode("utf-8", "surrogateescape")
        replies = await client.call(topic, data, wanted, seconds, headers=headers)
        write(b"".join(map(show, replies)))
        if len(replies) < (wanted or 1):
            fail(f"{len(replies)} of {wanted or 'any'} replies within {seconds:g} s")


async def answer(
    access: Access, pattern: str, group: str, count: int | None, text: str | None, command: str | None
) -> None:
    """Answers requests until it is ended, or has had so many."""
    async with access.connect("reply") as client:
        async with client.subscribe(pattern, group=group, limit=count) as requests, asyncio.TaskGroup() as commands:
            _say_listening(pattern, group)
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
    headers = {EXIT_CODE: str(exit_code)} if exit_code else None
    try:
        await request.respond(payload, headers=headers)
    except NoReplyTopicError:
        _say_unanswered(request, "not a request, not answered")
    except (PayloadTooLargeError, PendingFullError) as error:  # others still want theirs
        _say_unanswered(request, f"not answered: {error}")


def _say_unanswered(request: Message, why: str) -> None:
    say(paint(printable(f"{request.topic}: {why}"), YELLOW, sys.stderr))


def _say_listening(pattern: str, group: str) -> None:
    if sys.stderr.isatty():
        say(paint(f"listening to {pattern}{f' in group {group}' if group else ''}; Ctrl-C ends", DIM, sys.stderr))


def _say_dropped(messages: Subscription) -> None:
    if messages.dropped:
        say(
            paint(f"{count_text(messages.dropped, 'message')} came faster than they could be shown", YELLOW, sys.stderr)
        )
