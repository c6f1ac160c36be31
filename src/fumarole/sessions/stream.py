"""What every session on a byte stream has: an outbox, a namespace it joins, consumers, and an orderly end.

A session is START until its user is known, then OPEN, at last CLOSED. In between it may wait until the client's
credentials are checked. Until `admit` nothing more of it is processed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple

from fumarole.core.errors import NamespaceError
from fumarole.core.query.evaluation import Unprepared
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.journal import Kind
from fumarole.exchange.node import Node
from fumarole.exchange.outbox import Overflow
from fumarole.exchange.permissions import User
from fumarole.exchange.plans import Plans
from fumarole.exchange.presence import Speaking
from fumarole.exchange.quotas import Account, QuotaError
from fumarole.protocols.stream import Data, StreamProtocol

BEFORE_JOINING = 16 * 1024
"""Outbox of a connection before its login."""
CONSUMERS_AT_ONCE = 1000
"""Consumers that end with their connection in one slice. A hundred thousand at once would block the loop."""
LONG_PATTERN = 16
"""Bytes of a pattern; one of so many takes twice the time of a short one, and so on."""
WORK_AT_ONCE = 20_000
"""Twenty milliseconds or so, in messages put into outboxes."""
WITHOUT_END = 1 << 62
WORK_OF_A_REGEX = 10
"""What an automaton takes to end, in consumers: it may have 256 KiB."""
SHOWN_NAME = 64
UNANSWERED_PINGS = 2
"""After so many the peer is taken for gone."""


class State(Enum):
    START = "start"
    OPEN = "open"
    CLOSED = "closed"


class KeyProof(NamedTuple):
    """A signature that only the owner of a key can make."""

    nkey: str
    """The public key, as NATS writes it: `U…`."""
    signature: str
    nonce: str
    """What was signed."""


class Claim(NamedTuple):
    """The credentials that a client gave."""

    user: str | None
    password: str | None
    token: str | None
    key: KeyProof | None = None


PREPARING: Final = Claim(None, None, None)
"""In the place of a claim: a change of metadata is being prepared."""


class RemoteAddress(NamedTuple):
    """The two ends of a connection."""

    host: str
    port: int
    address: str
    secure: bool = False
    over_web: bool = False
    """It speaks over WebSocket, and so would its next one."""
    asks: bool = False
    """Must clients show a certificate?"""


CAPTURE_OUTBOX: Final = 8
"""Times the outbox of other connections. A million small messages a second fill 4 MiB in 80 ms, and the system may not
run the process of a recorder for longer than that."""


class StreamSession(ABC):
    """One client. The pump feeds it bytes and time; everything it has to say goes into its outbox.

    It is a `Reader`, and the `Fallback` of a compiled one (sessions/reader.py).
    """

    __slots__ = (
        "_address",
        "_consumers",
        "_deadline",
        "_protocol",
        "_ticket",
        "_user",
        "account",
        "captures",
        "claim",
        "client_id",
        "echo",
        "exchange",
        "heard",
        "is_admin",
        "label",
        "node",
        "now",
        "outbox",
        "plans",
        "speaking",
        "spent",
        "state",
        "unfinished",
        "waits_for_nodes",
        "waits_for_room",
    )

    NOT_ADMITTED: ClassVar[str]
    """What a client is told whose claim is wrong."""
    IN_JOURNAL: ClassVar[bool] = True
    """Are its coming and going events? They are not where a connection is a single call."""

    def __init__(
        self, node: Node, remote: RemoteAddress, now: float, owner: Any, protocol: StreamProtocol[Any]
    ) -> None:
        self.node = node
        self._protocol = protocol
        self.state = State.START
        self.echo = True
        self.plans: Plans | None = None
        self.exchange: Exchange | None = None
        self.claim: Claim | None = None
        """Set while the door has it checked. `admit` follows."""
        self.waits_for_nodes = False
        """Is it waited for something else than a login? Then the session goes on by itself, and its owner is told."""
        self.heard = False
        self.waits_for_room = False
        self.unfinished = False
        self.spent = 0
        self.now = now
        """As of the last tick."""
        self.client_id = node.client_id()
        self.label = str(self.client_id)
        self._user: User | None = None
        self.account = Account()
        """What the client holds counts here (A5)."""
        self.is_admin = False
        """May it see what others do (A4)?"""
        self.captures = False
        """Does the client capture: does it take everything that it can get, at any rate?"""
        self._address = remote.address
        self._ticket = 0
        """Of the latest change that this client has made."""
        self._consumers: dict[bytes, Consumer] = {}
        self.speaking: Speaking | None = Speaking()
        """The producers that it puts online (F5); None: none."""
        self._deadline = now + (node.limits.tls_handshake if remote.secure else node.limits.handshake)
        self.outbox = node.parts.outbox(BEFORE_JOINING, Overflow.DISCONNECT, node.parts.counters(), node.ready, owner)

    def receive_data(self, data: Data) -> None:
        """Bytes from the client."""
        self.heard = True
        if self.state is not State.CLOSED:
            self._protocol.receive_data(data)
        self._advance(WORK_AT_ONCE)

    def go_on(self) -> None:
        """With what was put off."""
        self._advance(WORK_AT_ONCE)

    def receive_eof(self) -> None:
        """The client has closed its side."""
        self._protocol.receive_eof()
        self._advance(WITHOUT_END)

    @property
    def pending(self) -> int:
        """Bytes that were received and not yet acted upon."""
        return self._protocol.pending

    def wanted(self) -> int:
        return self._protocol.wanted() if self.claim is None else 0

    def reclaim(self) -> bytes:
        return self._protocol.reclaim()

    def _advance(self, most: int) -> None:
        """Goes through what has come. Where that is more work than this, the rest is put off."""
        self.unfinished = False
        self.spent = 0
        while self.state is not State.CLOSED and self.claim is None:
            events = self._protocol.events_received()
            for following, event in enumerate(events, 1):
                try:
                    self.spent += self._take(event)
                except Unprepared as change:
                    self._protocol.put_back(events[following - 1 :])
                    self._wait(change)
                    return
                if self.close_expected():
                    return
                self.unfinished = self.spent >= most and (following < len(events) or self._protocol.pending > 0)
                if self.unfinished or self.claim is not None:
                    self._protocol.put_back(events[following:])
                    return
            if self._protocol.close_expected():
                self.outbox.push(self._protocol.data_to_send())
                self.close()
            if not events:
                return

    def _wait(self, change: Unprepared) -> None:
        """What the client wants to say is prepared first (A6). Until then nothing more is heard from it."""
        self.claim, self.waits_for_nodes = PREPARING, True
        change.evaluation.when_done(self._prepared)

    def _prepared(self) -> None:
        """The client is heard again."""
        if self.claim is PREPARING:
            self.claim, self.waits_for_nodes = None, False
            self._advance(WORK_AT_ONCE)
            self.outbox.owner.admitted()

    @abstractmethod
    def _take(self, event: Any) -> int:
        """Does what the event means. How much work it was."""

    @abstractmethod
    def tick(self, now: float) -> None:
        """Time passes."""

    def admit(self, user: User | None) -> None:
        """The claim was checked. None: its credentials are wrong."""
        self.claim = None
        if self.state is not State.START:
            return
        if user is None:
            self.fail(self.NOT_ADMITTED)
            return
        self._user = user
        self._begin(user.namespace)
        self._advance(WORK_AT_ONCE)

    @abstractmethod
    def _begin(self, namespace: str) -> None:
        """Joins the namespace; the client is known, or need not be."""

    @abstractmethod
    def _error(self, text: str) -> bytes:
        """An error in the words of the protocol."""

    def refill(self) -> None:
        """The outbox is empty, and this session was waiting for that."""
        raise NotImplementedError

    def close_expected(self) -> bool:
        """Once the outbox is empty, the connection is over."""
        return self.state is State.CLOSED

    def fail(self, text: str) -> None:
        """Tells the client why, and ends the session."""
        if self.state is not State.CLOSED:
            self._note("refusal", text)
            self.outbox.push(self._error(text))
            self.close()

    def close(self) -> None:
        """Leaves the exchange: nothing more comes in. What is in the outbox may still go out."""
        if self.state is State.CLOSED:
            return
        if self.state is State.OPEN:
            self._note("leave")
        self.state = State.CLOSED
        self.plans = None
        self.claim = None
        if self.exchange is not None:
            if self.speaking is not None:
                self.exchange.producers.presence.leave(self.speaking)
            self.outbox.govern(0, Overflow.DROP_NEWEST, self.exchange.counters)
        self.remove_consumers()
        self.node.ready.append(self.outbox.owner)

    @property
    def user(self) -> User | None:
        """The user of the connection; None before the login, or without authentication."""
        return self._user

    def renew(self, user: User) -> None:
        """The user's rules have changed (A7). Where a session cannot go on under new ones, its client comes again."""
        if user != self._user:
            self.fail("Authorization Violation: the rules of this user have changed, connect again")
        self._user = user

    def regulate(self) -> None:
        """The namespace's rules may have changed."""
        self.account.renew_rates()
        if self.state is State.OPEN:
            self.govern_outbox()

    def govern_outbox(self) -> None:
        """The outbox has the namespace's rules, and of a capture a higher limit."""
        if (exchange := self.exchange) is not None:
            limit = exchange.outbox_limit * (CAPTURE_OUTBOX if self.captures else 1)
            self.outbox.govern(limit, exchange.overflow, exchange.counters)

    @property
    def consumer_count(self) -> int:
        """How many it has."""
        return len(self._consumers)

    def remove_consumers(self, most: int = CONSUMERS_AT_ONCE) -> bool:
        """Takes the consumers of a closed session out of the exchange, so many at a time. True: none is left.

        Until then they are still found, but have no room: groups pass them over, and what they miss is counted.
        """
        if self.exchange is None:
            return True
        while self._consumers and most > 0:
            _, consumer = self._consumers.popitem()
            most -= 1 + len(consumer.pattern) // LONG_PATTERN + work_of_ending(consumer)
            self.exchange.unsubscribe(consumer)
        if self._consumers:
            return False
        self.account.give_back("connections")
        self.node.namespaces.leave(self.exchange)
        self.exchange = None
        return True

    def is_confirmed(self) -> bool:
        """Is all that the client has asked for in force (C2)?"""
        return self.node.confirmations.is_reached(self._ticket)

    def has_room(self, weight: int) -> bool:
        return self.outbox.has_room(weight)

    def _note(self, kind: Kind, text: str = "") -> None:
        if self.IN_JOURNAL:
            namespace = "" if self.exchange is None else self.exchange.name
            self.node.journal.note(self.now, kind, namespace, f"{self.label} {self._address}", text)

    def note_refused(self, text: str) -> None:
        """An operation is refused, and the connection goes on (O2)."""
        namespace = "" if self.exchange is None else self.exchange.name
        self.node.journal.refuse(namespace, f"{self.label} {self._address}", text)

    def _join(self, namespace: str) -> bool:
        """Becomes part of the namespace. False: it may not, and the session has ended."""
        try:
            exchange = self.node.namespaces.join(namespace)
        except (NamespaceError, QuotaError) as error:
            self.fail(f"Authorization Violation: {error}")
            return False
        account = self.node.account(exchange, self._user)
        try:
            account.take("connections")
        except QuotaError as error:
            self.node.namespaces.leave(exchange)
            self.fail(f"maximum connections exceeded: {error}")
            return False
        account.waits = True
        self.exchange, self.account = exchange, account
        self.is_admin = self.node.is_admin(self._user, self._address)
        self.plans = exchange.plans(self._user.publish if self._user else None)
        self.govern_outbox()
        self.state = State.OPEN
        self._note("join")
        return True


def work_of_ending(consumer: Consumer) -> int:
    """What the query of a consumer takes to end, in consumers without one."""
    standing = consumer.standing
    return 0 if standing is None else standing.price.fixed // 4 + WORK_OF_A_REGEX * len(standing.price.rates)
