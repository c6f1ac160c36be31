"""When outboxes are flushed: at once, or together with others of the same turn of the loop.

A batch fills outboxes. An outbox that was empty adds its owner, a pump, to the `ready` list of the node; a flush sends
what each of them has with one system call. For a large batch that is done at once. Small batches of many connections
often arrive in one turn of the loop and go to the same consumers, so they are flushed together at its end:

    64 KiB of one publisher                      1 flush at once
    100 B of each of 50 publishers, one turn     1 flush at once, for the first, and 1 for the other 49

A batch may fill very many outboxes: a message to 1,000 streams of events is 1,000 system calls, which are 10 ms. They
are made in slices, and other connections have their turn in between. What is published meanwhile to the same consumers
leaves with what still waits, and so takes no system call of its own.

What waits is bounded. A batch counts as its bytes. Where it is taken in piece by piece (`sessions/reader.py`, Work),
each piece counts as 2 KiB, and the last one as what is left. A connection whose input makes more than 16 KiB of that
waits in line: it is not read until every outbox that waits now was flushed. Of 1,000 lines to 1,000 consumers, about 40
are taken in before:

    turn 1       4 lines are published, 20 outboxes are flushed
    …
    turn 9       the last 4 of 36 lines are published; their connection stands in line behind 820 outboxes
    turn 50      the outboxes are flushed, and the connection goes on

A publisher waits for no consumer by that (D6): a flush sends what the socket takes. Only where very many connections
bring much in one turn, everything is flushed at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol

LARGE_BATCH = 2 * 1024
"""Bytes. A batch of as many does not wait for others of its turn. A piece of a batch counts as so many."""
SAME_TURN = 5e-6
"""Seconds from one batch to the next in one turn: less than any wait for the network takes."""
FEW = 8
"""Outboxes that are flushed at once, about a tenth of a millisecond."""
FEW_OF_MUCH = 128
"""The same of a large batch, about a millisecond. In slices, a quarter of the throughput to 100 consumers was lost."""
MOMENT = 0.0001
"""Seconds of each turn of the loop for outboxes that wait."""
MOST_MEANWHILE = 16 * 1024
"""Bytes of input while outboxes wait, until the connections that bring more wait too."""
MOST_AT_ALL = 256 * 1024
"""Bytes of input while outboxes wait, until they are flushed at once. Each of them may have to hold as many."""


class Flushing(Protocol):
    """When the outboxes that a batch has filled are flushed."""

    def batch_done(self, began: float, size: int) -> float:
        """A batch of so many bytes is in the outboxes. The time now, when all that is flushed at once has left."""

    def flush(self) -> None:
        """What is ready now, and was filled by no batch."""

    def must_wait(self) -> bool:
        """Should the connection of this batch bring nothing more before `when_flushed`?"""

    def when_flushed(self, go_on: Callable[[], None]) -> None:
        """The loop calls this when all that waits now was flushed."""


class LastBatch:
    """When the last batch of a client was done. The doors of a process share it, as they share the loop."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = 0.0


LAST_BATCH = LastBatch()


class InSlices:
    """Very many outboxes are flushed in slices. The policies for batches add when that begins.

    `late` are the owners of filled outboxes that wait for their slice, and connections that wait for these. All of
    a node share it.
    """

    def __init__(self, ready: list[Any], late: deque[Any], most: int = MOST_AT_ALL) -> None:
        self._ready = ready
        self._late = late
        self._most = most
        self._brought = 0
        """Bytes of input of this kind of connections."""
        self._flushed = 0
        """As many of them as fill no outbox that still waits."""
        self._goes_on = False

    def must_wait(self) -> bool:
        return self._brought - self._flushed > MOST_MEANWHILE and bool(self._late)

    def when_flushed(self, go_on: Callable[[], None]) -> None:
        self._late.append(InLine(self, self._brought, go_on))
        self._go_on()

    def flushed_up_to(self, brought: int) -> None:
        """What the first so many bytes of input have filled was flushed."""
        self._flushed = max(self._flushed, brought)

    def _count(self, size: int) -> bool:
        """So many more bytes have come. False: too many, and everything was flushed."""
        if not self._late:
            self._flushed = self._brought
        self._brought += size
        if self._late and self._brought - self._flushed > self._most:
            flush_all(self._ready, self._late)
            self._flushed = self._brought
            return False
        return True

    def flush(self) -> None:
        """What is ready now, at once where it is little."""
        if not self._flush_few():
            self._go_on()

    def _flush_batch(self, size: int) -> None:
        """What a batch of so many bytes has filled."""
        if not self._flush_few(FEW_OF_MUCH if size >= LARGE_BATCH else FEW):
            self._go_on()

    def _flush_few(self, few: int = FEW) -> bool:
        """False: there are many, and they wait behind those that wait already."""
        if len(self._ready) <= few:
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
        if not self._flush_few() or self._late:  # a flush may close a connection, and that may fill other outboxes
            self._go_on()


class InLine:
    """A connection that waits behind outboxes, and is treated like them."""

    __slots__ = ("_brought", "_call", "_flushing")

    def __init__(self, flushing: InSlices, brought: int, call: Callable[[], None]) -> None:
        self._flushing = flushing
        self._brought = brought
        self._call = call

    def flush(self) -> None:
        """Its turn has come. It may bring much, so that is done in a turn of its own."""
        self._flushing.flushed_up_to(self._brought)
        asyncio.get_running_loop().call_soon(self._call)


class FlushTogether(InSlices):
    """The policy for clients: small batches of one turn leave together, and what many get leaves in slices."""

    def __init__(self, ready: list[Any], late: deque[Any], most: int = MOST_AT_ALL) -> None:
        super().__init__(ready, late, most)
        self._is_due = False

    def batch_done(self, began: float, size: int) -> float:
        if self._count(size):
            if size >= LARGE_BATCH or began - LAST_BATCH.at > SAME_TURN:
                self._flush_batch(size)
            elif not self._is_due:
                self._is_due = True
                asyncio.get_running_loop().call_soon(self._end_of_turn)
        now = LAST_BATCH.at = monotonic()
        return now

    def _end_of_turn(self) -> None:
        self._is_due = False
        if not self._flush_few() and not self._goes_on:
            self._flush_some()


class FlushAtOnce(InSlices):
    """The policy for node links: few sockets, each with the messages of many clients."""

    def batch_done(self, began: float, size: int) -> float:  # noqa: ARG002 - when it began is the other policy's matter
        if self._count(size):
            self._flush_batch(size)
        return monotonic()


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
