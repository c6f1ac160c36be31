"""What every session on a byte stream has: an outbox, a namespace it joins, consumers, and an orderly end.

A session is START until it is known who speaks, then OPEN, at last CLOSED. In between it may be waiting for somebody
to look at what the client claims: then nothing more is heard until `admit`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any, NamedTuple

from fumarole.core.errors import NamespaceError
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.node import Node
from fumarole.exchange.outbox import Overflow
from fumarole.exchange.permissions import User
from fumarole.exchange.plans import Plans

BEFORE_JOINING = 16 * 1024
"""Outbox of a connection that has not said who it is."""
CONSUMERS_AT_ONCE = 1000
"""Of those that end with their connection; a hundred thousand in one go would hold everybody up."""
LONG_PATTERN = 16
"""Bytes of a pattern; one of so many takes twice the time of a short one, and so on."""
SHOWN_NAME = 64
UNANSWERED_PINGS = 2
"""After so many the peer is taken for gone."""


class State(Enum):
    START = "start"
    OPEN = "open"
    CLOSED = "closed"


class Claim(NamedTuple):
    """What a client gave to prove who it is."""

    user: str | None
    password: str | None
    token: str | None


class Peer(NamedTuple):
    """The two ends of a connection."""

    host: str
    port: int
    address: str
    secure: bool = False


class StreamSession(ABC):
    """One client. The pump feeds it bytes and time; everything it has to say goes into its outbox."""

    def __init__(self, node: Node, peer: Peer, now: float, owner: Any) -> None:
        self.node = node
        self.state = State.START
        self.echo = True
        self.plans: Plans | None = None
        self.exchange: Exchange | None = None
        self.claim: Claim | None = None
        """Set while somebody has to look at it; then `admit` goes on."""
        self.heard = False
        self.now = now
        """As of the last tick."""
        self.client_id = node.client_id()
        self.label = str(self.client_id)
        self._user: User | None = None
        self._ticket = 0
        """Of the latest change that this client has made."""
        self._consumers: dict[bytes, Consumer] = {}
        self._deadline = now + (node.limits.tls_handshake if peer.secure else node.limits.handshake)
        self.outbox = node.parts.outbox(BEFORE_JOINING, Overflow.DISCONNECT, node.parts.counters(), node.ready, owner)

    @abstractmethod
    def receive_data(self, data: bytes) -> None:
        """Bytes from the client."""

    unfinished = False
    """Was something put off? One operation can mean a message to each of very many; others want their turn."""

    def go_on(self) -> None:  # noqa: B027 - most never put anything off
        """With what was put off."""

    @abstractmethod
    def receive_eof(self) -> None:
        """The client has closed its side."""

    @abstractmethod
    def tick(self, now: float) -> None:
        """Time passes."""

    @abstractmethod
    def admit(self, user: User | None) -> None:
        """The claim was looked at: it belongs to this user, or to nobody."""

    @abstractmethod
    def _error(self, text: str) -> bytes:
        """An error in the words of the protocol."""

    def close_expected(self) -> bool:
        """Once the outbox is empty, the connection is over."""
        return self.state is State.CLOSED

    def fail(self, text: str) -> None:
        """Tells the client why, and ends the session."""
        if self.state is not State.CLOSED:
            self.outbox.push(self._error(text))
            self.close()

    def close(self) -> None:
        """Leaves the exchange: nothing more comes in. What is in the outbox may still go out."""
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        self.plans = None
        self.claim = None
        if self.exchange is not None:
            self.outbox.govern(0, Overflow.DROP_NEWEST, self.exchange.counters)
        self.forget()
        self.node.ready.append(self.outbox.owner)

    def forget(self, most: int = CONSUMERS_AT_ONCE) -> bool:
        """Takes the consumers of a closed session out of the exchange, so many at a time. True: none is left.

        Until then they are still found, but have no room: groups pass them over, and what they miss is counted.
        """
        if self.exchange is None:
            return True
        while self._consumers and most > 0:
            _, consumer = self._consumers.popitem()
            self.exchange.unsubscribe(consumer)
            most -= 1 + len(consumer.pattern) // LONG_PATTERN
        if self._consumers:
            return False
        self.node.namespaces.leave(self.exchange)
        self.exchange = None
        return True

    def is_confirmed(self) -> bool:
        """Is all that the client has asked for in force (C2)?"""
        return self.node.confirmations.is_reached(self._ticket)

    def has_room(self, weight: int) -> bool:
        return self.outbox.has_room(weight)

    def _join(self, namespace: str) -> bool:
        """Becomes part of the namespace. False: it may not, and the session has ended."""
        try:
            exchange = self.node.namespaces.join(namespace)
        except NamespaceError as error:
            self.fail(f"Authorization Violation: {error}")
            return False
        self.exchange = exchange
        self.plans = exchange.plans(self._user.publish if self._user else None)
        self.outbox.govern(exchange.outbox_limit, exchange.overflow, exchange.counters)
        self.state = State.OPEN
        return True
