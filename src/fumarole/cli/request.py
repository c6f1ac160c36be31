"""`fumarole request`: publish a request, and show the answers."""

from __future__ import annotations

from typing import Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.message_lines import shower, write
from fumarole.cli.options import Access, AsJson, Headers, Raw, header_pairs
from fumarole.cli.terminal import MISUSED, fail, finite, run


@command(
    "request",
    panel="Messages",
    examples="""
        fumarole request time.utc
        fumarole request health.check --replies all --timeout 1
    """,
)
def request(
    *,
    topic: Annotated[str, typer.Argument(help="The topic of the request.")],
    payload: Annotated[str, typer.Argument(help="The payload of the request.")] = "",
    replies: Annotated[
        str, typer.Option("--replies", "-r", metavar="N|all", help="Answers to wait for, or all.")
    ] = "1",
    timeout: Annotated[
        float, typer.Option(callback=finite, min=0.001, metavar="SECONDS", help="The time to wait for answers.")
    ] = 5.0,
    header: Headers = None,
    raw: Raw = False,
    as_json: AsJson = False,
    access: Access,
) -> None:
    """Publish a request, and show the answers."""
    if replies != "all" and not (replies.isdecimal() and int(replies)):
        fail(f"--replies is a number above 0, or `all`, not {replies!r}", MISUSED)
    wanted = None if replies == "all" else int(replies)
    run(ask(access, topic, payload, wanted, timeout, header_pairs(header), raw, as_json))


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
