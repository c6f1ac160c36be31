"""Messages of QoS 1 and 2 on their way to one client: packet identifiers, and what waits behind the receive maximum.

A message is under way from its PUBLISH until its PUBACK or PUBCOMP. The client says how many may be under way. The
others wait here, and the namespace's policy decides what happens when there are too many bytes of them (D6). As long as
any message waits, later ones wait behind it, those of QoS 0 too, so a consumer gets them in order (D4).
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from fumarole.exchange.consumer import Consumer
from fumarole.sessions.mqtt_forms import Form

HIGHEST_ID = 0xFFFF
ENTRY = 200
"""Bytes that an entry takes besides its message, all in all."""
NONE_UNDER_WAY: Final[dict[int, bool]] = {}
"""Of every client with nothing under way, and never written to: most clients are idle."""


class Waiting(NamedTuple):
    """One message for one consumer."""

    consumer: Consumer
    form: Form
    qos: int
    retain: bool
    size: int
    since: float
    """When it came."""


class Window:
    """Which packet identifiers are in use, and what waits for one."""

    __slots__ = ("_is_received", "_next", "_waiting", "maximum", "size")

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        """Messages that may be under way."""
        self._is_received: dict[int, bool] = NONE_UNDER_WAY
        """Of those under way, by packet identifier: has the client said PUBREC?"""
        self._next = 0
        self._waiting: deque[Waiting] | None = None
        """None: nothing waits. An empty deque would take 760 bytes of every connection."""
        self.size = 0
        """Bytes of what waits."""

    def __bool__(self) -> bool:
        """Does anything wait?"""
        return self._waiting is not None

    def has_identifier(self) -> bool:
        """May another message get under way?"""
        return len(self._is_received) < self.maximum

    def begin(self) -> int:
        """The identifier of a message that gets under way."""
        if not self._is_received:
            self._is_received = {}
        while True:
            self._next = self._next % HIGHEST_ID + 1
            if self._next not in self._is_received:
                self._is_received[self._next] = False
                return self._next

    def is_under_way(self, packet_id: int) -> bool:
        return packet_id in self._is_received

    def receive(self, packet_id: int) -> bool:
        """The client has said PUBREC. False: nothing of this identifier is under way."""
        if packet_id not in self._is_received:
            return False
        self._is_received[packet_id] = True
        return True

    def end(self, packet_id: int) -> bool:
        """The client has it. False: nothing of this identifier is under way."""
        is_known = self._is_received.pop(packet_id, None) is not None
        if not self._is_received:
            self._is_received = NONE_UNDER_WAY  # an empty dict would keep the room it once needed
        return is_known

    def put(self, consumer: Consumer, form: Form, qos: int, retain: bool, size: int, now: float) -> None:
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(Waiting(consumer, form, qos, retain, size + ENTRY, now))
        self.size += size + ENTRY

    def first(self) -> Waiting:
        assert self._waiting is not None
        return self._waiting[0]

    def take(self) -> Waiting:
        """The one that has waited longest."""
        assert self._waiting is not None
        first = self._waiting.popleft()
        if not self._waiting:
            self._waiting = None
        self.size -= first.size
        return first

    def clear(self) -> list[Consumer]:
        """Forgets all. Whose messages waited."""
        consumers = [each.consumer for each in self._waiting or ()]
        self._waiting = None
        self._is_received = NONE_UNDER_WAY
        self.size = 0
        return consumers
