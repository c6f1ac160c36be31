"""Which user is charged for what is kept of each topic: retained messages, last messages (A5). Pure.

Only users with a quota of it are charged. The one who brought the newest message of a topic pays for it; a message of a
user without such a quota, or of another node, takes the charge off:

    ann (retained_bytes 1 KiB)   a = 600 B   → 600
    ann                          b = 600 B   → refused, 1,200
    bob (no quota)               a = 600 B   → 0
    ann                          b = 600 B   → 600
"""

from __future__ import annotations

from fumarole.exchange.quotas import Account, QuotaError, Resource, Usage


class Payers:
    """Of one namespace and one resource."""

    def __init__(self, what: Resource) -> None:
        self._what: Resource = what
        self._paid: dict[str, tuple[Usage, int]] = {}

    def __len__(self) -> int:
        """Topics that are charged."""
        return len(self._paid)

    def check(self, topic: str, size: int, account: Account | None) -> None:
        """May the user keep so many bytes of this topic? Raises QuotaError."""
        user = self._limited(account)
        if user is not None:
            payer, before = self._paid.get(topic, (user, 0))
            user.check(self._what, size - before if payer is user else size)

    def has_room(self, topic: str, size: int, account: Account | None) -> bool:
        """The same. True: they are charged."""
        try:
            self.check(topic, size, account)
        except QuotaError:
            return False
        self.charge(topic, size, account)
        return True

    def charge(self, topic: str, size: int, account: Account | None) -> None:
        """So many bytes of this topic are kept from now on."""
        self.release(topic)
        user = self._limited(account)
        if user is not None:
            self._paid[topic] = user, size
            user.force(self._what, size)

    def release(self, topic: str) -> None:
        """Nothing of this topic is kept any more, or nothing of a user with a quota."""
        if self._paid:
            paid = self._paid.pop(topic, None)
            if paid is not None:
                user, size = paid
                user.give_back(self._what, size)

    def _limited(self, account: Account | None) -> Usage | None:
        user = None if account is None else account.user
        return None if user is None or getattr(user.quotas, self._what) is None else user
