"""Answers to one client, in the order in which it asked.

Most can be given at once. The one that confirms a subscribe may have to wait until every node of the cluster knows of
it (C2), and then what is answered meanwhile waits behind it: a client that counts its answers must not be led astray.

    SUB a 1     PING            PUB b 0       PING
    +OK         (not yet …)     (+OK)         (PONG)        all nodes know      PONG +OK PONG

Messages are no answers, and do not wait.
"""

from __future__ import annotations

from collections import deque

from fumarole.exchange.node import Node
from fumarole.exchange.outbox import Outbox

MOST_HELD = 1024 * 1024
"""Bytes. A client that asks for more while it waits is cut off."""


class Answers:
    """`say` what is true already, `confirm` what has a ticket."""

    def __init__(self, node: Node, outbox: Outbox) -> None:
        self._node = node
        self._outbox = outbox
        self._held: deque[tuple[int, bytearray]] = deque()
        """Tickets, and what may be said when each is reached: its answer and all those that follow it."""

    def say(self, answer: bytes) -> bool:
        """False: too much waits already."""
        if not self._held:
            self._outbox.push(answer)
            return True
        waiting = self._held[-1][1]
        waiting += answer
        return len(waiting) <= MOST_HELD

    def confirm(self, answer: bytes, ticket: int) -> None:
        """The change of this ticket, and all before it, are known everywhere."""
        confirmations = self._node.confirmations
        if not self._held and confirmations.is_reached(ticket):
            self._outbox.push(answer)
        elif self._held and self._held[-1][0] == ticket:
            self._held[-1][1].extend(answer)
        else:
            self._held.append((ticket, bytearray(answer)))
            confirmations.after(ticket, self._release)

    def _release(self) -> None:
        while self._held and self._node.confirmations.is_reached(self._held[0][0]):
            self._outbox.push(bytes(self._held.popleft()[1]))

    def close(self) -> None:
        """Nobody listens any more."""
        self._held.clear()
