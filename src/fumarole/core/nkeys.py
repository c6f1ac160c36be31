"""NKeys: Ed25519 keys as NATS writes them, in capital letters and digits.

    UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4     a user's public key, 56 of them
    SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYVCU3Y   its seed, 58

In base32: one byte for the kind of its owner, and in a seed a second one; 32 bytes; a check sum (CRC-16, XMODEM).
Only their form is here. server/credentials.py verifies what is signed with them.
"""

import base64
import binascii
from typing import Final

_USER: Final = 20 << 3
_SEED: Final = 18 << 3
_KEY_BYTES: Final = 32
_SUM_BYTES: Final = 2


def decode_user_key(text: str) -> bytes:
    """The 32 bytes of a user's public key. Raises ValueError where it is none."""
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except (binascii.Error, ValueError):
        raise ValueError("not base32") from None
    if len(raw) != 1 + _KEY_BYTES + _SUM_BYTES or raw[0] != _USER:
        raise ValueError("not the public key of a user")
    if _sum(raw[:-_SUM_BYTES]) != raw[-_SUM_BYTES:]:
        raise ValueError("mistyped: its check sum is another")
    return raw[1:-_SUM_BYTES]


def encode_user_key(key: bytes) -> str:
    """A user's public key as NATS writes it."""
    return _encode(bytes([_USER]) + key)


def encode_user_seed(seed: bytes) -> str:
    """The seed of a user's key pair as NATS writes it. It is the secret."""
    return _encode(bytes([_SEED | _USER >> 5, _USER << 3 & 0xFF]) + seed)


def _encode(raw: bytes) -> str:
    return base64.b32encode(raw + _sum(raw)).decode().rstrip("=")


def _sum(raw: bytes) -> bytes:
    return binascii.crc_hqx(raw, 0).to_bytes(_SUM_BYTES, "little")
