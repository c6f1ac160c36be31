"""Producers' metadata in one SQLite file. Everything here blocks, and is for one thread.

One row is one producer as it is, its metadata as a JSON object. The file is in WAL mode, and what is committed is on
the disk, not only on the way there. It is locked as long as it is open: SQLite then needs no shared memory beside the
file, so what is there can be read on a full disk too, and a second broker on the same file is noticed.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple

import msgspec

from fumarole.core.errors import FumaroleError
from fumarole.core.query.tree import Value
from fumarole.exchange.namespaces import check_name
from fumarole.exchange.presence import said_by_producer
from fumarole.exchange.readings import check_identity, check_metadata
from fumarole.store.private_file import make_folder, make_private

FILE = "producers.sqlite"
VERSION = 1
LOCKED_SECONDS = 1.0
"""Seconds for which another process may lock the file before it is an error."""
LARGEST_LOG = 64 << 20
"""Bytes. What many changes at once have made of the write-ahead log shrinks to this."""
CACHE = 32 << 20
"""Bytes of the file that are kept in memory, at most."""

# Rows are in the order in which producers appeared, so that many new ones are written side by side.
_TABLE = """
CREATE TABLE IF NOT EXISTS producers (
    namespace TEXT NOT NULL, id TEXT NOT NULL, metadata BLOB NOT NULL, UNIQUE (namespace, id)
)
"""
_SELECT = "SELECT namespace, id, metadata FROM producers"
_PUT = """
INSERT INTO producers (namespace, id, metadata) VALUES {}
ON CONFLICT (namespace, id) DO UPDATE SET metadata = excluded.metadata
"""
_DELETE = "DELETE FROM producers WHERE (namespace, id) IN (VALUES {})"
LOTS = (256, 16, 1)
"""Rows in one statement. While it runs, the event loop runs too; between two they take turns, which can be slow."""

# What every database begins with: the name of the form, the size of a page, and twice, with a log or without.
_HEAD = re.compile(rb"SQLite format 3\0..[\x01\x02]{2}", re.DOTALL)
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_decode = msgspec.json.Decoder(dict[str, str | int | float | bool]).decode


class StoreError(FumaroleError):
    """The file cannot be read or written; the text has the reason, and what to do."""


class Damaged(StoreError):
    """The file is no database, or not a whole one."""


class Gone(StoreError):
    """The file was taken away."""


class Kept(NamedTuple):
    """One producer as the file has it, or is to have it."""

    namespace: str
    identity: str
    metadata: dict[str, Value] | None
    """None: it is forgotten."""


class ProducerStore:
    """The file in this folder. Folder and file are made by the first `write`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.unreadable = 0
        """Rows that made no sense."""
        self._database: sqlite3.Connection | None = None
        self._file = 0, 0

    def read(self, most: int) -> Iterator[list[Kept]]:
        """All that is kept, at most so many at a time. Raises StoreError."""
        try:
            rows = self._open().execute(_SELECT)
            while some := rows.fetchmany(most):
                yield list(self._sensible(some))
        except sqlite3.Error as error:
            raise self._explained(error, "read") from None

    def write(self, changes: Sequence[Kept]) -> None:
        """Not yet for good. Raises StoreError, and then all since the last `commit` is undone."""
        with self._undone_on_error():
            make_folder(self.path.parent)
            database = self._open()
            if not database.in_transaction:
                database.execute("BEGIN IMMEDIATE")
            for lot in _lots([each for each in changes if each.metadata is not None]):
                rows = [
                    (namespace, identity, msgspec.json.encode(said_by_producer(metadata or {})))
                    for namespace, identity, metadata in lot
                ]
                _execute(database, _PUT, rows)
            for lot in _lots([each for each in changes if each.metadata is None]):
                _execute(database, _DELETE, [each[:2] for each in lot])

    def commit(self) -> None:
        """Commits the changes; when it returns they are on the disk. Raises StoreError, and then they are undone."""
        with self._undone_on_error():
            self._open().execute("COMMIT")

    def set_aside(self) -> Path:
        """Gives the file another name, the answer, so that the next write begins a new one. Raises StoreError."""
        self.close()
        time = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        names = (f"producers-damaged-{time}-{number}.sqlite" for number in count(1))
        aside = next(path for path in map(self.path.with_name, names) if not path.exists())
        try:
            # SQLite finds the files beside a database by its name.
            for ending in ("-wal", "-shm", "-journal"):
                beside = self.path.with_name(FILE + ending)
                if beside.exists():
                    beside.rename(aside.with_name(aside.name + ending))
            self.path.rename(aside)
        except OSError as error:
            raise StoreError(f"{self.path} is damaged and cannot be renamed: {error.strerror}") from None
        return aside

    def close(self) -> None:
        """Closes the file, which frees the lock. Committed changes stay."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _open(self) -> sqlite3.Connection:
        database = self._database
        if database is not None:
            if self._identity() != self._file:
                self.close()
                raise Gone(f"{self.path} was removed or replaced while the broker ran")
            return database
        self._check_head()
        self._make_private()
        database = sqlite3.connect(self.path, timeout=LOCKED_SECONDS, isolation_level=None)
        # A row whose text is no UTF-8 must not make other rows unreadable.
        database.text_factory = bytes
        try:
            # The lock first: in this order there is never a file for shared memory.
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute(f"PRAGMA journal_size_limit = {LARGEST_LOG}")
            database.execute(f"PRAGMA cache_size = -{CACHE // 1024}")
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                database.execute("BEGIN IMMEDIATE")
                database.execute(_TABLE)
                database.execute(f"PRAGMA user_version = {VERSION}")
                database.execute("COMMIT")
            elif version != VERSION:
                raise StoreError(f"{self.path} was written by another version of fumarole (form {version})")
        except BaseException:
            database.close()
            raise
        self._file = self._identity()
        self._database = database
        return database

    def _make_private(self) -> None:
        try:
            make_private(self.path)
        except FileNotFoundError:
            return  # there is no folder yet, which SQLite says in its own words
        except OSError as error:
            raise StoreError(f"{self.path} cannot be opened: {error.strerror}") from None

    def _check_head(self) -> None:
        """SQLite itself would remove the log beside a file whose head is damaged, and with it the latest changes."""
        try:
            with self.path.open("rb") as file:
                head = file.read(20)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"{self.path} cannot be opened: {error.strerror}") from None
        if head and not _HEAD.fullmatch(head):
            raise Damaged(f"{self.path} is damaged: it does not begin as a database does")

    @contextmanager
    def _undone_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            if self._database is not None and self._database.in_transaction:
                with suppress(sqlite3.Error):
                    self._database.rollback()
            if isinstance(error, sqlite3.Error):
                raise self._explained(error, "written") from None
            if isinstance(error, OSError):
                raise StoreError(f"cannot make the folder {self.path.parent}: {error.strerror}") from None
            raise

    def _identity(self) -> tuple[int, int]:
        try:
            status = self.path.stat()
        except OSError:
            return 0, 0
        return status.st_dev, status.st_ino

    def _sensible(self, rows: Iterable[tuple[Any, Any, Any]]) -> Iterator[Kept]:
        checked: dict[bytes, str] = {}
        for namespace, identity, raw in rows:
            try:
                if namespace not in checked:
                    check_name(namespace.decode())
                    checked[namespace] = namespace.decode()
                yield Kept(checked[namespace], check_identity(identity.decode()), _metadata(raw))
            except (FumaroleError, msgspec.MsgspecError, ValueError, TypeError, AttributeError):
                self.unreadable += 1

    def _explained(self, error: sqlite3.Error, done: str) -> StoreError:
        # Of an error code the low byte says what, the rest where.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGED:
            return Damaged(f"{self.path} is damaged: {error}")
        if code in _LOCKED:
            return StoreError(f"{self.path} is in use, perhaps by another broker: each needs a data folder of its own")
        return StoreError(f"{self.path} cannot be {done}: {error}")


def _lots(changes: list[Kept]) -> Iterator[list[Kept]]:
    """All of them, in lots of few different sizes: a statement that was used before is ready to be used again."""
    at = 0
    for size in LOTS:
        while at + size <= len(changes):
            yield changes[at : at + size]
            at += size


def _execute(database: sqlite3.Connection, statement: str, rows: Sequence[tuple[str | bytes, ...]]) -> None:
    places = f"({', '.join('?' * len(rows[0]))})"
    database.execute(statement.format(", ".join([places] * len(rows))), [value for row in rows for value in row])


def _metadata(raw: Any) -> dict[str, Value]:
    """Raises MsgspecError, ValueError, TypeError or ReadingError. Keys are few, and each is in memory once."""
    decoded = _decode(raw)
    check_metadata(decoded)
    return {intern(key): value for key, value in decoded.items()}
