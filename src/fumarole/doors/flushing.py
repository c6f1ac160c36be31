"""When outboxes are flushed: at once, or together with others of the same turn of the loop.

A batch fills outboxes. An outbox that was empty adds its owner, a pump, to the `ready` list of the node; a flush sends
what each of them has with one system call. For a large batch that is done at once. Small batches of many connections
often arrive in one turn of the loop and go to the same consumers, so they are flushed together at its end:

    64 KiB of one publisher                      1 flush at once
    100 B of each of 50 publishers, one turn     1 flush at once, for the first, and 1 for the other 49
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any, Protocol

LARGE_BATCH = 4 * 1024
"""Bytes. A batch of as many is flushed at once."""
SAME_TURN = 5e-6
"""Seconds from one batch to the next in one turn: less than any wait for the network takes."""


class Flushing(Protocol):
    """When the outboxes that a batch has filled are flushed."""

    def batch_done(self, began: float, size: int) -> float:
        """A batch of so many bytes is in the outboxes. The time now, when all that is flushed at once has left."""


class LastBatch:
    """When the last batch of a client was done. The doors of a process share it, as they share the loop."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = 0.0


LAST_BATCH = LastBatch()


class FlushTogether:
    """The policy for clients: small batches of one turn leave together."""

    def __init__(self, ready: list[Any]) -> None:
        self._ready = ready
        self._is_due = False

    def batch_done(self, began: float, size: int) -> float:
        if size >= LARGE_BATCH or began - LAST_BATCH.at > SAME_TURN:
            flush(self._ready)
        elif not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._end_of_turn)
        now = LAST_BATCH.at = monotonic()
        return now

    def _end_of_turn(self) -> None:
        self._is_due = False
        flush(self._ready)


class FlushAtOnce:
    """The policy for node links: few sockets, each with the messages of many clients."""

    def __init__(self, ready: list[Any]) -> None:
        self._ready = ready

    def batch_done(self, began: float, size: int) -> float:  # noqa: ARG002
        flush(self._ready)
        return monotonic()


def flush(ready: list[Any]) -> None:
    """Flushes every owner of a filled outbox. A flush may close a connection, and that may fill other outboxes."""
    while ready:
        owners = ready[:]
        ready.clear()
        for owner in owners:
            owner.flush()
