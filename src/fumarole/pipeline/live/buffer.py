"""The replay buffer: live rows on disk, by offset, until Spark has committed them.

A live message comes once. Spark may ask for the same rows again, after a failure or a restart, and must get exactly
these. So rows are numbered when they are written here, and only what is here is ever offered to Spark.

    1767225600000000-65536.arrow      65,536 rows, from this offset on
    1767225600065536-1200.arrow       the 1,200 rows that follow
    trimmed.json                      there is nothing before this offset: it was committed, or the buffer began here

A new buffer begins at the time it is made, in microseconds since 1970, and not at 0: so one that was deleted and begun
anew is ahead of every checkpoint of the old one, and cannot be taken for it, however many rows it gets.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import pyarrow as pa

from fumarole.client.capture import microseconds
from fumarole.pipeline.archive.places import sync_folder
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.locks import take

TRIMMED = "trimmed.json"
LOCK = "lock"
LOCK_SECONDS = 15.0
"""A query that is started again may find the one before it still ending."""
_NAME = re.compile(r"([0-9]{16,})-([0-9]+)\.arrow")


class BufferError(PipelineError):
    """A buffer that is in use, or has not what was asked of it."""


class Part(NamedTuple):
    """Rows of one file: from which of its rows on, and how many."""

    path: str
    begin: int
    rows: int
    offset: int
    """Of the first of them."""


class _File(NamedTuple):
    path: Path
    rows: int
    size: int


class Buffer:
    """One reader's rows. Only one process has it open for writing; `read` needs nothing but the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[int, _File] = {}
        """By first offset, in order."""
        self._changing = threading.Lock()
        """One thread appends, another one trims."""
        self._appending = threading.Lock()
        """Held for as long as rows are being written: no other process may number them meanwhile."""
        self._trimmed = 0
        self._done = 0
        self._lock: IO[bytes] | None = None

    def open(self) -> None:
        """Takes it, with all that is there. Raises BufferError where another process has it."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A link that another user has put there may lead to any folder of this user.
        if {self.folder.lstat().st_uid, self.folder.stat().st_uid} != {os.getuid()}:
            raise BufferError(
                f"the replay buffer {self.folder} is another user's; choose a folder by the option `buffer`"
            )
        deadline = time.monotonic() + LOCK_SECONDS
        while (lock := take(self.folder / LOCK)) is None:
            if time.monotonic() >= deadline:
                raise BufferError(
                    f"another query uses the replay buffer {self.folder}; "
                    'give each a folder of its own: .option("buffer", …)'
                )
            time.sleep(0.1)
        self._lock = lock
        self._trimmed = self._read_trimmed()
        found = {}
        for path in self.folder.iterdir():
            if name := _NAME.fullmatch(path.name):
                found[int(name[1])] = _File(path, int(name[2]), path.stat().st_size)
            elif path.suffix == ".part":
                path.unlink()
        self._files = dict(sorted(found.items()))
        self.trim(self._trimmed if self._trimmed or self._files else microseconds())

    def close(self) -> None:
        """Rows that are being written are waited for; none comes afterwards, because the numbers are another's then."""
        with self._appending:
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    @property
    def first(self) -> int:
        """The first offset that is there."""
        with self._changing:
            return max(self._trimmed, next(iter(self._files), self._trimmed))

    @property
    def end(self) -> int:
        """The offset of the row that comes next."""
        with self._changing:
            if not self._files:
                return self._trimmed
            last = next(reversed(self._files))
            return max(self._trimmed, last + self._files[last].rows)

    @property
    def waiting(self) -> int:
        """Bytes on disk of the rows that are not `done`."""
        with self._changing:
            return sum(file.size for first, file in self._files.items() if first + file.rows > self._done)

    def append(self, rows: pa.Table) -> None:
        """More rows, on disk when this returns. Raises BufferError where it is closed."""
        with self._appending:
            if self._lock is None:
                raise BufferError(f"the replay buffer {self.folder} is closed, and takes no more rows")
            self._append(rows)

    def _append(self, rows: pa.Table) -> None:
        first, count = self.end, rows.num_rows
        path = self.folder / f"{first:016d}-{count}.arrow"
        aside = path.with_suffix(".part")
        with aside.open("wb") as file:
            with pa.ipc.new_file(file, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
                writer.write_table(rows, max_chunksize=65_536)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        aside.rename(path)
        sync_folder(self.folder)
        with self._changing:
            self._files[first] = _File(path, count, size)

    def parts(self, start: int, end: int) -> list[Part]:
        """Where the rows of a range are. Raises BufferError where they are not all there."""
        found = []
        at = start
        with self._changing:
            files = list(self._files.items())
        for first, file in files:
            if first <= at < min(first + file.rows, end):
                rows = min(first + file.rows, end) - at
                found.append(Part(str(file.path), at - first, rows, at))
                at += rows
        if at != end:
            raise self._lost(start, end)
        return found

    def check(self, start: int) -> None:
        """Raises BufferError where a query that goes on from this offset would miss rows: it is not its buffer."""
        if not self.first <= start <= self.end:
            raise self._lost(start, start)

    def _lost(self, start: int, end: int) -> BufferError:
        return BufferError(
            f"the replay buffer {self.folder} has rows {self.first:,} to {self.end:,}, and the checkpoint asks for "
            f"{start:,} to {end:,}. It is another's buffer, or was deleted, and a live message comes only once: "
            "begin with a new checkpoint"
        )

    def done(self, end: int) -> None:
        """Rows before this offset are dealt with. They stay until they are trimmed, and take no room from others.

        Spark says that a batch will not be asked for again when it has planned the next. If its rows took room, a
        buffer that they fill would get no others, and there would be no next batch.
        """
        self._done = max(self._done, end)

    def trim(self, end: int) -> None:
        """Rows before this offset will not be asked for again."""
        if end > self._trimmed:
            aside = self.folder / f"{TRIMMED}.part"
            with aside.open("w") as file:
                json.dump({"offset": end}, file)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(self.folder / TRIMMED)
            sync_folder(self.folder)  # before any row goes: offsets never begin anew
        with self._changing:
            self._trimmed = max(self._trimmed, end)
            gone = [first for first, file in self._files.items() if first + file.rows <= end]
            for first in gone:
                self._files.pop(first).path.unlink(missing_ok=True)

    def _read_trimmed(self) -> int:
        try:
            return int(json.loads((self.folder / TRIMMED).read_text())["offset"])
        except FileNotFoundError:
            return 0


def read(parts: list[Part]) -> Iterator[pa.RecordBatch]:
    """The rows of parts, in order. Works wherever the files can be reached."""
    for part in parts:
        with pa.memory_map(part.path) as file:
            rows = pa.ipc.open_file(file).read_all().slice(part.begin, part.rows)
            yield from rows.to_batches()
