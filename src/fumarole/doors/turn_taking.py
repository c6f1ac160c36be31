"""Turn-taking: a connection that always has more to read gives way to the others.

The loop reads one connection several times before it comes to the next. So each connection adds up the time that its
batches take, and after half a millisecond it is not read again until the loop has been once around. A reader that has
put off a part of its batch gives way too, whatever the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

TURN = 0.0005
"""Seconds."""


class TurnTaking:
    """One connection's use of the loop. The pump adds to `busy`, and calls `give_way` when it is over TURN."""

    __slots__ = ("busy", "gives_way")

    def __init__(self) -> None:
        self.busy = 0.0
        """Seconds spent on it since the others had their turn."""
        self.gives_way = False
        """True when other connections should be read first."""

    def give_way(
        self,
        transport: asyncio.Transport,
        go_on: Callable[[], None],
        later: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        """Stops reading. The loop calls `go_on` when the others have had their turn, or `later` arranges that."""
        if not self.gives_way and not transport.is_closing():
            self.gives_way = True
            transport.pause_reading()
            if later is None:
                asyncio.get_running_loop().call_soon(go_on)
            else:
                later(go_on)
