"""The process of a warm session: `python -m fumarole.cli.pipeline.resident`, started by `cli.pipeline.warm`.

It reads the paths of its socket and lock, the master and the settings from stdin.
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
    """Serves commands until it has been idle for long, gets the stop command, or Java has ended."""
    place, lock, master, settings = json.load(sys.stdin)
    with Path(lock).open("ab") as held:
        os.fchmod(held.fileno(), 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return OTHER  # another session serves the same commands
        held.truncate(0)
        held.write(json.dumps({"pid": os.getpid()}).encode())
        held.flush()
        listener = _listener(Path(place))
        try:
            _serve(listener, master, settings)
        finally:
            Path(place).unlink(missing_ok=True)
    return 0


def _listener(path: Path) -> socket.socket:
    """A socket that only this user can open."""
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
    """Runs a command in a child process."""
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
