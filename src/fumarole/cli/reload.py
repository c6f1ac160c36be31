"""`fumarole reload`: a running broker loads its configuration again."""

from __future__ import annotations

import json
from typing import Any

import typer

from fumarole.cli.command import command
from fumarole.cli.options import Access, AsJsonObject
from fumarole.cli.terminal import MISUSED, fail, printable, run

TOPIC = "$FUM.reload"


@command(
    "reload",
    panel="Broker",
    examples="""
        fumarole reload
        fumarole reload --servers nats://admin:secret@127.0.0.1:4222
    """,
)
def reload(as_json: AsJsonObject = False, *, access: Access) -> None:
    """Make a running broker load its configuration again. A mistake changes nothing, and is shown with its line."""
    run(load_again(access, as_json))


async def load_again(access: Access, as_json: bool) -> None:
    """Sends the request to the broker, and shows the result."""
    async with access.connect("reload") as client:
        answer = await client.request(TOPIC)
    found: dict[str, Any] = json.loads(answer.payload)
    if as_json:
        typer.echo(json.dumps(found))
    if mistakes := [*found.get("mistakes", []), *([found["error"]] if "error" in found else [])]:
        fail("\n".join(map(printable, mistakes)), MISUSED)
    if not as_json:
        waiting = ", ".join(found["restart"])
        typer.echo("loaded again" + (f"; these wait for a restart: {waiting}" if waiting else ""))
