"""`fumarole token`: make a token for a client, and its digest for the configuration."""

from __future__ import annotations

import json

import typer

from fumarole.cli.command import command
from fumarole.cli.options import AsJsonObject


@command(
    "token",
    panel="Broker",
    examples="""
        fumarole token --json
    """,
)
def token(as_json: AsJsonObject = False) -> None:
    """Make a token for a client, and its digest for the configuration."""
    from fumarole.server.credentials import new_token

    secret, digest = new_token()
    if as_json:
        typer.echo(json.dumps({"token": secret, "digest": digest}))
    else:
        typer.echo(f"for the client         {secret}\nfor the configuration  {digest}")
