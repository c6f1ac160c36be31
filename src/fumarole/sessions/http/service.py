"""What all connections of a web door share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fumarole.core.limits import Limits
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.node import Node
from fumarole.exchange.permissions import User
from fumarole.exchange.plans import Plans
from fumarole.exchange.slices import Slices
from fumarole.sessions.http.routes import Router
from fumarole.sessions.stream import Claim

if TYPE_CHECKING:
    from fumarole.sessions.http.topics import LineReader


class Page(NamedTuple):
    """A file of the console, as it is served."""

    kind: str
    body: bytes
    tag: str
    """Its ETag."""


class Cookies(Protocol):
    """Makes the cookies of users, and knows them again (H5)."""

    def give(self, user: User, life: float) -> str:
        """A cookie for this user, good for so many seconds."""

    def user_of(self, cookie: str) -> User | None:
        """The user of this cookie. None: it is unknown or has expired."""


class Settings(Protocol):
    """What the configuration may say of the door."""

    @property
    def origins(self) -> tuple[str, ...]: ...
    @property
    def hosts(self) -> tuple[str, ...]: ...
    @property
    def off(self) -> tuple[str, ...]: ...
    @property
    def metrics_open(self) -> bool: ...
    @property
    def cookie_life(self) -> float: ...
    @property
    def streams_per_user(self) -> int: ...


@dataclass(slots=True)
class HttpService:
    """Shared by every session of the door. Time and chance come in as functions."""

    node: Node
    settings: Settings
    router: Router
    slices: Slices
    wall: Callable[[], float]
    """Seconds since 1970."""
    date: Callable[[], str]
    """The same as HTTP writes it."""
    new_id: Callable[[], str]
    """A secret name."""
    later: Callable[[float, Callable[[], None]], Callable[[], None]]
    """Calls back after so many seconds; what is given back takes that back."""
    flush: Callable[[], None]
    """Sends what outboxes have."""
    known: Callable[[Claim], User | None] = lambda _: None
    """The user of credentials that were verified before; None: they have to be."""
    cookies: Cookies | None = None
    pages: Mapping[str, Page] = field(default_factory=dict)
    """The console's files by path."""
    boot: str = ""
    """Of this process: another one has counted other messages."""
    streams: Counter[str] = field(default_factory=Counter)
    """Open streams by user, or by address where there are no users."""
    upgrades: Mapping[str, Callable[[Any, User | None], None]] = field(default_factory=dict)
    """Makes a session of the connection of this one, whose request was from this user: by protocol."""
    connections: Callable[[], Iterable[dict[str, Any]]] = tuple
    """The open connections of the node."""
    process: Callable[[], dict[str, float]] = dict
    """What the system says of the process."""
    answered: Counter[int] = field(default_factory=Counter)
    """Answers by status."""
    cut_off: Callable[[int], bool] = lambda _: False
    """Closes the connection of this id. False: there is none such."""
    doors: Callable[[], Mapping[str, int]] = dict
    """The ports of the open doors of the node, by name."""
    line_reader: Callable[[Exchange, Plans, Limits], LineReader] | None = None
    """Makes what publishes the usual lines of a batch; None: nothing is compiled."""
    unready: Callable[[], Iterable[str]] = tuple
    """Why the node is not ready."""
