"""What a user may publish and subscribe to: patterns allowed, patterns denied. Denial wins."""

from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from fumarole.core.index import Index
from fumarole.core.limits import Quotas
from fumarole.core.publication import REQUESTS
from fumarole.core.topic import Pattern, covers, parse_wildcards, split

ADMIN: Final = "admin"
"""The role that may see what others do: their patterns, groups, inboxes and addresses (A4)."""
ROLES: Final = (ADMIN,)
ADDRESSES: Final = 4_096
"""Addresses of which it is remembered whether they are this machine's: each connection asks."""


class Permissions:
    """`allow` None: everything but what is denied; an empty `allow`: nothing at all.

    A denied topic is also denied as the channel of Commands and Queries of the KubeMQ door.
    """

    def __init__(self, allow: tuple[str, ...] | None = None, deny: tuple[str, ...] = ()) -> None:
        self.allow = allow
        self.deny = deny
        self._allowed = None if allow is None else [parse_wildcards(text) for text in allow]
        self._denied = [parse_wildcards(prefix + text) for text in deny for prefix in ("", *REQUESTS)]
        self._allow_index = _index(self._allowed) if self._allowed is not None else None
        self._deny_index = _index(self._denied)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Permissions) and (self.allow, self.deny) == (other.allow, other.deny)

    def __hash__(self) -> int:
        return hash((self.allow, self.deny))

    def allows(self, topic: str) -> bool:
        """May this very topic be published, or be shown?"""
        words = split(topic)
        if self._deny_index.match(words):
            return False
        return self._allow_index is None or bool(self._allow_index.match(words))

    def shows(self, own: str, latest: str) -> bool:
        """Of a producer: is its own topic allowed, or that of its last reading, and neither denied (A3)?"""
        if own == latest:
            return self.allows(own)
        return (self.allows(own) and not self._denies(latest)) or (self.allows(latest) and not self._denies(own))

    def _denies(self, topic: str) -> bool:
        return bool(self._deny_index.match(split(topic)))

    def allows_pattern(self, pattern: Pattern) -> bool:
        """May this be subscribed to? A denied part inside a wider pattern is left out at delivery, not here."""
        if any(covers(denied, pattern) for denied in self._denied):
            return False
        return self._allowed is None or any(covers(allowed, pattern) for allowed in self._allowed)


def _index(patterns: list[Pattern]) -> Index:
    index = Index()
    for pattern in patterns:
        index.add(pattern, True)
    return index


@dataclass(frozen=True, slots=True)
class User:
    """The user of a connection, once its credentials were verified."""

    name: str
    namespace: str
    publish: Permissions | None = None
    subscribe: Permissions | None = None
    roles: frozenset[str] = frozenset()
    quota: Quotas = field(default_factory=Quotas)

    @property
    def is_admin(self) -> bool:
        return ADMIN in self.roles


@lru_cache(ADDRESSES)
def is_loopback(address: str) -> bool:
    """Is this the address of a peer on the same machine? A local socket has none."""
    try:
        return not address or ip_address(address).is_loopback
    except ValueError:
        return False
