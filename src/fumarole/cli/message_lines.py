"""Messages in and out of a terminal or pipe: how one is shown, and stdin as a stream of lines."""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from fumarole.cli.terminal import CYAN, DIM, json_text, paint, printable, say

if TYPE_CHECKING:
    import asyncio

    from fumarole.client import Message

CHUNK = 64 * 1024

Show = Callable[["Message"], bytes]


def shower(raw: bool, as_json: bool, replies: bool = False) -> Show:
    """The form of messages: payloads only, JSON lines, or text for people. The text of a reply leaves its topic out."""
    if raw:
        return lambda message: message.payload + b"\n"
    if as_json:
        return as_json_line
    return as_reply if replies else as_text


def as_json_line(message: Message) -> bytes:
    """`{"topic": "a.b", "payload": "21.5"}`; `payload_base64` in its place where it is not UTF-8."""
    return json_text(as_object(message)).encode() + b"\n"


def as_object(message: Message) -> dict[str, Any]:
    """A message for JSON. Headers are lists, as a name may come more than once."""
    shown: dict[str, Any] = {"topic": message.topic}
    try:
        shown["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        shown["payload_base64"] = base64.b64encode(message.payload).decode()
    if message.reply:
        shown["reply"] = message.reply
    headers: dict[str, list[str]] = {}
    for name, value in message.header_pairs:
        headers.setdefault(name, []).append(value)
    if headers:
        shown["headers"] = headers
    return shown


def as_text(message: Message) -> bytes:
    """`a.b  21.5`, then a line for each header and for the reply topic."""
    topic = paint(one_line(message.topic) or "(no topic)", CYAN, sys.stdout)
    pairs = [*message.header_pairs, *([("reply to", message.reply)] if message.reply else [])]
    payload = one_line(message.text.removesuffix("\n"))
    return f"{topic}  {payload}\n{_header_lines(pairs)}".encode()


def as_reply(message: Message) -> bytes:
    """The payload, then a line for each header."""
    # The output of a command has a line end already, and may have several lines.
    text = message.text.removesuffix("\n")
    shown = printable(text) if sys.stdout.isatty() else text
    return f"{shown}\n{_header_lines(message.header_pairs)}".encode()


def one_line(text: str) -> str:
    """A text of unknown origin as one line: a line feed in it would begin a line that passes for another message. On a
    terminal, control characters are made visible too."""
    return (printable(text) if sys.stdout.isatty() else text).replace("\n", "\\x0a")


def _header_lines(pairs: list[tuple[str, str]]) -> str:
    return "".join(paint(f"    {one_line(name)}: {one_line(value)}", DIM, sys.stdout) + "\n" for name, value in pairs)


def say_listening(pattern: str, group: str) -> None:
    """Prints the pattern and how to end the command, for a person at a terminal."""
    if sys.stderr.isatty():
        say(paint(f"listening to {pattern}{f' in group {group}' if group else ''}; Ctrl-C ends", DIM, sys.stderr))


def value_text(value: object) -> str:
    """A value of metadata, as in JSON."""
    return json.dumps(value, ensure_ascii=False)


def write(data: bytes) -> None:
    """Flushes results at once."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


async def stdin_chunks() -> AsyncIterator[bytes]:
    """The bytes of stdin, as they come. A thread reads them, because it handles terminal, pipe and file alike."""
    import asyncio

    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue(4)

    def put(chunk: bytes | OSError) -> None:
        asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()

    def read() -> None:
        try:
            try:
                while chunk := os.read(sys.stdin.fileno(), CHUNK):
                    put(chunk)
                put(b"")
            except OSError as error:
                put(error)
        except (RuntimeError, asyncio.CancelledError):
            pass  # the loop has ended before stdin did

    # A daemon thread, because only more input would end its read.
    threading.Thread(target=read, name="stdin", daemon=True).start()
    while chunk := await chunks.get():
        if isinstance(chunk, OSError):
            raise OSError(chunk.errno, chunk.strerror, "stdin")
        yield chunk


async def stdin_lines() -> AsyncIterator[list[bytes]]:
    """The lines of stdin without their line ends, in batches of all lines that are there."""
    rest = b""
    async for chunk in stdin_chunks():
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest.removesuffix(b"\r")]
