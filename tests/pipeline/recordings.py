"""A real recorder in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from fumarole.pipeline.archive import sealed

PATIENCE = 30.0


class Recording:
    """`fumarole record`. What it confirms is in `confirmed` as soon as it says so."""

    def __init__(
        self,
        url: str,
        archive: Path | str,
        *flags: str,
        name: str = "r",
        seconds: float = 0.2,
        stdout: IO[str] | None = None,
    ) -> None:
        """Where it is to say what it confirms elsewhere, on `stdout`, nothing is in `confirmed`."""
        self.archive = archive
        self.confirmed: list[dict[str, Any]] = []
        self.said: list[str] = []
        command = [sys.executable, "-m", "fumarole.cli.main", "record", "--archive", str(archive), "--servers", url]
        command += ["--json", "--name", name, "--roll-seconds", str(seconds), *flags]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("FUMAROLE_")}
        self.process = subprocess.Popen(
            command, stdout=stdout or subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        self._listeners = [
            threading.Thread(target=hear, args=(stream,), daemon=True)
            for hear, stream in ((self._hear_seals, self.process.stdout), (self._hear_words, self.process.stderr))
            if stream is not None
        ]
        for listener in self._listeners:
            listener.start()

    def _hear_seals(self, stream: IO[str]) -> None:
        for line in stream:
            if line.endswith("\n"):  # one that was cut was not confirmed
                self.confirmed.append(json.loads(line))

    def _hear_words(self, stream: IO[str]) -> None:
        self.said.extend(line.rstrip("\n") for line in stream)

    def wait_for(self, text: str) -> None:
        """Until it has said this."""
        self.wait_until(lambda: any(text in line for line in self.said))

    def wait_until(self, holds: Any) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, "\n".join(self.said)
            assert self.process.poll() is None, "\n".join(self.said)
            time.sleep(0.01)

    @property
    def messages(self) -> int:
        """Confirmed ones."""
        return sum(seal["rows"] for seal in self.confirmed if seal["kind"] == "messages")

    @property
    def message_files(self) -> int:
        return sum(seal["kind"] == "messages" for seal in self.confirmed)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Asks it to end. Its exit code."""
        self.process.send_signal(number)
        return self.end()

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> int:
        code = self.process.wait(PATIENCE)
        for listener in self._listeners:
            listener.join(PATIENCE)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code


def rows(archive: Path, kind: str = "messages", namespace: str = "default") -> list[dict[str, Any]]:
    """All rows of an archive, in order of their identity."""
    files = [file.uri for file in sealed(archive, namespace) if file.kind == kind]
    if not files:
        return []
    table = pa.concat_tables([pq.read_table(file, partitioning=None) for file in files])
    found: list[dict[str, Any]] = table.sort_by(
        [("recorder", "ascending"), ("epoch", "ascending"), ("sequence", "ascending")]
    ).to_pylist()
    return found


def said_by(archive: Path, producer: str) -> list[dict[str, Any]]:
    """Of all that the broker knows, and tells when recording begins, what is about this producer."""
    return [row for row in rows(archive, "changes") if row["producer"] == producer]
