"""A real broker in a process of its own, on a port that the system chose."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
START_SECONDS = 20.0
STOP_SECONDS = 10.0
_DOOR_OPEN = re.compile(r"NATS door open on ([0-9.]+):([0-9]+)")
_HOT_PATH = re.compile(r"hot path: (.+)")
HOT_PATHS = {"compiled": "compiled", "plain": "plain Python"}
"""Engines by the names that tests use, and what the broker says of each."""


class RunningBroker:
    """`fumarole serve`, or with `observed` the same broker with eyes inside (observed.py)."""

    def __init__(
        self, folder: Path, config: str = "", engine: str = "compiled", port: int = 0, observed: bool = False
    ) -> None:
        self.engine = engine
        self.log: list[str] = []
        self.port = 0
        path = folder / "fumarole.toml"
        path.write_text(config)
        arguments = ["--config", str(path), "--nats", f"127.0.0.1:{port}", "--data", str(folder / "data")]
        module = ["tests.integration.observed"] if observed else ["fumarole.app.cli", "serve"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FUMAROLE_")}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        if engine == "plain":
            environment["FUMAROLE_PURE"] = "1"
        self._process = subprocess.Popen(
            [sys.executable, "-m", *module, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self._started = threading.Event()
        assert self._process.stderr is not None
        assert self._process.stdout is not None
        self._output: IO[str] = self._process.stdout
        self._listener = threading.Thread(target=self._listen, args=(self._process.stderr,), daemon=True)
        self._listener.start()
        if not self._started.wait(START_SECONDS) or not self.port:
            self.kill()
            raise AssertionError("the broker did not start:\n" + "\n".join(self.log))
        if observed:
            self._output.readline()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def _listen(self, errors: IO[str]) -> None:
        for line in errors:
            self.log.append(line.rstrip("\n"))
            if not self._started.is_set():
                door, hot_path = _DOOR_OPEN.search(line), _HOT_PATH.search(line)
                if door:
                    self.port = int(door[2])
                if hot_path:
                    if hot_path[1] != HOT_PATHS[self.engine]:
                        self.port = 0
                    self._started.set()
        self._started.set()

    def is_running(self) -> bool:
        return self._process.poll() is None

    def stop(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Asks it to end; how many seconds it took. It must end by itself, well, and in time."""
        assert self.is_running(), f"the broker ended before it was asked to: {self._process.returncode}\n{self.tail()}"
        began = time.monotonic()
        self._process.send_signal(number)
        return self.await_end(began)

    def await_end(self, began: float) -> float:
        """Waits for the end that somebody has asked for."""
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the broker did not end within {STOP_SECONDS} s\n{self.tail()}") from None
        took = time.monotonic() - began
        self._close()
        assert code == 0, f"the broker ended with {code}\n{self.tail()}"
        return took

    def ask_to_end(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Asks and does not wait; when that was, for `await_end`."""
        self._process.send_signal(number)
        return time.monotonic()

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

    def tail(self) -> str:
        """The end of its log, for messages."""
        return "\n".join(self.log[-40:])

    # From outside.

    def memory(self) -> int:
        """Bytes of memory that it really uses."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def peak_memory(self) -> int:
        """The most that it ever used."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmHWM")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208 - names are enough

    # From inside, for an observed one.

    def observe(self) -> dict[str, Any]:
        """What observed.py says: see there."""
        self._process.send_signal(signal.SIGUSR1)
        line = self._output.readline()
        assert line, f"the broker has ended\n{self.tail()}"
        observation: dict[str, Any] = json.loads(line)
        return observation
