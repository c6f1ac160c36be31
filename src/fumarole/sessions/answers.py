"""Answers to one client, in the order in which it asked.

Most can be given at once. The one that confirms a subscribe may have to wait until every node of the cluster knows of
it (C2), and then what is answered meanwhile waits behind it: a client that counts its answers must not be led astray.

    SUB a 1     PING            PUB b 0       PING
    +OK         (not yet …)     (+OK)         (PONG)        all nodes know      PONG +OK PONG

Messages are no answers, and do not wait.
"""

from __future__ import annotations

from fumarole.exchange.node import Node
from fumarole.exchange.outbox import Outbox

MOST_HELD = 1024 * 1024
"""Bytes. A client that asks for more while it waits is cut off."""
ENTRY = 256
"""Bytes that a ticket takes besides."""


class Answers:
    """`say` what is true already, `confirm` what has a ticket."""

    __slots__ = ("_held", "_node", "_outbox", "_size")

    def __init__(self, node: Node, outbox: Outbox) -> None:
        self._node = node
        self._outbox = outbox
        self._held: list[tuple[int, bytearray]] | None = None
        """Tickets, and what may be said when each is reached: its answer and all those that follow it. None: nothing
        waits. An empty list would take 56 bytes of every connection."""
        self._size = 0
        """Bytes in all of them."""

    def say(self, answer: bytes) -> bool:
        """False: too much waits already."""
        if not self._held:
            self._outbox.push(answer)
            return True
        self._held[-1][1].extend(answer)
        self._size += len(answer)
        return self._size <= MOST_HELD

    def confirm(self, answer: bytes, ticket: int) -> bool:
        """The change of this ticket, and all before it, are known everywhere. False: too much waits already."""
        if self._node.confirmations.is_reached(ticket) or (self._held and self._held[-1][0] == ticket):
            return self.say(answer)
        if self._held is None:
            self._held = []
        self._held.append((ticket, bytearray(answer)))
        self._size += len(answer) + ENTRY
        self._node.confirmations.after(ticket, self._release)
        return self._size <= MOST_HELD

    def _release(self) -> None:
        released, held = 0, self._held or []
        for ticket, answers in held:
            if not self._node.confirmations.is_reached(ticket):
                break
            released += 1
            self._size -= len(answers) + ENTRY
            self._outbox.push(bytes(answers))
        del held[:released]
        self._held = held or None

    def close(self) -> None:
        """The last consumer has left."""
        self._held = None
        self._size = 0
