"""Files with CURVE keys, as `zmq.auth.create_certificates` makes them.

A secret key is read only where other users cannot read it (A8). As with PostgreSQL, a file of root's may be readable
for its group: so are secrets mounted into containers.
"""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path
from typing import Final

import zmq.auth
from zmq.utils import z85

from fumarole.bridge.errors import CannotBridgeError

KEY: Final = 32


def read_key_pair(path: Path) -> tuple[bytes, bytes]:
    """The public and the secret half, as text in Z85. Raises CannotBridgeError."""
    try:
        _check_private(path)
        public, secret = zmq.auth.load_certificate(path)
        for half in (public, secret or public):
            decode_key(half)
    except (OSError, ValueError) as error:
        raise CannotBridgeError(f"{path} has no CURVE key: {error}") from None
    if secret is None:
        raise CannotBridgeError(f"{path} has only a public key; a secret one is needed")
    return public, secret


def decode_key(text: bytes) -> bytes:
    """Raises ValueError."""
    try:
        key = bytes(z85.decode(text))
    except (KeyError, ValueError, struct.error):
        raise ValueError("it is no text in Z85") from None
    if len(key) != KEY:
        raise ValueError(f"a key of {len(key)} bytes; one has {KEY}")
    return key


def _check_private(path: Path) -> None:
    status = path.stat()
    mode = stat.S_IMODE(status.st_mode)
    others = stat.S_IRWXO | (stat.S_IWGRP | stat.S_IXGRP if _owner(status) == 0 else stat.S_IRWXG)
    if mode & others:
        raise CannotBridgeError(f"{path} is open to other users (mode {mode:04o}); make it private: chmod 600 {path}")


def _owner(status: os.stat_result) -> int:
    return status.st_uid


def read_public_key(path: Path) -> bytes:
    """The public half, as text in Z85. Raises CannotBridgeError."""
    try:
        public = zmq.auth.load_certificate(path)[0]
        decode_key(public)
    except (OSError, ValueError) as error:
        raise CannotBridgeError(f"{path} has no CURVE key: {error}") from None
    return bytes(public)


def read_public_keys(folder: Path) -> frozenset[bytes]:
    """The public keys of the files *.key in a folder, decoded. Raises CannotBridgeError."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".key")
    except OSError as error:
        raise CannotBridgeError(f"{folder} has no keys of clients: {error.strerror}") from None
    return frozenset(decode_key(read_public_key(path)) for path in paths)
