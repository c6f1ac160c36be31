"""Addresses where other nodes are, or may be, and the dialing of them.

Some are configured, the rest others told of. Each is dialed for both lanes, and again whenever one of them ends. One
node may be known by several addresses, which shows only when it has said hello; then the first is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from fumarole.cluster.identity import LANES

RETRY = 0.3
"""Seconds between two attempts to reach a node."""
SURE = 20
"""Attempts after which a node that was there is taken to be gone."""
FORGET_AFTER = 3600.0
"""Seconds after which an address that was only heard of, and cannot be reached, is tried no more."""
EVERYWHERE = ("0.0.0.0", "[::]", "::")  # noqa: S104 - compared with
MOST_CONTACTS = 4_096
"""Addresses that others may tell of."""


class Contact:
    """An address to be dialed."""

    def __init__(self, address: str, given: bool, now: float) -> None:
        self.address = address
        self.given = given
        """Was it configured? Then it is never forgotten."""
        self.next_try = now
        self.reached = now
        """When a node was last known to be there, or it was first heard of."""
        self.under_way: set[str] = set()
        """Lanes that are being dialed or are open."""
        self.is_own = False
        self.node = ""
        """The node that was found there. It may be reached by several addresses."""
        self.failures: int | None = None
        """Attempts that have failed since a node was reached last; None: there was no attempt yet."""
        self.is_open = False
        """Is there a node, or was there at the last attempt?"""
        self.why = ""
        """What the last attempt ended with."""

    def fail(self, lane: str, now: float) -> None:
        self.under_way.discard(lane)
        self.next_try = now + RETRY
        self.failures = (self.failures or 0) + 1
        if self.failures > SURE:
            self.is_open = False

    def succeed(self, now: float) -> None:
        self.reached, self.failures, self.is_open = now, 0, True

    def report(self, now: float) -> dict[str, Any]:
        """For people and scripts."""
        return {"node": self.node, "address": self.address, "away": round(now - self.reached, 1), "why": self.why}

    def is_settled(self) -> bool:
        """Is it known whether there is a node, and if so, is the link to it not just about to be made again?"""
        return self.is_own or (self.failures is not None and not (self.is_open and self.failures))


class Contacts:
    """All addresses that are known, this node's own perhaps among them."""

    def __init__(self, dial: Callable[[str, str], None], is_open: Callable[[str, str], bool]) -> None:
        self._contacts: dict[str, Contact] = {}
        self._dial = dial
        """Connects to an address, for a lane."""
        self._is_open = is_open
        """Did this node dial this lane of that node?"""

    def __len__(self) -> int:
        return len(self._contacts)

    def add(self, address: str, now: float, given: bool = False) -> None:
        """A node may be reached there."""
        if address and address not in self._contacts and (given or len(self) < MOST_CONTACTS):
            self._contacts[address] = Contact(address, given, now)

    def fail(self, address: str, lane: str, now: float, why: str = "", was_open: bool = False) -> None:
        """No node answered there, or the connection has ended."""
        if contact := self._contacts.get(address):
            contact.why = why
            if was_open:
                contact.reached = now  # until now
            contact.fail(lane, now)

    def succeed(self, address: str, now: float) -> None:
        """A lane is open."""
        if contact := self._contacts.get(address):
            contact.succeed(now)

    def mark_own(self, address: str) -> None:
        """We are there ourselves."""
        if contact := self._contacts.get(address):
            contact.is_own = True

    def name(self, address: str, node: str) -> None:
        """This node answers at this address."""
        if contact := self._contacts.get(address):
            contact.node = node

    def are_settled(self) -> bool:
        """Is it known of all whether there is a node?"""
        return all(contact.is_settled() for contact in self._contacts.values())

    def missing(self, there: Container[str]) -> list[Contact]:
        """What is looked for: known nodes that are not there, and addresses where no node was found yet."""
        return [
            contact
            for contact in self._contacts.values()
            if contact.failures and not contact.is_own and contact.node not in there
        ]

    def is_wanted(self, address: str, lane: str, node: str) -> bool:
        """We have dialed this address and found that node: is the lane not there already, by another address?"""
        if address not in self._contacts:
            return True
        self.name(address, node)
        others = (each for each in self._contacts.values() if each.address != address and each.node == node)
        return not self._is_open(node, lane) and not any(lane in other.under_way for other in others)

    def dial(self, now: float) -> None:
        """The contacts that are to be reached and are not."""
        for contact in list(self._contacts.values()):
            if contact.is_own or now < contact.next_try:
                continue
            if not contact.given and not contact.under_way and now - contact.reached > FORGET_AFTER:
                del self._contacts[contact.address]
                continue
            for lane in LANES:
                if lane not in contact.under_way and not self._is_dialed(contact, lane):
                    contact.under_way.add(lane)
                    self._dial(contact.address, lane)

    def _is_dialed(self, contact: Contact, lane: str) -> bool:
        """Is the node at this address reached, or about to be, by another of its addresses?"""
        if not contact.node:
            return False
        if self._is_open(contact.node, lane):
            return True
        return any(other.node == contact.node and lane in other.under_way for other in self._contacts.values())


def seen_from_here(address: str, host: str) -> str:
    """Where a node is reached that says `0.0.0.0:6222`, all its addresses: at the one that it came from."""
    scheme, slashes, rest = address.rpartition("://")
    said, colon, port = rest.rpartition(":")
    if said in EVERYWHERE and host:
        said = f"[{host}]" if ":" in host else host
    return f"{scheme}{slashes}{said}{colon}{port}"
