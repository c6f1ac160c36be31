"""Slices on a real loop."""

import asyncio
from collections.abc import Iterator
from time import monotonic

from fumarole.doors.slices import MOMENT, SliceRunner
from fumarole.exchange.node import Node


class Owner:
    """Of an outbox: flushed when something is in it."""

    def __init__(self) -> None:
        self.flushed = 0

    def flush(self) -> None:
        self.flushed += 1


async def test_everybody_else_has_a_turn_in_between() -> None:
    node, owner, ended = Node("a", "0"), Owner(), asyncio.Event()
    SliceRunner(node)
    turns = 0

    def busy() -> Iterator[None]:
        for _ in range(20):
            until = monotonic() + MOMENT / 2
            while monotonic() < until:
                pass
            yield
        node.ready.append(owner)
        ended.set()

    for _ in range(2):
        node.namespaces.slices.begin(busy())
        while not ended.is_set():
            await asyncio.sleep(0)
            turns += 1
        ended.clear()
        await asyncio.sleep(0)
    assert turns >= 2 * 10
    assert owner.flushed == 2
    assert not node.namespaces.slices.step()


async def test_a_job_that_begins_while_outboxes_are_flushed_is_done() -> None:
    """An outbox that is empty again is refilled at once, in slices: a long answer over HTTP."""
    node, ended = Node("a", "0"), asyncio.Event()
    SliceRunner(node)

    def job(then: asyncio.Event) -> Iterator[None]:
        yield
        yield
        then.set()

    class Refilled(Owner):
        def flush(self) -> None:
            if not self.flushed:
                node.namespaces.slices.begin(job(ended))
            super().flush()

    def first() -> Iterator[None]:
        yield
        node.ready.append(Refilled())

    node.namespaces.slices.begin(first())
    await asyncio.wait_for(ended.wait(), 10)
