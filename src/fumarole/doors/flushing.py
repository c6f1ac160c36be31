"""When outboxes are flushed: at once, or together with others of the same turn of the loop.

A batch fills outboxes. An outbox that was empty adds its owner, a pump, to the `ready` list of the node; a flush sends
what each of them has with one system call. For a large batch that is done at once. Small batches of many connections
often arrive in one turn of the loop and go to the same consumers, so they are flushed together at its end:

    64 KiB of one publisher                      1 flush at once
    100 B of each of 50 publishers, one turn     1 flush at once, for the first, and 1 for the other 49

A small batch may fill very many outboxes: a message to 1,000 streams of events is 1,000 system calls, which are 10 ms.
They are made in slices, and other connections have their turn in between. What is published meanwhile to the same
consumers leaves with what still waits, and so takes no system call of its own. What waits is bounded: after 16 KiB of
input, or with a large batch, everything is flushed at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from typing import Any, Protocol

LARGE_BATCH = 4 * 1024
"""Bytes. A batch of as many is flushed at once."""
SAME_TURN = 5e-6
"""Seconds from one batch to the next in one turn: less than any wait for the network takes."""
FEW = 8
"""Outboxes that are flushed at once, about a tenth of a millisecond."""
MOMENT = 0.0001
"""Seconds of each turn of the loop for outboxes that wait."""
MOST_MEANWHILE = 16 * 1024
"""Bytes of input while outboxes wait. Each of them may have to hold as many."""


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
    """The policy for clients: small batches of one turn leave together, and what many get leaves in slices.

    `late` are the owners of filled outboxes that wait for their slice. All policies of a node share it.
    """

    def __init__(self, ready: list[Any], late: deque[Any]) -> None:
        self._ready = ready
        self._late = late
        self._meanwhile = Meanwhile(late)
        self._is_due = False
        self._goes_on = False

    def batch_done(self, began: float, size: int) -> float:
        meanwhile = self._meanwhile
        if size >= LARGE_BATCH or ((self._late or meanwhile.bytes) and meanwhile.is_too_much(size)):
            flush_all(self._ready, self._late)
        elif began - LAST_BATCH.at > SAME_TURN:
            self._flush()
        elif not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._end_of_turn)
        now = LAST_BATCH.at = monotonic()
        return now

    def _end_of_turn(self) -> None:
        self._is_due = False
        if not self._flush_few() and not self._goes_on:
            self._flush_some()

    def _flush(self) -> None:
        if not self._flush_few():
            self._go_on()

    def _flush_few(self) -> bool:
        """False: there are many, and they wait behind those that wait already."""
        if len(self._ready) <= FEW:
            flush(self._ready)
            return True
        self._late += self._ready
        self._ready.clear()
        return False

    def _go_on(self) -> None:
        if not self._goes_on:
            self._goes_on = True
            asyncio.get_running_loop().call_soon(self._flush_some)

    def _flush_some(self) -> None:
        self._goes_on = False
        end = monotonic() + MOMENT
        while self._late:
            self._late.popleft().flush()
            if monotonic() >= end:
                break
        if self._late:
            self._go_on()
        flush(self._ready)  # a flush may close a connection, and that may fill other outboxes


class FlushAtOnce:
    """The policy for node links: few sockets, each with the messages of many clients."""

    def __init__(self, ready: list[Any], late: deque[Any]) -> None:
        self._ready = ready
        self._late = late
        self._meanwhile = Meanwhile(late)

    def batch_done(self, began: float, size: int) -> float:  # noqa: ARG002 - when it began is the other policy's matter
        if self._meanwhile.is_too_much(size):
            flush_all(self._ready, self._late)
        else:
            flush(self._ready)
        return monotonic()


class Meanwhile:
    """Counts what one kind of connections brings while outboxes wait for their slice."""

    def __init__(self, late: deque[Any]) -> None:
        self._late = late
        self.bytes = 0

    def is_too_much(self, size: int) -> bool:
        """So many more bytes have come. Should nothing wait any longer?"""
        self.bytes = self.bytes + size if self._late else 0
        return self.bytes > MOST_MEANWHILE


def flush_all(ready: list[Any], late: deque[Any]) -> None:
    """Flushes those that wait for their slice too."""
    while late:
        late.popleft().flush()
    flush(ready)


def flush(ready: list[Any]) -> None:
    """Flushes every owner of a filled outbox. A flush may close a connection, and that may fill other outboxes."""
    while ready:
        if len(ready) == 1:
            ready.pop().flush()
            continue
        owners = ready[:]
        ready.clear()
        for owner in owners:
            owner.flush()
