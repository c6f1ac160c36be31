"""`fumarole nkey`: make a key pair for a client, whose public half goes into the configuration."""

from __future__ import annotations

import json

import typer

from fumarole.cli.command import command
from fumarole.cli.options import AsJsonObject


@command(
    "nkey",
    panel="Broker",
    examples="""
        fumarole nkey --json
    """,
)
def nkey(as_json: AsJsonObject = False) -> None:
    """Make a key pair for a client (a seed, which is its secret), and the public key for the configuration."""
    from fumarole.server.credentials import new_key_pair

    seed, public = new_key_pair()
    if as_json:
        typer.echo(json.dumps({"seed": seed, "nkey": public}))
    else:
        typer.echo(f"for the client         {seed}\nfor the configuration  {public}")
