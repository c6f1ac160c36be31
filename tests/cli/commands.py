"""The command line as a user has it: processes, their output, their exit codes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

from typer.testing import CliRunner

import fumarole
from fumarole.cli.main import app

SECONDS = 20.0
Process = subprocess.Popen[bytes]


class Ended:
    """What a command left behind."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.out = out
        self.err = err.decode()
        assert "Traceback" not in self.err, self.err

    @property
    def lines(self) -> list[str]:
        return self.out.decode().splitlines()


def run_here(*arguments: str, **variables: str) -> Ended:
    """A command, in this process."""
    result = CliRunner().invoke(app, arguments, env=variables)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ended(result.exit_code, result.stdout.encode(), result.stderr.encode())


class CommandLine:
    """Commands that all use one broker, in a namespace that no other test has."""

    def __init__(self, url: str, namespace: str) -> None:
        self.url = url.replace("://", f"://{namespace}:@")
        self._processes: list[Process] = []

    def environment(self, **more: str) -> dict[str, str]:
        """Without the variables of the user who runs the tests."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FUMAROLE_")}
        return {**kept, "FUMAROLE_SERVERS": self.url, **more}

    def start(
        self, *arguments: str, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE, **variables: str
    ) -> Process:
        process = subprocess.Popen(
            [sys.executable, "-m", "fumarole.cli.main", *arguments],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            env=self.environment(**variables),
        )
        self._processes.append(process)
        return process

    def run(self, *arguments: str, stdin: bytes = b"", **variables: str) -> Ended:
        """Until it has ended."""
        return self.end(self.start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **variables), stdin)

    def run_here(self, *arguments: str, **variables: str) -> Ended:
        """The same without a process of its own: much quicker."""
        return run_here(*arguments, **{"FUMAROLE_SERVERS": self.url, **variables})

    def end(self, process: Process, stdin: bytes = b"") -> Ended:
        """Waits for one that was started."""
        out, err = process.communicate(stdin, timeout=SECONDS)
        return Ended(process.returncode, out or b"", err or b"")

    def interrupt(self, process: Process) -> Ended:
        """Ctrl-C."""
        process.send_signal(signal.SIGINT)
        return self.end(process)

    def wait_for_consumers(self, count: int) -> None:
        """Until so many subscriptions are there; the one of the question itself is not counted."""

        async def wait() -> None:
            async with fumarole.connect(self.url) as client:
                deadline = time.monotonic() + SECONDS
                while (await client.stats())["consumers"] - 1 != count:
                    assert time.monotonic() < deadline
                    await asyncio.sleep(0.02)

        asyncio.run(wait())

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
