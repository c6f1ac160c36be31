"""Who a client is: passwords by argon2, tokens by digest.

Only hashes are ever kept. Passwords are guessable, so their hash is slow (argon2id); tokens are 256 random bits, so the
digest of one can be looked up like any key. `Credentials.check` blocks while argon2 works: doors call it in threads.
"""

import hashlib
import secrets
import zlib
from collections.abc import Callable, Iterable
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from fumarole.config.settings import PermissionSettings, UserSettings
from fumarole.exchange.permissions import Permissions, User

LONGEST_SECRET: Final = 1024
"""Bytes of a password or token; longer ones are refused unread."""
_ARGON2: Final = PasswordHasher()

Verify = Callable[[str, bytes], bool]
"""Is this (the second) the password of this hash (the first)? Never raises."""


def hash_password(password: str) -> str:
    """The argon2id hash of a password, for `password` in the configuration. Raises ValueError if it is not usable."""
    secret = _bytes(password)
    if not 1 <= len(secret) <= LONGEST_SECRET:
        raise ValueError(f"a password has 1 to {LONGEST_SECRET} bytes, this one has {len(secret)}")
    return _ARGON2.hash(secret)


def verify_password(password_hash: str, password: bytes) -> bool:
    """Is it the password of this hash?"""
    try:
        return _ARGON2.verify(password_hash, password)
    except (Argon2Error, InvalidHashError):
        return False


def new_token() -> tuple[str, str]:
    """A random token for a client, and its digest for `token` in the configuration."""
    token = secrets.token_urlsafe(32)
    return token, token_digest(token)


def token_digest(token: str) -> str:
    """What the configuration has in place of a token."""
    return f"sha256:{hashlib.sha256(_bytes(token)).hexdigest()}"


class Credentials:
    """The users of the configuration. `check` may be called from several threads at once."""

    def __init__(self, users: Iterable[UserSettings], verify: Verify = verify_password) -> None:
        self._verify = verify
        self._by_token: dict[str, User] = {}
        self._by_name: dict[str, tuple[str, User]] = {}
        for settings in users:
            user = _user(settings)
            if settings.token is not None:
                self._by_token[settings.token.reveal()] = user
            if settings.password is not None:
                self._by_name[settings.name] = (settings.password.reveal(), user)
        self._hashes = [password_hash for password_hash, _ in self._by_name.values()]

    def check(self, user: str | None, password: str | None, token: str | None) -> User | None:
        """The user these belong to; None: nobody. A token, if one is given, decides alone."""
        if token:
            return self._by_token.get(token_digest(token)) if len(token) <= LONGEST_SECRET else None
        if not user or not password or not self._hashes:
            return None
        secret = _bytes(password)
        if len(secret) > LONGEST_SECRET:
            return None
        if user in self._by_name:
            password_hash, known = self._by_name[user]
            return known if self._verify(password_hash, secret) else None
        # A name that nobody has takes the time of one that somebody has: that of some hash in use, always the same one.
        self._verify(self._hashes[zlib.crc32(_bytes(user)) % len(self._hashes)], secret)
        return None


def _user(settings: UserSettings) -> User:
    return User(settings.name, settings.namespace, _permissions(settings.publish), _permissions(settings.subscribe))


def _permissions(settings: PermissionSettings) -> Permissions | None:
    if settings == PermissionSettings():
        return None
    return Permissions(settings.allow, settings.deny)


def _bytes(text: str) -> bytes:
    # Clients may send what is no text in Unicode, such as half a surrogate pair; it must not raise.
    return text.encode("utf-8", "surrogatepass")
