"""`fumarole token`: make a token for a client, and its digest for the configuration."""

from __future__ import annotations

from fumarole.cli.command import command
from fumarole.cli.options import AsJsonObject
from fumarole.cli.terminal import show_credentials


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

    show_credentials(as_json, "token", "digest", *new_token())
