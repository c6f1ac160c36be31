"""Environments with nothing in them but what was installed from dist, and the programs in them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
SECONDS = 60.0


def built(pattern: str) -> Path:
    """The one file in dist of this name."""
    found = sorted(DIST.glob(pattern))
    assert len(found) == 1, f"{pattern} in {DIST}: found {[file.name for file in found]}; `make dist` makes it"
    return found[0]


class Environment:
    """A virtual environment. Its programs see no compiler, no variables and no packages of this one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)

    def install(self, *requirements: str) -> None:
        """By uv, which is quicker; where it finds no way to the packages, by pip."""
        by_uv = [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", str(self.bin / "python")]
        if subprocess.run([*by_uv, *requirements], check=False, capture_output=True).returncode:
            self.pip(*requirements)

    def pip(self, *requirements: str) -> None:
        command = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install", "-q", *requirements]
        ended = subprocess.run(command, check=False, capture_output=True, text=True, env=self.variables(os.environ))
        assert ended.returncode == 0, ended.stderr

    def variables(self, kept: os._Environ[str] | dict[str, str]) -> dict[str, str]:
        """These without those of Fumarole and Python, and with no program to be found but those of the environment."""
        ours = ("FUMAROLE_", "PYTHON", "VIRTUAL_ENV", "CC")
        return {name: text for name, text in kept.items() if not name.startswith(ours)} | {"PATH": str(self.bin)}

    def packages(self) -> set[str]:
        """The names of the distributions in it."""
        code = "from importlib.metadata import distributions as d; print(*{each.name.lower() for each in d()})"
        return set(self.run("python", "-I", "-c", code).stdout.split())

    def run(self, program: str, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [str(self.bin / program), *arguments]
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=SECONDS, env=self.variables(os.environ)
        )
        assert ended.returncode == code, ended.stderr
        assert "Traceback" not in ended.stderr
        return ended

    @contextmanager
    def running(self, *arguments: str, folder: Path) -> Iterator[Running]:
        """`fumarole …`, with a ready file, until the end of the block."""
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "log").open("w+") as log:
            process = Running([str(self.bin / "fumarole"), *arguments], folder, log, self.variables(os.environ))
            try:
                yield process
                process.send_signal(signal.SIGTERM)
                assert process.wait(SECONDS) == 0, process.said()
            finally:
                process.kill()
                process.wait()


class Running(subprocess.Popen[bytes]):
    """A program that says in a file when it is ready, and what its addresses are."""

    def __init__(self, command: Sequence[str], folder: Path, log: IO[str], variables: dict[str, str]) -> None:
        self._log = Path(log.name)
        ready = folder / "ready"
        super().__init__([*command, "--ready-file", str(ready)], stderr=log, cwd=folder, env=variables)
        deadline = time.monotonic() + SECONDS
        while not ready.exists():
            assert self.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.01)
        self.addresses = dict(line.split("://") for line in ready.read_text().split())

    def said(self) -> str:
        """Its log so far."""
        return self._log.read_text()

    @property
    def url(self) -> str:
        return f"nats://{self.addresses['nats']}"
