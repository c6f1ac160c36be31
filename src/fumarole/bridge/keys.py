"""Files with CURVE keys, as `zmq.auth.create_certificates` makes them.

A secret key is read only where other users cannot read it (A8). As with PostgreSQL, a file of root's may be readable
for its group: so are secrets mounted into containers.
"""

from __future__ import annotations

import stat
from pathlib import Path

import zmq.auth
from zmq.utils import z85

from fumarole.bridge.errors import CannotBridgeError


def read_key_pair(path: Path) -> tuple[bytes, bytes]:
    """The public and the secret half, as text in Z85. Raises CannotBridgeError."""
    try:
        _check_private(path)
        public, secret = zmq.auth.load_certificate(path)
        if secret is not None:
            z85.decode(public), z85.decode(secret)
    except (OSError, ValueError) as error:
        raise CannotBridgeError(f"{path} has no CURVE key: {error}") from None
    if secret is None:
        raise CannotBridgeError(f"{path} has only a public key; a secret one is needed")
    return public, secret


def _check_private(path: Path) -> None:
    status = path.stat()
    others = stat.S_IRWXO | (stat.S_IWGRP | stat.S_IXGRP if status.st_uid == 0 else stat.S_IRWXG)
    if status.st_mode & others:
        mode = stat.S_IMODE(status.st_mode)
        raise CannotBridgeError(f"{path} is open to other users (mode {mode:04o}); make it private: chmod 600 {path}")


def read_public_key(path: Path) -> bytes:
    """The public half, as text in Z85. Raises CannotBridgeError."""
    try:
        public = zmq.auth.load_certificate(path)[0]
        z85.decode(public)
    except (OSError, ValueError) as error:
        raise CannotBridgeError(f"{path} has no CURVE key: {error}") from None
    return bytes(public)


def read_public_keys(folder: Path) -> frozenset[bytes]:
    """Those of the files *.key in a folder, decoded. Raises CannotBridgeError."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".key")
    except OSError as error:
        raise CannotBridgeError(f"{folder} has no keys of clients: {error.strerror}") from None
    return frozenset(z85.decode(read_public_key(path)) for path in paths)
