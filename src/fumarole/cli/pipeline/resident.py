"""The process of a warm session: `python -m fumarole.cli.pipeline.resident`, started by `cli.pipeline.warm`.

On stdin it is told where its socket and its lock are, the master, and the settings.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from fumarole.cli.pipeline.warm import OTHER, socket_address


def main() -> int:
    """Serves commands until it is idle for long, is told to stop, or Java is gone."""
    place, lock, master, settings = json.load(sys.stdin)
    with Path(lock).open("wb") as held:
        os.fchmod(held.fileno(), 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return OTHER  # which will do
        listener = _listener(Path(place))
        try:
            _serve(listener, master, settings)
        finally:
            Path(place).unlink(missing_ok=True)
    return 0


def _listener(path: Path) -> socket.socket:
    """A socket of this user's alone."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with socket_address(path) as address:
            listener.bind(address)
    finally:
        os.umask(before)
    listener.listen(64)
    return listener


def _serve(listener: socket.socket, master: str, settings: Sequence[str]) -> None:
    from fumarole.pipeline.warm.java import start, warm_up
    from fumarole.pipeline.warm.resident import Resident

    java = start(master, dict(text.partition("=")[::2] for text in settings))
    try:
        Resident(listener, java, _run).serve(warm_up)
    except BaseException:
        java.stop()
        raise


def _run(arguments: Sequence[str]) -> int:
    """A command, in a child."""
    from fumarole.cli.main import app
    from fumarole.cli.pipeline import spark
    from fumarole.cli.terminal import standard_streams
    from fumarole.pipeline.warm.java import attach

    spark.resident = attach
    sys.argv[1:] = arguments
    try:
        with standard_streams():
            app(list(arguments), prog_name="fumarole")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
