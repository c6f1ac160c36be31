"""CurveZMQ (RFC 26), the server's end: the handshake, and the boxes in which parts travel.

    HELLO     ▶  the client's short-lived key C′, and a box that proves it knows the server's key S
    WELCOME   ◀  the server's short-lived key S′ and a cookie, boxed for C′
    INITIATE  ▶  the cookie, and boxed: the client's key C, its vouch for C′, its metadata
    READY     ◀  the server's metadata, boxed
    MESSAGE   ▶◀ each part: a nonce that only grows, and a box with its flags and its bytes

The boxes are libsodium's (PyNaCl). Whatever does not open ends the connection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nacl.bindings import (
    crypto_box_afternm,
    crypto_box_beforenm,
    crypto_box_keypair,
    crypto_box_open_afternm,
    crypto_secretbox,
    crypto_secretbox_open,
    randombytes,
)
from nacl.exceptions import CryptoError

from fumarole.bridge.errors import MalformedError
from fumarole.bridge.zmtp import COMMAND, MORE, Refusal, ready_command, split_command

KEY: Final = 32
HELLO_SIZE: Final = 194
"""The bytes after its name: the version, zeros up to the length of its answer, C′, a nonce, a box."""
COOKIE_SIZE: Final = 96
VOUCH_SIZE: Final = 80
VERSION: Final = b"\x01\x00"
MESSAGE: Final = b"\x07MESSAGE"
HEAD: Final = len(MESSAGE) + 8
_INNER_MORE, _INNER_COMMAND = 1, 2
"""The flags as a box has them."""


@dataclass(frozen=True, slots=True)
class CurveKeys:
    """The server's own key pair, and the public keys that are let in."""

    public: bytes
    secret: bytes
    clients: frozenset[bytes] | None = None
    """None: every client that knows the server's."""


class CurveMechanism:
    """The handshake of one connection."""

    name = b"CURVE"

    def __init__(
        self,
        keys: CurveKeys,
        keypair: Callable[[], tuple[bytes, bytes]] = crypto_box_keypair,
        chance: Callable[[int], bytes] = randombytes,
    ) -> None:
        self.box: CurveBox | None = None
        self._keys = keys
        self._keypair = keypair
        self._chance = chance
        self._client = b""
        """C′."""
        self._nonce = b""
        self._cookie_key = b""

    def first_command(self) -> bytes | None:
        return None

    def receive_command(self, body: bytes) -> tuple[bytes | None, bytes | None]:
        name, content = split_command(body)
        try:
            if name == b"HELLO" and not self._client:
                return self._welcome(content), None
            if name == b"INITIATE" and self._cookie_key:
                return self._ready(content)
        except (CryptoError, ValueError, TypeError):
            raise MalformedError(f"a box of {name.decode()} that does not open") from None
        raise MalformedError(f"{name[:20]!r} has no place in the handshake of CURVE")

    def _welcome(self, hello: bytes) -> bytes:
        if len(hello) != HELLO_SIZE or hello[:2] != VERSION:
            raise MalformedError("a HELLO that is none")
        client, nonce, box = hello[74:106], hello[106:114], hello[114:]
        shared = crypto_box_beforenm(client, self._keys.secret)
        if crypto_box_open_afternm(box, b"CurveZMQHELLO---" + nonce, shared) != bytes(64):
            raise MalformedError("a HELLO that is none")
        self._client, self._nonce = client, nonce
        public, secret = self._keypair()
        self._cookie_key = self._chance(KEY)
        cookie_nonce, welcome_nonce = self._chance(16), self._chance(16)
        cookie = cookie_nonce + crypto_secretbox(client + secret, b"COOKIE--" + cookie_nonce, self._cookie_key)
        welcome = crypto_box_afternm(public + cookie, b"WELCOME-" + welcome_nonce, shared)
        return b"\x07WELCOME%s%s" % (welcome_nonce, welcome)

    def _ready(self, initiate: bytes) -> tuple[bytes, bytes]:
        cookie, nonce, box = (
            initiate[:COOKIE_SIZE],
            initiate[COOKIE_SIZE : COOKIE_SIZE + 8],
            initiate[COOKIE_SIZE + 8 :],
        )
        opened = crypto_secretbox_open(cookie[16:], b"COOKIE--" + cookie[:16], self._cookie_key)
        # The cookie is good for one INITIATE.
        self._cookie_key = b""
        client, secret = opened[:KEY], opened[KEY:]
        if client != self._client:
            raise MalformedError("another connection's cookie")
        if nonce <= self._nonce:
            raise MalformedError("a nonce that was there before")
        shared = bytes(crypto_box_beforenm(client, secret))
        content = crypto_box_open_afternm(box, b"CurveZMQINITIATE" + nonce, shared)
        lasting, vouch_nonce = content[:KEY], content[KEY : KEY + 16]
        vouch, metadata = content[KEY + 16 : KEY + 16 + VOUCH_SIZE], content[KEY + 16 + VOUCH_SIZE :]
        vouched = crypto_box_open_afternm(vouch, b"VOUCH---" + vouch_nonce, crypto_box_beforenm(lasting, secret))
        if vouched != client + self._keys.public:
            raise MalformedError("a vouch for something else")
        if self._keys.clients is not None and lasting not in self._keys.clients:
            raise Refusal("a key that is not let in", b"\x05ERROR\x03400")
        self.box = CurveBox(shared, nonce)
        name, content = split_command(ready_command())
        own_nonce = self.box.next_nonce()
        box = crypto_box_afternm(content, b"CurveZMQREADY---" + own_nonce, shared)
        return b"%c%s%s%s" % (len(name), name, own_nonce, box), metadata


class CurveBox:
    """The messages of a connection after its handshake."""

    overhead = HEAD + 16 + 1

    def __init__(self, shared: bytes, last_nonce: bytes) -> None:
        self._shared = shared
        self._last_nonce = last_nonce
        self._sent = 0

    def next_nonce(self) -> bytes:
        self._sent += 1
        return self._sent.to_bytes(8, "big")

    def seal(self, flags: int, body: bytes) -> bytes:
        """A part or command, encrypted."""
        inner = (_INNER_MORE if flags & MORE else 0) | (_INNER_COMMAND if flags & COMMAND else 0)
        nonce = self.next_nonce()
        box = crypto_box_afternm(b"%c%s" % (inner, body), b"CurveZMQMESSAGES" + nonce, self._shared)
        return MESSAGE + nonce + bytes(box)

    def open(self, body: bytes) -> tuple[int, bytes]:
        """The way back. Raises MalformedError."""
        if not body.startswith(MESSAGE):
            raise MalformedError("a frame that is not encrypted")
        nonce = body[len(MESSAGE) : HEAD]
        if len(nonce) != 8 or nonce <= self._last_nonce:
            raise MalformedError("a nonce that was there before")
        self._last_nonce = nonce
        try:
            content = bytes(crypto_box_open_afternm(body[HEAD:], b"CurveZMQMESSAGEC" + nonce, self._shared))
        except (CryptoError, ValueError, TypeError):
            raise MalformedError("a box that does not open") from None
        if not content:
            raise MalformedError("a box without flags")
        flags = (MORE if content[0] & _INNER_MORE else 0) | (COMMAND if content[0] & _INNER_COMMAND else 0)
        return flags, content[1:]
