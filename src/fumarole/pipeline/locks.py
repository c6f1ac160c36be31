"""One at a time: a file that a process holds while it works. The system lets go of it when the process ends."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO


def take(path: Path) -> IO[bytes] | None:
    """Held until it is closed; None: another process holds it. Folders on the way are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
