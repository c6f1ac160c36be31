"""The users of the configuration: passwords by argon2, tokens by digest.

Only hashes are kept. Passwords can be guessed, so their hash is slow (argon2id); tokens are 256 random bits, so the
digest of one can be looked up like any key. `Credentials.check` blocks while argon2 works: `doors/logins.py` calls it
in threads. Verified credentials are remembered by a keyed digest, whose key never leaves this process.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Final

from fumarole.config.settings import PermissionSettings, UserSettings
from fumarole.core.nkeys import decode_user_key, encode_user_key, encode_user_seed
from fumarole.core.packages import need
from fumarole.exchange.permissions import Permissions, User
from fumarole.sessions.stream import KeyProof

if TYPE_CHECKING:
    from argon2 import PasswordHasher

LONGEST_SECRET: Final = 1024
"""Bytes of a password or token; longer ones are refused unread."""
REMEMBERED: Final = 50_000
"""Credentials that were found right; the one used longest ago is forgotten first."""
_URL_SAFE: Final = str.maketrans("-_", "+/")
"""Clients write signatures in either alphabet of base64."""

Verify = Callable[[str, bytes], bool]
"""True when the second is the password of the first, a hash. Never raises."""


def hash_password(password: str) -> str:
    """The argon2id hash of a password, for `password` in the configuration. Raises ValueError if it is not usable."""
    hasher, secret = _argon2(), _bytes(password)
    if not 1 <= len(secret) <= LONGEST_SECRET:
        raise ValueError(f"a password has 1 to {LONGEST_SECRET} bytes, this one has {len(secret)}")
    return hasher.hash(secret)


def verify_password(password_hash: str, password: bytes) -> bool:
    """True when it is the password of this hash."""
    from argon2.exceptions import Argon2Error, InvalidHashError

    try:
        return _argon2().verify(password_hash, password)
    except (Argon2Error, InvalidHashError):
        return False


@cache
def _argon2() -> PasswordHasher:
    from argon2 import PasswordHasher  # with the first password: a broker without users needs it not

    return PasswordHasher()


def new_token() -> tuple[str, str]:
    """A random token for a client, and its digest for `token` in the configuration."""
    token = secrets.token_urlsafe(32)
    return token, token_digest(token)


def token_digest(token: str) -> str:
    """The digest of a token, for the configuration."""
    return f"sha256:{hashlib.sha256(_bytes(token)).hexdigest()}"


def new_key_pair() -> tuple[str, str]:
    """A random seed for a client, and the public key for `nkey` in the configuration. Raises MissingPackageError."""
    need("nkeys")
    from nacl.signing import SigningKey

    key = SigningKey.generate()
    return encode_user_seed(bytes(key)), encode_user_key(bytes(key.verify_key))


class Credentials:
    """The users of the configuration. `check` may be called from several threads at once."""

    def __init__(self, users: Iterable[UserSettings], verify: Verify = verify_password) -> None:
        self._verify = verify
        self._by_token: dict[str, User] = {}
        self._by_key: dict[str, User] = {}
        self._by_name: dict[str, tuple[str, User]] = {}
        self._named: dict[str, tuple[User, str]] = {}
        by_name: dict[str, User] = {}
        for settings in users:
            user = by_name[settings.name] = _user(settings)
            stored = settings.password or settings.token
            if stored is not None:
                self._named.setdefault(settings.name, (user, stored.reveal()))
            if settings.token is not None:
                self._by_token[settings.token.reveal()] = user
            if settings.nkey is not None:
                self._by_key[settings.nkey] = user
            if settings.password is not None:
                self._by_name[settings.name] = (settings.password.reveal(), user)
        self.users = by_name
        """By name."""
        self._hashes = [password_hash for password_hash, _ in self._by_name.values()]
        self._key = secrets.token_bytes(32)
        self._remembered: OrderedDict[bytes, User] = OrderedDict()

    def by_token(self, token: str) -> User | None:
        """The user of a token; None: there is none."""
        return self._by_token.get(token_digest(token)) if len(token) <= LONGEST_SECRET else None

    def by_key(self, proof: KeyProof) -> User | None:
        """The user of an nkey, where the signature is right. None: there is none, or it is wrong."""
        user = self._by_key.get(proof.nkey)
        return user if user is not None and _is_signed(proof) else None

    def named(self, name: str) -> tuple[User, str] | None:
        """The user of this name, and what the configuration has in place of the password or token."""
        return self._named.get(name)

    def digest(self, user: str, password: str) -> bytes:
        """Equal for equal credentials, of no use outside this process."""
        name = _bytes(user[:LONGEST_SECRET])
        text = b"%d:%s%s" % (len(name), name, _bytes(password[: LONGEST_SECRET + 1]))
        return hashlib.blake2b(text, key=self._key, digest_size=32).digest()

    def recall(self, digest: bytes) -> User | None:
        """The user, where these credentials were found right before."""
        user = self._remembered.get(digest)
        if user is not None:
            self._remembered.move_to_end(digest)
        return user

    def remember(self, digest: bytes, user: User) -> None:
        """These credentials were found right."""
        self._remembered[digest] = user
        if len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)

    def check(self, user: str, password: str) -> User | None:
        """The user of this name, where the password is right. None: the name or the password is wrong."""
        if not user or not password or not self._hashes:
            return None
        secret = _bytes(password)
        if len(secret) > LONGEST_SECRET:
            return None
        if user in self._by_name:
            password_hash, known = self._by_name[user]
            return known if self._verify(password_hash, secret) else None
        # An unknown name takes as long as a known one: the time of one of the hashes in use, always the same.
        self._verify(self._hashes[zlib.crc32(_bytes(user)) % len(self._hashes)], secret)
        return None


def _user(settings: UserSettings) -> User:
    return User(
        settings.name,
        settings.namespace,
        _permissions(settings.publish),
        _permissions(settings.subscribe),
        frozenset(settings.roles),
        settings.quota,
    )


def _is_signed(proof: KeyProof) -> bool:
    """True when it is a signature of the nonce, made with this key."""
    from nacl.exceptions import BadSignatureError
    from nacl.signing import VerifyKey

    try:
        text = proof.signature.translate(_URL_SAFE).rstrip("=")
        signature = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        VerifyKey(decode_user_key(proof.nkey)).verify(proof.nonce.encode(), signature)
    except (BadSignatureError, ValueError):
        return False
    return bool(proof.nonce)


def _permissions(settings: PermissionSettings) -> Permissions | None:
    if settings == PermissionSettings():
        return None
    return Permissions(settings.allow, settings.deny)


def _bytes(text: str) -> bytes:
    # Clients may send what is no text in Unicode, such as half a surrogate pair; it must not raise.
    return text.encode("utf-8", "surrogatepass")
