"""The name of a recorder: the same after a restart, and never that of another one that runs."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import IO

from fumarole.pipeline.archive.places import Root
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.locks import take

FOLDER = "_recorders"
MOST = 1_000
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


class NameTaken(PipelineError):
    """Another recorder of this name runs."""


class Lock:
    """Held while a recorder runs; the system lets go of it when the process ends, however it ends."""

    def __init__(self, name: str, file: IO[bytes] | None) -> None:
        self.name = name
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            self._file.close()


def take_name(root: Root, namespace: str, wanted: str | None) -> Lock:
    """The wanted name; or that of the machine, with a number where several recorders run on it.

    Where the file system is not local there is no lock: there each recorder of a machine needs a name of its own.
    """
    if wanted is not None:
        if not wanted or _NOT_IN_NAME.search(wanted) or wanted.startswith((".", "_")):
            raise PipelineError(f"a recorder's name is letters, digits, `-`, `_` and `.`, not {wanted!r}")
        lock = _lock(root, namespace, wanted)
        if lock is None:
            raise NameTaken(f"another recorder named {wanted} runs on {root.name}; give this one another --name")
        return lock
    machine = _NOT_IN_NAME.sub("-", socket.gethostname()).strip("-._") or "recorder"
    for number in range(1, MOST):
        lock = _lock(root, namespace, machine if number == 1 else f"{machine}-{number}")
        if lock is not None:
            return lock
    raise NameTaken(f"{MOST} recorders of this machine run on {root.name} already")


def _lock(root: Root, namespace: str, name: str) -> Lock | None:
    if not root.is_local:
        return Lock(name, None)
    file = take(Path(root.at(namespace, FOLDER, f"{name}.lock")))
    if file is None:
        return None
    os.truncate(file.fileno(), 0)
    file.write(f"{os.getpid()}\n".encode())
    file.flush()
    return Lock(name, file)
