"""Retained messages on disk (F1): one SQLite file beside that of the producers, written behind the event loop.

Topics whose message changed are noted by their namespace as `unsaved`. Twice a second these are written, a slice at a
time, by one thread. A topic is taken off the list when it has been written and has not changed meanwhile; so a write
that fails needs nothing undone, and is tried again. A file that is damaged is set aside, and a new one is begun.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from fumarole.core.errors import FumaroleError
from fumarole.core.topic import check_topic
from fumarole.exchange.namespaces import Namespaces
from fumarole.exchange.retained import Kept
from fumarole.store.private_file import make_folder, make_private

log = logging.getLogger(__name__)

FILE: Final = "retained.sqlite"
VERSION: Final = 1
SECONDS: Final = 0.5
SLICE: Final = 500
_TABLE = """
CREATE TABLE IF NOT EXISTS retained (
    namespace TEXT NOT NULL, topic TEXT NOT NULL, time INTEGER NOT NULL, node TEXT NOT NULL,
    payload BLOB NOT NULL, headers BLOB NOT NULL, UNIQUE (namespace, topic)
)
"""
_PUT = "INSERT OR REPLACE INTO retained (namespace, topic, time, node, payload, headers) VALUES (?, ?, ?, ?, ?, ?)"
_DELETE = "DELETE FROM retained WHERE namespace = ? AND topic = ?"
_SELECT = "SELECT namespace, topic, time, node, payload, headers FROM retained"

Answer = TypeVar("Answer")
Changes = Sequence[tuple[str, Kept | None]]
"""Topics, and what is kept of each; None: nothing any more."""


class RetainedStore:
    """The file in this folder, made by the first write. Everything here blocks, and is for one thread."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._database: sqlite3.Connection | None = None

    def read(self) -> Iterator[list[tuple[str, Kept]]]:
        """All that is kept, by namespace, some at a time. Raises sqlite3.Error."""
        if not self.path.exists():
            return
        rows = self._open().execute(_SELECT)
        while some := rows.fetchmany(SLICE):
            yield [
                (namespace, Kept(topic, time, node, payload, block))
                for namespace, topic, time, node, payload, block in some
            ]

    def write(self, namespace: str, changes: Changes) -> None:
        """On the disk when this returns. Raises sqlite3.Error or OSError, and then nothing has changed."""
        with self._open() as database:
            database.executemany(
                _PUT,
                [
                    (namespace, topic, kept.time, kept.node, kept.payload, kept.headers)
                    for topic, kept in changes
                    if kept
                ],
            )
            database.executemany(_DELETE, [(namespace, topic) for topic, kept in changes if kept is None])

    def set_aside(self) -> Path:
        """Gives the file another name, so that the next write begins a new one. Raises OSError."""
        self.close()
        time = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
        aside = self.path.with_name(f"retained-damaged-{time}.sqlite")
        for ending in ("-wal", "-shm"):
            beside = self.path.with_name(FILE + ending)
            if beside.exists():
                beside.rename(aside.with_name(aside.name + ending))
        self.path.rename(aside)
        return aside

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            make_folder(self.path.parent)
            make_private(self.path)
            database = sqlite3.connect(self.path, timeout=1.0)
            try:
                database.execute("PRAGMA locking_mode = EXCLUSIVE")
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = FULL")
                database.execute(_TABLE)
                database.execute(f"PRAGMA user_version = {VERSION}")
                database.commit()
            except BaseException:
                database.close()
                raise
            self._database = database
        return self._database


class RetainedKeeper:
    """`load`, then `start`, in the end `close`. None of them fails: without the disk the broker goes on in memory."""

    def __init__(self, folder: Path, namespaces: Namespaces, warn: Callable[..., None]) -> None:
        self._namespaces = namespaces
        self._warn = warn
        self._store = RetainedStore(folder)
        self._thread = ThreadPoolExecutor(1, "retained")
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def load(self) -> int:
        """Loads every stored message. Returns their number."""
        loaded = 0
        try:
            slices = self._store.read()
            while (some := await self._in_thread(partial(next, slices, None))) is not None:
                loaded += sum([self._restore(namespace, kept) for namespace, kept in some])
        except sqlite3.Error as error:
            await self._set_aside(error)
        return loaded

    def _restore(self, namespace: str, kept: Kept) -> bool:
        """False: there is no such namespace any more, or no such topic there; that stays on disk only."""
        try:
            exchange = self._namespaces.open(namespace)
            check_topic(kept.topic, exchange.grammar)
        except (FumaroleError, TypeError, AttributeError):
            return False
        exchange.retained.restore(kept)
        return True

    async def _set_aside(self, why: Exception) -> None:
        try:
            aside = await self._in_thread(self._store.set_aside)
        except OSError as error:
            self._warn("retained messages cannot be read (%s), nor the file renamed: %s", why, error)
            return
        self._warn("retained messages cannot be read: %s. The file is now %s, and a new one is begun", why, aside)
        for exchange in self._namespaces:
            exchange.retained.unsaved.update(dict.fromkeys(exchange.retained.topics()))

    def start(self) -> None:
        """From now on, what changes is written."""
        self._task = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SECONDS):
                    await self._stopping.wait()
            await self.save()

    async def save(self) -> bool:
        """Writes all that is unsaved now. False: it could not be, and is tried again."""
        try:
            for exchange in list(self._namespaces):
                retained = exchange.retained
                topics = list(retained.unsaved)
                for begin in range(0, len(topics), SLICE):
                    changes = [(topic, retained.get(topic)) for topic in topics[begin : begin + SLICE]]
                    await self._in_thread(partial(self._store.write, exchange.name, changes))
                    for topic, kept in changes:
                        if retained.get(topic) is kept:
                            retained.unsaved.pop(topic, None)
                if topics:
                    self._namespaces.release(exchange)
        except (sqlite3.Error, OSError) as error:
            self._warn("retained messages are in memory only, until they can be written again: %s", error)
            return False
        return True

    async def close(self) -> None:
        """Writes what is unsaved, and lets go of the file."""
        self._stopping.set()
        if self._task is not None:
            await self._task
            self._task = None
            await self.save()
        await self._in_thread(self._store.close)
        self._thread.shutdown()

    async def _in_thread(self, work: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
