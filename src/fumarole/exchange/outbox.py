"""What waits to leave on one connection: whole frames, in order, bounded in bytes (D6)."""

from collections import deque
from enum import Enum
from typing import Any

from fumarole.exchange.consumer import Consumer
from fumarole.exchange.counters import Counters


class Overflow(Enum):
    """What a namespace does when an outbox is full."""

    DROP_OLDEST = "drop-oldest"
    DROP_NEWEST = "drop-newest"
    DISCONNECT = "disconnect"


WALK = 256
"""Control frames that one push gets past to find a message to drop; behind more of them, the new one goes."""


class Outbox:
    """Frames of consumers, which may be dropped, and control frames (no consumer), which may not.

    When the first frame enters an empty outbox, its `owner` is added to the `ready` list. The compiled form is
    fastpath/outbox.pyx.
    """

    __slots__ = (
        "_counters",
        "_frames",
        "_held",
        "_limit",
        "_of",
        "_overflow",
        "doubted",
        "late",
        "overflowed",
        "owner",
        "ready",
        "size",
        "takes_headers",
    )

    def __init__(self, limit: int, overflow: Overflow, counters: Counters, ready: list[Any], owner: Any) -> None:
        self._held: deque[bytes] = deque()
        """Control frames that dropping has met. They leave before all others, and are not met again."""
        self._frames: deque[bytes] = deque()
        self._of: deque[Consumer | None] = deque()
        """Whose each frame is. Beside the frames: a pair for each would take more memory than most frames do."""
        self.ready = ready
        self.owner = owner
        self.size = 0
        self.takes_headers = False
        """Does the peer understand headers? Otherwise it gets messages without."""
        self.doubted = False
        """Is the node at the other end suspected to be gone? Then groups choose others (G3)."""
        self.late = False
        """Something that may not be lost waits for room here: no message may overtake it. Its session knows what."""
        self.overflowed = False
        """The connection has to be cut off: its policy says so, or it does not even take control frames."""
        self.govern(limit, overflow, counters)

    def govern(self, limit: int, overflow: Overflow, counters: Counters) -> None:
        """The rules of the namespace that the connection has joined."""
        self._limit = limit
        self._overflow = overflow
        self._counters = counters

    def has_room(self, weight: int) -> bool:
        return self.size + weight <= self._limit and not self.overflowed and not self.doubted

    def push(self, frame: bytes, consumer: Consumer | None = None) -> None:
        """Takes a frame, or drops it or older ones by the policy."""
        length = len(frame)
        if self.size + length > self._limit and not self._make_room(length, consumer):
            return
        if not self.size:
            self.ready.append(self.owner)
        self.size += length
        self._frames.append(frame)
        self._of.append(consumer)

    def take(self, most: int = 1 << 62) -> bytes:
        """The oldest frames, whole, up to so many bytes (but at least one frame)."""
        if self.size <= most:
            everything = b"".join([*self._held, *self._frames] if self._held else self._frames)
            self.clear()
            return everything
        taken: list[bytes] = []
        length = 0
        while self.size > length:
            following = self._held[0] if self._held else self._frames[0]
            if taken and length + len(following) > most:
                break
            if self._held:
                self._held.popleft()
            else:
                self._frames.popleft()
                self._of.popleft()
            taken.append(following)
            length += len(following)
        self.size -= length
        return b"".join(taken)

    def clear(self) -> None:
        """Forgets everything. (Frames hold on to consumers, and those to their session, when a connection is gone.)"""
        self._held.clear()
        self._frames.clear()
        self._of.clear()
        self.size = 0

    def messages(self) -> int:
        """How many frames of consumers wait here."""
        return sum(consumer is not None for consumer in self._of)

    def _make_room(self, length: int, consumer: Consumer | None) -> bool:
        if consumer is None:
            # Control frames are small answers to what the peer sends; one that reads none of them is cut off.
            if self.size + length > 2 * self._limit:
                self._give_up()
                return False
            return True
        if self._overflow is Overflow.DISCONNECT:
            self._give_up()
        elif self._overflow is Overflow.DROP_OLDEST and length <= self._limit:
            self._drop_oldest(length)
        if self.overflowed or self.size + length > self._limit:
            self._count_drop(consumer)
            return False
        return True

    def _give_up(self) -> None:
        if not self.overflowed:
            self.overflowed = True
            self.ready.append(self.owner)

    def _drop_oldest(self, length: int) -> None:
        steps = WALK
        while self._frames and self.size + length > self._limit and steps:
            frame, consumer = self._frames.popleft(), self._of.popleft()
            if consumer is None:
                self._held.append(frame)
                steps -= 1
            else:
                self.size -= len(frame)
                self._count_drop(consumer)

    def _count_drop(self, consumer: Consumer) -> None:
        consumer.dropped += 1
        self._counters.overflowed += 1
