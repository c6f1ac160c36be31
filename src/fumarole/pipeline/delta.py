"""Delta tables over Parquet files that something else wrote: Spark, or a recorder (P10).

Spark writes the files; delta-rs writes the log of the table, so no jar is needed. A commit names the files that are
added and removed, and the batch that it is of: `Transaction(job, N)`. A table that has batch N is not given it again,
so a batch may be repeated after a crash, and counts once.

Everything here is about names of files. No row is read but the footers of the files that are added.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from fumarole.core.packages import need
from fumarole.pipeline.archive.places import NO_HOUR, Root

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

LOG: Final = "_delta_log"
CHECKPOINT_EVERY: Final = 20
"""Commits. A reader reads the last checkpoint and what came after it."""
HOUR: Final = "hour"
"""Written with two digits in the names of folders; a number in the table."""
KEPT: Final = timedelta(hours=1)
"""How long removed files stay, for readers that still use them."""
CONFIGURATION: Final = {
    "delta.checkpointInterval": str(CHECKPOINT_EVERY),
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}


class Published:
    """One Delta table, in a folder of the root."""

    def __init__(
        self, root: Root, folder: str, schema: str, partition_by: tuple[str, ...], description: str = ""
    ) -> None:
        """`schema` is JSON, as Spark and Delta write it, with the columns by which it is partitioned."""
        need("pipeline", "deltalake")
        self.root = root
        self.folder = folder
        self._schema = schema
        self._partition_by = partition_by
        self._description = description

    @classmethod
    def existing(cls, root: Root, folder: str) -> Published | None:
        """A table that is there already, with its own columns and layout; None: there is none."""
        found = cls(root, folder, "", ())
        table = found._open()
        if table is None:
            return None
        found._schema = str(table.schema().to_json())
        found._partition_by = tuple(table.metadata().partition_columns)
        return found

    def version_of(self, job: str) -> int | None:
        """The last batch of this job that the table has; None: it has none."""
        table = self._open()
        return None if table is None else table.transaction_version(job)

    def columns(self) -> list[str]:
        """Of the table as it is; none where it is not there."""
        table = self._open()
        return [] if table is None else [field.name for field in table.schema().fields]

    def files(self) -> set[str]:
        """The files that the table has now, relative to its folder."""
        table = self._open()
        if table is None:
            return set()
        return {unquote(path) for path in pa.table(table.get_add_actions()).column("path").to_pylist()}

    def commit(
        self, job: str, number: int, add: Iterable[str], remove: Iterable[str] = (), *, same_rows: bool = False
    ) -> bool:
        """Batch `number` of this job: these files, relative to the folder, are added and those removed, at once.

        A table that has the batch stays as it is: then it is False. With `same_rows` the files have the rows of others,
        arranged in another way.
        """
        from deltalake import CommitProperties, PostCommitHookProperties, Transaction

        properties = CommitProperties(app_transactions=[Transaction(job, number, int(time.time() * 1000))])
        table = self._open() or self._create()
        done = table.transaction_version(job)
        if done is not None and done >= number:
            return False
        self._write(
            table, properties, PostCommitHookProperties(create_checkpoint=True), list(add), list(remove), same_rows
        )
        return True

    def vacuum(self, kept: timedelta = KEPT) -> int:
        """Deletes files that were removed longer ago than that. Says how many."""
        table = self._open()
        if table is None:
            return 0
        hours = int(kept.total_seconds() // 3600)
        return len(table.vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False, full=True))

    def _write(
        self,
        table: DeltaTable,
        properties: CommitProperties,
        after: Any,
        add: list[str],
        remove: list[str],
        same_rows: bool,
    ) -> None:
        from deltalake import Schema
        from deltalake.transaction import AddAction, RemoveAction

        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(path, size, self._values(path), now, not same_rows, stats)
            for path, size, stats in map(self._described, add)
        ]
        actions += [RemoveAction(path, not same_rows, now) for path in remove]
        table.create_write_transaction(
            actions,
            mode="append",
            schema=Schema.from_json(self._schema),
            partition_by=list(self._partition_by),
            commit_properties=properties,
            post_commithook_properties=after,
        )

    def _described(self, path: str) -> tuple[str, int, str]:
        """A file, its bytes, and what Delta is told of its rows."""
        with self.root.system.open_input_file(self.root.at(self.folder, path)) as stream:
            return path, stream.size(), json.dumps(statistics(pq.ParquetFile(stream).metadata))

    def _values(self, path: str) -> dict[str, str | None]:
        """The columns by which the table is laid out, as the file's folder says."""
        found = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
        return {name: _value(name, unquote(found[name])) for name in self._partition_by}

    def _open(self) -> DeltaTable | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return DeltaTable(self.root.uri(self.folder), storage_options=dict(self.root.options))
        except TableNotFoundError:
            return None

    def _create(self) -> DeltaTable:
        from deltalake import DeltaTable, Schema

        return DeltaTable.create(
            self.root.uri(self.folder),
            schema=Schema.from_json(self._schema),
            partition_by=list(self._partition_by),
            name=self.folder.rpartition("/")[2],
            description=self._description,
            configuration=CONFIGURATION,
            mode="ignore",
            storage_options=dict(self.root.options),
        )


def _value(name: str, text: str) -> str | None:
    if text == NO_HOUR:
        return None
    return str(int(text)) if name == HOUR else text


def statistics(footer: pq.FileMetaData) -> dict[str, Any]:
    """How many rows a file has, and its first and last times, by which readers pass over files.

    Times are given to the millisecond, as Delta wants them: the first rounded down, the last up.
    """
    least: dict[str, str] = {}
    most: dict[str, str] = {}
    for name, times in _times(footer).items():
        least[name] = _milliseconds(min(times))
        most[name] = _milliseconds(max(times) + timedelta(microseconds=999))
    return {"numRecords": footer.num_rows, "minValues": least, "maxValues": most}


def _times(footer: pq.FileMetaData) -> Mapping[str, list[datetime]]:
    found: dict[str, list[datetime]] = {}
    unknown = set()
    for group in range(footer.num_row_groups):
        for index in range(footer.num_columns):
            column = footer.row_group(group).column(index)
            statistics = column.statistics
            if "." in column.path_in_schema:
                continue
            if statistics is None or not statistics.has_min_max or statistics.null_count:
                unknown.add(column.path_in_schema)
            elif isinstance(statistics.min, datetime):
                found.setdefault(column.path_in_schema, []).extend((_utc(statistics.min), _utc(statistics.max)))
    return {name: times for name, times in found.items() if name not in unknown}


def _utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _milliseconds(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}Z"
