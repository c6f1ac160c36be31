"""From captured columns to sealed files, in a thread of its own, so that the event loop never waits for a disk.

    columns ─▶ backlog ─▶ tables, numbered ─▶ row group of many rows ─▶ file in memory ─▶ disk, sealed
               bounded      sequence            262,144 or 16 MiB         32 MiB or 30 s

A disk that is full stops this thread at the last step; it tries again every second. What arrives meanwhile waits in the
backlog, and when that is full it is lost, but counted and numbered: the hole in the sequence tells of it for ever.
That changes were lost with it no hole tells; `reconciling.py` puts that right.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fumarole.client.capture import Columns
from fumarole.core.limits import MIB
from fumarole.core.payloads import Payloads
from fumarole.pipeline.archive.places import Root
from fumarole.pipeline.archive.seals import Kind, Seal
from fumarole.pipeline.archive.writing import SCHEMAS, FileWriter, WholeFile, runs
from fumarole.pipeline.declared import declare
from fumarole.pipeline.rows import change_table, count_of, message_table

GROUP_ROWS = 262_144
GROUP_BYTES = 16 * MIB
MOST_BACKLOG = 64 * MIB
RETRY_SECONDS = 1.0
TICK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Rolling:
    """When a file is finished: at so many bytes, compressed, or so many seconds after its first row."""

    size: int = 32 * MIB
    seconds: float = 30.0


@dataclass(slots=True)
class RecorderProgress:
    """What a recorder has done so far."""

    captured: int = 0
    """Messages."""
    confirmed: int = 0
    """Of these, safely on disk."""
    lost: int = 0
    """Of these, thrown away because the disk took nothing for too long."""
    files: int = 0
    size: int = 0
    """Bytes of them."""
    unfit: int = 0
    """Messages whose payload is not as declared (P6). They are recorded like all others."""
    fault: str = ""
    """Why the disk takes nothing at the moment; empty: it does."""


@dataclass(slots=True)
class _Stream:
    """Rows of one kind on their way into files."""

    kind: Kind
    sequence: int = 0
    waiting: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    file: FileWriter | None = None
    folder: int = 0
    deadline: float = 0.0


class Writer:
    """`start`, then `add` from the event loop, at last `finish`."""

    def __init__(
        self,
        root: Root,
        namespace: str,
        recorder: str,
        epoch: int,
        group: str,
        rolling: Rolling,
        on_seal: Callable[[Seal], None],
        leaves_out: str = "",
        payloads: Payloads | None = None,
    ) -> None:
        """Of messages on a topic that is left out, only the changes are written."""
        self.progress = RecorderProgress()
        self._root = root
        self._namespace = namespace
        self._recorder = recorder
        self._epoch = epoch
        self._group = group
        self._rolling = rolling
        self._on_seal = on_seal
        self._leaves_out = leaves_out
        self._payloads = payloads or Payloads()
        self._streams: dict[Kind, _Stream] = {"messages": _Stream("messages"), "changes": _Stream("changes")}
        self._backlog: deque[Columns | pa.Table | int] = deque()
        self._backlog_size = 0
        self._changed = threading.Condition()
        self._finishing = threading.Event()
        self._patience = 0.0
        self._thread = threading.Thread(target=self._run, name="archive", daemon=True)
        self._error: BaseException | None = None

    # What the event loop calls.

    @property
    def backlog(self) -> int:
        """Messages that are not yet confirmed."""
        progress = self.progress
        return progress.captured - progress.confirmed - progress.lost

    @property
    def is_full(self) -> bool:
        return self._backlog_size >= MOST_BACKLOG

    @property
    def is_stuck(self) -> bool:
        """The disk takes nothing, and no more can wait."""
        return self.is_full and bool(self.progress.fault)

    def start(self) -> None:
        """To be called before anything is captured: pyarrow loads pandas with the first array that it makes."""
        pa.array([None])
        self._thread.start()

    def add(self, columns: Columns) -> None:
        """Captured messages. Where the disk takes nothing and no more can wait, they are lost."""
        rows = columns.rows - self._left_out(columns)
        self.progress.captured += rows
        if not self.is_stuck:
            self._put(columns, columns.size)
        elif rows:
            self.progress.lost += rows
            self._put(rows, 0)

    def add_changes(self, table: pa.Table) -> bool:
        """Changes of metadata that no message brought. False: they cannot wait, and were not taken."""
        if self.is_stuck:
            return False
        self._put(table, table.nbytes)
        return True

    def check(self) -> None:
        """Raises what ended the thread, if something did."""
        if self._error is not None:
            raise self._error

    def finish(self, patience: float) -> None:
        """Writes what waits and ends. Where the disk takes nothing it is tried for so many seconds. Blocks."""
        with self._changed:
            self._patience = patience
            self._finishing.set()
            self._changed.notify()
        self._thread.join()
        self.check()

    def _put(self, item: Columns | pa.Table | int, size: int) -> None:
        with self._changed:
            if self._backlog and isinstance(item, int) and isinstance(self._backlog[-1], int):
                self._backlog[-1] += item
            else:
                self._backlog.append(item)
            self._backlog_size += size
            self._changed.notify()

    # The thread.

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except BaseException as error:  # noqa: BLE001 (it is raised in the thread that waits for this one)
            self._error = error

    def _step(self) -> bool:
        with self._changed:
            if not self._backlog and not self._finishing.is_set():
                self._changed.wait(TICK_SECONDS)
            item = self._backlog.popleft() if self._backlog else None
            ending = self._finishing.is_set() and item is None
        if isinstance(item, int):
            self._skip(item)
        elif isinstance(item, Columns):
            table = message_table(item)
            changes = change_table(table) if item.metadata_rows else None
            if self._left_out(item):
                table = table.filter(pc.not_equal(table["topic"], self._leaves_out))
            table, unfit = declare(table, self._payloads)
            self.progress.unfit += unfit
            self._take(self._streams["messages"], table)
            if changes is not None:
                self._take(self._streams["changes"], changes)
            self._release(item.size)
        elif item is not None:
            self._take(self._streams["changes"], item)
            self._release(item.nbytes)
        now = time.monotonic()
        for stream in self._streams.values():
            if ending or (stream.deadline and now >= stream.deadline):
                self._roll(stream)
        return not ending

    def _left_out(self, columns: Columns) -> int:
        return count_of(columns, self._leaves_out) if self._leaves_out else 0

    def _release(self, size: int) -> None:
        with self._changed:
            self._backlog_size -= size

    def _skip(self, rows: int) -> None:
        """These were lost. What follows is in another file, because the sequences of a file have no hole."""
        stream = self._streams["messages"]
        self._roll(stream)
        stream.sequence += rows

    def _take(self, stream: _Stream, table: pa.Table) -> None:
        for run in runs(table, stream.kind):
            folder = run["time"][0].as_py().timestamp() // (3_600 if stream.kind == "messages" else 86_400)
            if stream.folder != folder:
                self._roll(stream)
                stream.folder = int(folder)
            stream.waiting.append(self._numbered(stream, run))
            stream.rows += run.num_rows
            stream.size += run.nbytes
            stream.deadline = stream.deadline or time.monotonic() + self._rolling.seconds
            if stream.rows >= GROUP_ROWS or stream.size >= min(GROUP_BYTES, self._rolling.size):
                self._write_group(stream)
                if stream.file is not None and stream.file.size >= self._rolling.size:
                    self._roll(stream)

    def _numbered(self, stream: _Stream, table: pa.Table) -> pa.Table:
        count = table.num_rows
        identity = [
            pa.repeat(pa.scalar(self._recorder), count),
            pa.repeat(pa.scalar(self._epoch, pa.int64()), count),
            pa.array(np.arange(stream.sequence, stream.sequence + count, dtype=np.int64)),
        ]
        stream.sequence += count
        return pa.table([*table.columns, *identity], SCHEMAS[stream.kind])

    def _write_group(self, stream: _Stream) -> None:
        if stream.waiting:
            if stream.file is None:
                digest = self._payloads.digest if stream.kind == "messages" else ""
                stream.file = FileWriter(self._namespace, stream.kind, self._recorder, self._epoch, self._group, digest)
            stream.file.add(pa.concat_tables(stream.waiting))
            stream.waiting, stream.rows, stream.size = [], 0, 0

    def _roll(self, stream: _Stream) -> None:
        self._write_group(stream)
        stream.deadline = 0.0
        if stream.file is not None:
            whole = stream.file.finish()
            stream.file = None
            self._put_whole(whole)

    def _put_whole(self, whole: WholeFile) -> None:
        progress = self.progress
        give_up_at = 0.0
        while True:
            try:
                whole.put(self._root)
            except OSError as error:
                progress.fault = error.strerror or str(error)
                if self._finishing.wait(RETRY_SECONDS):
                    give_up_at = give_up_at or time.monotonic() + self._patience
                    if time.monotonic() >= give_up_at:
                        raise
                    time.sleep(RETRY_SECONDS / 10)
            else:
                break
        progress.fault = ""
        progress.files += 1
        progress.size += whole.seal.bytes
        if whole.seal.kind == "messages":
            progress.confirmed += whole.seal.rows
        self._on_seal(whole.seal)
