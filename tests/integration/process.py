"""A program of ours in a process of its own, seen from outside, and with SIGUSR1 from inside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
START_SECONDS = 20.0
STOP_SECONDS = 10.0


class RunningProcess(ABC):
    """Starts it, and returns when it has said in its log that it is ready.

    What it says there, `heard` is told, line by line, until that returns True. An observed one prints a line of JSON when
    it is ready, and one each time it is asked.
    """

    def __init__(self, *command: str, folder: Path | None = None, observed: bool = False, **variables: str) -> None:
        self.log: list[str] = []
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FUMAROLE_")}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=folder,
            env=environment | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._output: IO[str] = self._process.stdout
        self._ready = False
        self._said = threading.Event()
        self._listener = threading.Thread(target=self._listen, args=(self._process.stderr,), daemon=True)
        self._listener.start()
        if not self._said.wait(START_SECONDS) or not self._ready:
            self.kill()
            raise AssertionError("it did not start:\n" + "\n".join(self.log))
        if observed:
            self._output.readline()

    @abstractmethod
    def heard(self, line: str) -> bool:
        """Does this line say that it is ready?"""

    def _listen(self, errors: IO[str]) -> None:
        for line in errors:
            self.log.append(line.rstrip("\n"))
            if not self._said.is_set() and self.heard(line):
                self._ready = True
                self._said.set()
        self._said.set()

    def is_running(self) -> bool:
        return self._process.poll() is None

    def stop(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Asks it to end; how many seconds it took. It must end by itself, well, and in time."""
        assert self.is_running(), f"it ended before it was asked to: {self._process.returncode}\n{self.tail()}"
        return self.await_end(self.ask_to_end(number))

    def ask_to_end(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Asks and does not wait; when that was, for `await_end`."""
        self._process.send_signal(number)
        return time.monotonic()

    def await_end(self, began: float) -> float:
        """Waits for the end that was asked for."""
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end within {STOP_SECONDS} s\n{self.tail()}") from None
        took = time.monotonic() - began
        self._close()
        assert code == 0, f"it ended with {code}\n{self.tail()}"
        return took

    def release(self) -> None:
        """Ends it if it still runs, and forgets it either way."""
        if self.is_running():
            self.stop()
        else:
            self._close()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        self._listener.join(STOP_SECONDS)
        self._output.close()
        assert self._process.stderr is not None
        self._process.stderr.close()

    # From outside.

    def tail(self) -> str:
        """The end of its log, for messages."""
        return "\n".join(self.log[-40:])

    def memory(self) -> int:
        """Bytes of memory that it really uses."""
        return self._status("VmRSS")

    def peak_memory(self) -> int:
        """The most that it ever used."""
        return self._status("VmHWM")

    def _status(self, what: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(what):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"no {what}")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208 - names are enough

    # From inside, for an observed one.

    def observe(self) -> dict[str, Any]:
        """What it says of itself: see observed.py."""
        self._process.send_signal(signal.SIGUSR1)
        line = self._output.readline()
        assert line, f"it has ended\n{self.tail()}"
        observation: dict[str, Any] = json.loads(line)
        return observation
