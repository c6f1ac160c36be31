"""KubeMQ's own clients, each in an environment of its own (`make setup-test` makes them), told what to do by tests."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).parent
ENVIRONMENTS = Path(__file__).parents[3] / "build" / "kubemq"
SECONDS = 20.0
SDKS = {"2.4.0": "sdk_2.py", "3.6.0": "sdk_3.py", "4.1.5": "sdk_4.py", "4.1.5 async": "sdk_4_async.py"}
"""By name: the version, and the script that uses it."""
MANAGING = ("3.6.0", "4.1.5")
"""Those that can create and list channels."""


class Faulty(Exception):
    """The SDK raised an error: its kind and text."""


def python_of(sdk: str) -> Path:
    python = ENVIRONMENTS / sdk.split(maxsplit=1)[0] / "bin" / "python"
    assert python.exists(), f"there is no environment for kubemq {sdk}: `make setup-test` makes it"
    return python


class Sdk:
    """A process that uses one SDK."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed with the process
        self._process = subprocess.Popen(
            [python_of(name), HERE / "sdk" / SDKS[name]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin = self._process.stdin
        self._news = threading.Condition()
        self._answers: list[dict[str, Any]] = []
        self._heard: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._failed: dict[str, list[str]] = defaultdict(list)
        self.warnings: list[str] = []
        self._listener = threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True)
        self._listener.start()

    def _listen(self, output: IO[str]) -> None:
        with output:
            for text in output:
                line = json.loads(text)
                with self._news:
                    if "heard" in line:
                        self._heard[line["heard"]].append(line["message"])
                    elif "failed" in line:
                        self._failed[line["failed"]].append(line["text"])
                    elif "warning" in line:
                        self.warnings.append(line["warning"])
                    else:
                        self._answers.append(line)
                    self._news.notify()

    def begin(self, command: str, **arguments: Any) -> None:
        """Tells it to do something, and does not wait."""
        self._stdin.write(json.dumps({"do": command, **arguments}) + "\n")
        self._stdin.flush()

    def end(self) -> Any:
        """What came of the command that was begun. Raises Faulty."""
        with self._news:
            self._wait(lambda: bool(self._answers))
            answer = self._answers.pop(0)
        if "fault" in answer:
            raise Faulty(answer["fault"])
        return answer["done"]

    def do(self, command: str, **arguments: Any) -> Any:
        self.begin(command, **arguments)
        return self.end()

    def heard(self, name: str, count: int = 1) -> list[dict[str, Any]]:
        """The next messages of this subscription."""
        with self._news:
            self._wait(lambda: len(self._heard[name]) >= count)
            messages, self._heard[name] = self._heard[name][:count], self._heard[name][count:]
            return messages

    def heard_by(self, names: Iterable[str], count: int) -> dict[str, list[dict[str, Any]]]:
        """So many messages, whichever of these subscriptions they come to, and what else has come by then."""
        with self._news:
            self._wait(lambda: sum(len(self._heard[name]) for name in names) >= count)
            return {name: self._heard.pop(name, []) for name in names}

    def failed(self, name: str) -> str:
        """The next error that this subscription was told of."""
        with self._news:
            self._wait(lambda: bool(self._failed[name]))
            return self._failed[name].pop(0)

    def _wait(self, holds: Callable[[], bool]) -> None:
        if not self._news.wait_for(holds, SECONDS):
            self._errors.seek(0)
            raise AssertionError(f"nothing came from kubemq {self.name}; its errors:\n{self._errors.read()[-4000:]}")

    def close(self) -> None:
        self._stdin.close()
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._listener.join(SECONDS)
            self._errors.close()
