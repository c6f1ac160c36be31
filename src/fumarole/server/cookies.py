"""The cookies of the web door: a user's name and an end, signed (H5).

    bGFi.1773483600.9f2c…        the name in base64, when it ends, and a keyed digest of both

Nothing is stored, so a cookie is good on every node that has the same users and the same secret of the cluster. The key
is made from that secret and from the user's own hash in the configuration: a changed password ends the user's cookies.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from typing import Protocol

from fumarole.exchange.permissions import User


class Users(Protocol):
    """Looks users up by name."""

    def named(self, name: str) -> tuple[User, str] | None:
        """The user of this name, and what the configuration has in place of the password or token."""


class SignedCookies:
    """Gives cookies and knows them again."""

    def __init__(self, users: Callable[[], Users], secret: bytes, wall: Callable[[], float]) -> None:
        self._users = users
        self._secret = secret
        self._wall = wall

    def give(self, user: User, life: float) -> str:
        """A cookie for this user, good for so many seconds."""
        name = base64.urlsafe_b64encode(user.name.encode()).decode().rstrip("=")
        text = f"{name}.{int(self._wall() + life)}"
        found = self._users().named(user.name)
        if found is None:
            raise ValueError("this user is not in the configuration")
        return f"{text}.{self._digest(text, found[1])}"

    def user_of(self, cookie: str) -> User | None:
        """The user of the cookie; None when the cookie is invalid, expired, or its user is gone."""
        text, _, digest = cookie.rpartition(".")
        name, _, end = text.partition(".")
        if not (end.isascii() and end.isdigit() and len(end) < 12 and cookie.isascii()):
            return None
        try:
            user = base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError):
            return None
        found = self._users().named(user)
        if found is None or not hmac.compare_digest(self._digest(text, found[1]), digest):
            return None
        return found[0] if self._wall() < int(end) else None

    def _digest(self, text: str, stored: str) -> str:
        key = hashlib.blake2b(stored.encode(), key=self._secret[:64], digest_size=32).digest()
        return hashlib.blake2b(text.encode(), key=key, digest_size=32).hexdigest()
