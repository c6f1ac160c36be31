"""The size of one read.

The larger a read, the fewer system calls and turns of the loop for each message: with 128 KiB a message of 128 B to ten
consumers takes a tenth less processor time than with 64 KiB. With 256 KiB short messages gain more, but messages to a
hundred consumers lose it again, because what waits in their outboxes is in no cache.

Other connections wait while a batch is routed, and a message to very many consumers makes many deliveries of few
bytes. So the size follows the time that a batch took:

    128 KiB took 70 ms     the next read is 64 KiB
    64 KiB took 35 ms      then 32 KiB
    32 KiB took 17 ms      stays
    32 KiB took 4 ms       64 KiB again

A `ReadSize` never changes, so all connections of a kind share a few of them, and a pump only remembers its current
one. They also share the memory: the loop is one thread, and what was read is taken in before anything else is read.
"""

from __future__ import annotations

LONG_BATCH = 0.02
"""Seconds. After a longer batch the next one is smaller."""


class ReadSize:
    """One size, and its neighbours."""

    __slots__ = ("is_reduced", "larger", "smaller", "space")

    def __init__(self, space: memoryview) -> None:
        self.space = space
        """The buffer for reads."""
        self.smaller = self.larger = self
        self.is_reduced = False
        """True when there is a larger size."""

    def after(self, took: float) -> ReadSize:
        """The size of the next read, when a batch of this size took so many seconds."""
        if took > LONG_BATCH:
            return self.smaller
        return self.larger if took < LONG_BATCH / 4 else self


def adaptive(largest: int, smallest: int) -> ReadSize:
    """The largest of several sizes, each half of the one before."""
    buffer = memoryview(bytearray(largest))
    first = last = ReadSize(buffer)
    while len(last.space) > smallest:
        last.smaller = ReadSize(buffer[: len(last.space) // 2])
        last.smaller.larger, last.smaller.is_reduced = last, True
        last = last.smaller
    return first


def fixed(size: int) -> ReadSize:
    """One fixed size, for batches of any duration."""
    return adaptive(size, size)
