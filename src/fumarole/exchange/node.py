"""One running broker, as its sessions see it: its limits, its namespaces, and what it says of itself."""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from fumarole.core.limits import Limits
from fumarole.exchange.client_ids import ClientIds
from fumarole.exchange.confirmations import AtOnce, Confirmations
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.journal import Journal
from fumarole.exchange.namespaces import Namespaces
from fumarole.exchange.parts import PURE, Parts
from fumarole.exchange.permissions import User, is_loopback
from fumarole.exchange.quotas import Account, ConnectionUsage, Usage

RELAYS_AT_ONCE: Final = 25
"""Ten milliseconds, where all of them end and each had eight regular expressions."""


class Reporter(Protocol):
    """Reports the state of a part of the node."""

    def report(self) -> dict[str, Any]:
        """For people and scripts."""

    def sum_up(self, namespace: str, numbers: dict[str, Any]) -> None:
        """Adds what other processes of this node have counted."""

    def counted_elsewhere(self, namespace: str) -> dict[str, dict[str, Any]]:
        """What each other node has counted, by its name."""

    def web_address(self, node: str) -> str | None:
        """Where the web door of another node is; None: it has none, or there is no such node."""


@dataclass(slots=True)
class Node:
    """Shared by every session of every door."""

    name: str
    version: str
    limits: Limits = field(default_factory=Limits)
    namespaces: Namespaces = field(default_factory=Namespaces)
    parts: Parts = PURE
    authentication: bool = False
    """Are credentials asked for? Otherwise a user name is just the name of a namespace (N3)."""
    nonce: Callable[[], str] | None = None
    """Makes what a client signs with its key; None: no user has one."""
    reload: Callable[[Callable[[dict[str, Any]], None]], None] | None = None
    """Loads the configuration again, and says what came of it (A7); None: it cannot."""
    confirmations: Confirmations = field(default_factory=AtOnce)
    """When what a client has asked for is in force."""
    client_ids: ClientIds = field(default_factory=ClientIds)
    """Which MQTT client ids are in use in the cluster."""
    cluster: Reporter | None = None
    """What `cluster status` is asked of; None: there is no cluster."""
    cluster_name: str = ""
    """As clients are told; empty: there is no cluster, or only of the workers of this node."""
    reachable: list[str] = field(default_factory=list)
    """Where NATS clients find the other nodes, HOST:PORT, should this one go away."""
    reachable_web: list[str] = field(default_factory=list)
    """Where their web doors are: http://HOST:PORT."""
    ready: list[Any] = field(default_factory=list)
    """Owners of outboxes that something has entered since the last flush."""
    late: deque[Any] = field(default_factory=deque)
    """Those that are flushed in slices, because they are very many."""
    journal: Journal = field(default_factory=Journal)
    """Clients that came, went or were refused."""
    connections: int = 0
    connections_by_door: Counter[str] = field(default_factory=Counter)
    refused_connections: int = 0
    slow_consumers: int = 0
    """Connections cut off because they did not take what they had asked for."""
    relays: list[Any] = field(default_factory=list)
    """The relays of clients (`sessions/relays.py`). Each ends when its topic has no subscriber any more."""
    looks_at_relays: bool = False
    """Are they being asked?"""
    relays_of: Counter[int] = field(default_factory=Counter)
    """How many relays each client has, by its id."""
    timers: list[Callable[[float], None]] = field(default_factory=list)
    """Called with the time, twice a second."""
    shared: dict[str, Any] = field(default_factory=dict)
    """What all sessions of a protocol share, by the name of the protocol."""
    users: dict[str, Usage] = field(default_factory=dict)
    """What each user holds, by name, while the user is connected or holds anything."""
    next_client: int = 0
    late_after: float = float("inf")
    """By the monotonic clock: a read after this time shows that the loop stood still."""
    wake: Callable[[float], None] = field(default=lambda _: None)
    """Called then."""
    look: Callable[[], None] = field(default=lambda: None)
    """Called before input is processed that may have waited. It notices another node that has hung up."""
    unready: Callable[[], list[str]] = list
    """Why this node should get no clients. Empty: it is ready."""
    batch_done: Callable[[], None] = field(default=lambda: None)
    """Called when what was read, of a client or of another node, has been taken in and answered."""

    def tick(self, now: float) -> None:
        """Time passes. Relays without a subscriber end."""
        for timer in self.timers:
            timer(now)
        if self.relays and not self.looks_at_relays:
            self.looks_at_relays = True
            self.namespaces.slices.begin(self._tick_relays(now))

    def _tick_relays(self, now: float) -> Iterator[None]:
        """Looks whether relays have subscribers. Very many may end together, so that is done in slices."""
        rest = deque(self.relays)
        while rest:
            alive = set(map(id, self.relays))
            ended: set[int] = set()
            for relay in [rest.popleft() for _ in range(min(len(rest), RELAYS_AT_ONCE))]:
                if id(relay) in alive and not relay.tick(now):
                    ended.add(id(relay))
            if ended:
                self.relays[:] = [relay for relay in self.relays if id(relay) not in ended]
            if rest:
                yield
        self.looks_at_relays = False

    def end_relays(self, client: int) -> None:
        """What a client may receive has changed: its relays end, since they follow the old rules."""
        ended = [relay for relay in self.relays if relay.client == client]
        self.relays[:] = [relay for relay in self.relays if relay.client != client]
        for relay in ended:
            relay.finish()

    def expire(self, now: float) -> Iterator[None]:
        """Time passes: silent producers are forgotten, and retained messages expire, a part of them at each step."""
        for exchange in list(self.namespaces):
            while exchange.retained.expire():
                yield
            while exchange.producers.is_due(now):
                exchange.producers.expire(now)
                yield

    def is_admin(self, user: User | None, address: str) -> bool:
        """May this client, at this address, see what others do (A4)? Without users every client on loopback may."""
        return user.is_admin if user is not None else not self.authentication and is_loopback(address)

    def account(self, exchange: Exchange, user: User | None) -> Account:
        """What a connection of this user in this namespace counts against (A5): itself, its user, its namespace."""
        own = ConnectionUsage(self.limits.standing_cost)
        if user is None:
            return Account(own, exchange.usage)
        usage = self.users.get(user.name)
        if usage is None:
            self.users = {name: each for name, each in self.users.items() if each.used}
            usage = self.users[user.name] = Usage(f"user {user.name}", user.quota)
        usage.quotas = user.quota  # they may have been reloaded
        return Account(own, exchange.usage, user=usage)

    def client_id(self) -> int:
        self.next_client += 1
        return self.next_client
