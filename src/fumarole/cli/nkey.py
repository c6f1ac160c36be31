"""`fumarole nkey`: make a key pair for a client, whose public half goes into the configuration."""

from __future__ import annotations

from fumarole.cli.command import command
from fumarole.cli.options import AsJsonObject
from fumarole.cli.terminal import show_credentials


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

    show_credentials(as_json, "seed", "nkey", *new_key_pair())
