"""A warm session without Spark: its children run small commands. `test_resident.py` starts it."""

import fcntl
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from fumarole.cli.pipeline.resident import _listener
from fumarole.pipeline.warm.resident import Resident


class NoJava:
    """In place of Java."""

    pid = 1
    is_alive = True

    @property
    def address(self) -> dict[str, str]:
        return {"ADDRESS": "java"}

    def stop(self) -> None:
        sys.stdout.write("stopped\n")


def run(arguments: Sequence[str]) -> int:
    match arguments[0]:
        case "tell":
            sys.stdout.write(f"{Path.cwd()} {os.environ['SAID']} {os.environ['ADDRESS']} {sys.stdin.read()}")
            sys.stderr.write("aside")
            return 3
        case "wait":
            sys.stdout.write("waiting\n")
            sys.stdout.flush()
            try:
                time.sleep(60)
            except KeyboardInterrupt:
                return 130
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "raise":
            raise ValueError("a mistake of ours")
    return 0


def main(place: Path, idle: float) -> None:
    started = place.with_suffix(".started")

    def first() -> int:
        """Until there is a file that says whether it has started."""
        while not started.exists() or not (said := started.read_text()):
            time.sleep(0.01)
        return int(said)

    with place.with_suffix(".lock").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        Resident(_listener(place), NoJava(), run, idle).serve(first)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
