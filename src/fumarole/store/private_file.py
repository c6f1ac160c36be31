"""Files that only the user of the broker's process can read (A8), whatever its umask is."""

import os
import stat
from pathlib import Path
from typing import Final

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def make_folder(path: Path) -> None:
    """Makes the folder where there is none. One that is there keeps its permissions: it may hold other things."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def make_private(path: Path) -> None:
    """Makes the file where there is none, and takes one that is there from all other users.

    A symbolic link in the place of the file is refused: whoever made it would choose what is written to. Raises
    OSError. SQLite gives the files beside a database the permissions of the database.
    """
    file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        mode = stat.S_IMODE(os.fstat(file).st_mode)
        if mode & OTHERS:
            os.fchmod(file, mode & ~OTHERS)
    finally:
        os.close(file)
