"""`fumarole producer forget`: forget a producer and its metadata."""

from __future__ import annotations

from typing import Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.options import Access
from fumarole.cli.terminal import MISUSED, fail, run


@command(
    "producer forget",
    panel="Observation",
    examples="""
        fumarole producer forget 2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60
    """,
)
def forget(
    *, identity: Annotated[str, typer.Argument(metavar="ID", help="The UUID of the producer.")], access: Access
) -> None:
    """Forget a producer and its metadata."""
    run(forget_producer(access, identity))


async def forget_producer(access: Access, identity: str) -> None:
    """Makes the broker forget a producer."""
    from fumarole.client import InvalidReadingError

    async with access.connect("producer forget") as client:
        try:
            producer = client.producer(identity=identity)
        except InvalidReadingError as error:
            fail(str(error), MISUSED)
        if not await producer.forget():
            fail(f"there is no producer {producer.id}")
