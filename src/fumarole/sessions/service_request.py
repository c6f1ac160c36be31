"""A request to one of the node's own services (`sessions/services.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from fumarole.core.errors import FumaroleError
from fumarole.core.publication import Publication
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.node import Node
from fumarole.exchange.permissions import User
from fumarole.exchange.presence import Speaking
from fumarole.exchange.quotas import Account


class Asker(Protocol):
    """Takes messages that are an answer besides JSON."""

    def has_room(self, weight: int) -> bool: ...

    def hear(self, publication: Publication) -> bool:
        """Takes one, on the reply topic. False: it does not listen there."""


class Request(NamedTuple):
    """A request to the node, and what the client that sent it may do."""

    node: Node
    exchange: Exchange
    user: User | None
    payload: str
    now: float
    client: int
    """The id of the client that asks."""
    account: Account | None = None
    """The quotas of that client (A5)."""
    is_admin: bool = False
    """May that client see what others do (A4)?"""
    asker: Asker | None = None
    """Where messages go that are an answer besides JSON; None: nowhere."""
    speaking: Speaking | None = None
    """The producers of that client's connection, if it puts producers online (F5)."""


Say = Callable[[dict[str, Any]], None]
"""Takes the answer."""


class RequestError(FumaroleError):
    """A request that cannot be answered as asked."""
