"""The client's end of CURVE, as RFC 26 says it: for tests that want to say what libzmq would never say."""

from __future__ import annotations

from nacl.bindings import crypto_box, crypto_box_keypair, crypto_box_open

from fumarole.bridge.zmtp import COMMAND, SIGNATURE, encode_frame, metadata

GREETING = SIGNATURE + b"\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)
METADATA = metadata((b"Socket-Type", b"DEALER"), (b"Identity", b""))


class CurveClient:
    """Makes the client's commands one by one. `server` is the server's public key."""

    def __init__(self, server: bytes, own: tuple[bytes, bytes] | None = None) -> None:
        self.server = server
        self.public: bytes
        self.secret: bytes
        self.short_public: bytes
        self.short_secret: bytes
        self.public, self.secret = own or crypto_box_keypair()
        self.short_public, self.short_secret = crypto_box_keypair()
        self.short_server = b""
        self._cookie = b""
        self._nonce = 0

    def next_nonce(self) -> bytes:
        self._nonce += 1
        return self._nonce.to_bytes(8, "big")

    def hello(self) -> bytes:
        nonce = self.next_nonce()
        box = crypto_box(bytes(64), b"CurveZMQHELLO---" + nonce, self.server, self.short_secret)
        return b"\x05HELLO\x01\x00%s%s%s%s" % (bytes(72), self.short_public, nonce, box)

    def take_welcome(self, welcome: bytes) -> None:
        assert welcome[:8] == b"\x07WELCOME"
        content = crypto_box_open(welcome[24:], b"WELCOME-" + welcome[8:24], self.server, self.short_secret)
        self.short_server, self._cookie = content[:32], content[32:]
        assert len(self._cookie) == 96

    def initiate(self, properties: bytes = METADATA) -> bytes:
        nonce, vouch_nonce = self.next_nonce(), bytes(16)
        vouch = crypto_box(self.short_public + self.server, b"VOUCH---" + vouch_nonce, self.short_server, self.secret)
        content = self.public + vouch_nonce + bytes(vouch) + properties
        box = crypto_box(content, b"CurveZMQINITIATE" + nonce, self.short_server, self.short_secret)
        return b"\x08INITIATE" + self._cookie + nonce + bytes(box)

    def take_ready(self, ready: bytes) -> bytes:
        assert ready[:6] == b"\x05READY"
        nonce = b"CurveZMQREADY---" + ready[6:14]
        return bytes(crypto_box_open(ready[14:], nonce, self.short_server, self.short_secret))

    def frame(self, flags: int, body: bytes, nonce: bytes | None = None) -> bytes:
        """One part, or with the flag 2 a command, on the wire."""
        nonce = nonce or self.next_nonce()
        content = bytes((flags,)) + body
        box = crypto_box(content, b"CurveZMQMESSAGEC" + nonce, self.short_server, self.short_secret)
        return encode_frame(0, b"\x07MESSAGE" + nonce + bytes(box))

    def read(self, body: bytes) -> tuple[int, bytes]:
        """Flags and content of a frame from the server."""
        assert body[:8] == b"\x07MESSAGE"
        content = crypto_box_open(body[16:], b"CurveZMQMESSAGES" + body[8:16], self.short_server, self.short_secret)
        return content[0], content[1:]


def command(body: bytes) -> bytes:
    return encode_frame(COMMAND, body)
