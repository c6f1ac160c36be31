"""Writing: rows become a Parquet file in memory, which is put in its place whole, and then sealed.

A file is made in memory because it is small there, compressed as it is, and because a disk that is full then costs
nothing: the file is still there when there is room again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fumarole.core.payloads import AHEAD, BEHIND
from fumarole.pipeline.archive import schema
from fumarole.pipeline.archive.places import Root, changes_folder, messages_folder, open_root
from fumarole.pipeline.archive.seals import SUFFIX, Kind, Seal, put_seal
from fumarole.pipeline.errors import ArchiveError, RowError

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

SCHEMAS: dict[Kind, pa.Schema] = {"messages": schema.MESSAGES, "changes": schema.CHANGES}
FOLDERS = {"messages": messages_folder, "changes": changes_folder}
NAME_SUFFIXES: dict[Kind, str] = {"messages": "", "changes": ".changes"}
"""Both kinds count from 0, and the names of all seals must differ."""
HOUR = 3_600_000_000
Rows: TypeAlias = "pa.Table | pd.DataFrame | Iterable[Mapping[str, Any]]"
COUNTED = ("time", "epoch", "sequence", "event_time")
"""Numbers that grow from row to row: differences take a bit or two each."""
DICTIONARIES = {
    "messages": ["topic", "producer", "value", "payload", "recorder", "headers.key_value.key"],
    "changes": ["producer", "key", "kind", "text", "recorder"],
}


def file_name(recorder: str, epoch: int, first: int, kind: Kind) -> str:
    """Never the same twice: an incarnation counts on, and each has another epoch."""
    return f"{recorder}-{epoch}-{first:012d}{NAME_SUFFIXES[kind]}{SUFFIX}"


class FileWriter:
    """One file to be, of one kind and one hour (or day). `add`, then `finish`."""

    def __init__(
        self, namespace: str, kind: Kind, recorder: str, epoch: int, group: str = "", payloads: str = ""
    ) -> None:
        self.namespace = namespace
        self.kind: Kind = kind
        self.recorder = recorder
        self.epoch = epoch
        self.rows = 0
        self.first = 0
        self._buffer = pa.BufferOutputStream()
        self._begin = 0
        self._payloads = payloads
        self._times: list[int] = []
        self._events: list[int] = []
        self._texts: dict[str, list[str]] = {"topic": [], "producer": []}
        self._writer = pq.ParquetWriter(
            self._buffer,
            SCHEMAS[kind].with_metadata(schema.file_metadata(namespace, group, payloads)),
            compression="zstd",
            use_dictionary=DICTIONARIES[kind],
            column_encoding={name: "DELTA_BINARY_PACKED" for name in COUNTED if name in SCHEMAS[kind].names},
            write_statistics=True,
            write_page_checksum=True,
        )

    @property
    def size(self) -> int:
        """Bytes so far, compressed."""
        return int(self._buffer.tell())

    def add(self, table: pa.Table) -> None:
        """Rows, in order of their sequence, as one row group."""
        if not self.rows:
            self.first = table["sequence"][0].as_py()
            self._begin = table["time"][0].cast(pa.int64()).as_py()
        self._times += bounds(table["time"])
        if self.kind == "messages" and table["event_time"].null_count < table.num_rows:
            self._events += bounds(believed(table))
        for name, found in self._texts.items():
            if name in table.column_names:
                found += text_bounds(table[name])
        self._writer.write_table(table.cast(SCHEMAS[self.kind]), row_group_size=max(table.num_rows, 1))
        self.rows += table.num_rows

    def finish(self) -> WholeFile:
        """The file as it will be."""
        self._writer.close()
        data = self._buffer.getvalue()
        folder = FOLDERS[self.kind](self._begin)
        seal = Seal(
            path=f"{folder}/{file_name(self.recorder, self.epoch, self.first, self.kind)}",
            kind=self.kind,
            rows=self.rows,
            first=self.first,
            last=self.first + self.rows - 1,
            bytes=data.size,
            recorder=self.recorder,
            epoch=self.epoch,
            payloads=self._payloads,
            first_time=min(self._times, default=0),
            last_time=max(self._times, default=0),
            first_event=min(self._events, default=0),
            last_event=max(self._events, default=0),
            first_topic=min(self._texts["topic"], default=None),
            last_topic=max(self._texts["topic"], default=None),
            first_producer=min(self._texts["producer"], default=None),
            last_producer=max(self._texts["producer"], default=None),
            sha256=sha256(data).hexdigest(),
        )
        return WholeFile(self.namespace, seal, data)


def bounds(times: pa.Array | pa.ChunkedArray) -> list[int]:
    """The earliest and the latest, in microseconds; none where all are null."""
    found = pc.min_max(times.cast(schema.TIME).cast(pa.int64()))
    return [] if found["min"].as_py() is None else [found["min"].as_py(), found["max"].as_py()]


def text_bounds(texts: pa.Array | pa.ChunkedArray) -> list[str]:
    """The least and the greatest, by their code points; none where all are null."""
    found = pc.min_max(texts)
    return [] if found["min"].as_py() is None else [found["min"].as_py(), found["max"].as_py()]


def believed(rows: pa.Table) -> pa.ChunkedArray:
    """The sensors' times; null where there is none, or it is too far from the recorder's (P7)."""
    late = pc.subtract(rows["time"].cast(pa.int64()), rows["event_time"].cast(pa.int64()))
    right = pc.and_(pc.greater_equal(late, -AHEAD), pc.less_equal(late, BEHIND))
    return pc.if_else(right, rows["event_time"], pa.scalar(None, schema.TIME))


class WholeFile:
    """A file that is complete, in memory, and its seal."""

    def __init__(self, namespace: str, seal: Seal, data: pa.Buffer) -> None:
        self.namespace = namespace
        self.seal = seal
        self.data = data

    def put(self, root: Root) -> None:
        """Puts it into the archive, and seals it. Raises OSError; then it can be tried again."""
        # A store may have kept a part of it when it was tried before.
        if root.size(self.namespace, self.seal.path) != self.seal.bytes:
            root.put(self.namespace, self.seal.path, self.data)
        put_seal(root, self.namespace, self.seal)


def runs(table: pa.Table, kind: Kind) -> list[pa.Table]:
    """The rows cut where the folder changes. Times may also go back: clocks do."""
    if not table.num_rows:
        return []
    folders = _folders(table["time"], kind)
    cuts = [0, *(np.flatnonzero(np.diff(folders)) + 1).tolist(), len(folders)]
    return [table.slice(begin, end - begin) for begin, end in pairwise(cuts)]


def _folders(times: pa.ChunkedArray, kind: Kind) -> npt.NDArray[np.int64]:
    """The hours (or days) that times are in, counted from 1970: before that, down from 0."""
    counted: npt.NDArray[np.int64] = times.cast(schema.TIME).cast(pa.int64()).to_numpy()
    return np.floor_divide(counted, HOUR if kind == "messages" else 24 * HOUR)


def write_rows(
    root: str | os.PathLike[str] | Root,
    namespace: str,
    rows: Rows,
    *,
    kind: Kind = "messages",
    recorder: str = "rows",
    epoch: int = 1,
    first: int = 0,
    group: str = "",
    most_rows: int = 1_000_000,
) -> list[Seal]:
    """Puts rows into an archive, sealed: what a recorder does, for rows that are there already.

    Columns that are left out are null; `recorder`, `epoch` and `sequence` are filled in, the rows ordered by folder.
    Raises ArchiveError where such files are there already, and RowError for a column that an archive does not have or
    whose values are of another type.
    """
    place = open_root(root)
    table = _complete(rows, kind, recorder, epoch, first)
    seals = []
    for part in runs(table, kind):
        for begin in range(0, part.num_rows, most_rows):
            writer = FileWriter(namespace, kind, recorder, epoch, group)
            writer.add(part.slice(begin, most_rows))
            file = writer.finish()
            if place.exists(namespace, file.seal.path):
                raise ArchiveError(
                    f"{place.uri(namespace, file.seal.path)} is there already; give another epoch or first"
                )
            file.put(place)
            seals.append(file.seal)
    return seals


def _complete(rows: Rows, kind: Kind, recorder: str, epoch: int, first: int) -> pa.Table:
    wanted = SCHEMAS[kind]
    open_schema = pa.schema([field.with_nullable(True) for field in wanted])
    table = _table(rows, open_schema)
    _check_columns(table.column_names, wanted)
    if "time" not in table.column_names:
        raise RowError("rows of an archive have a column `time`")
    table = table.take(np.argsort(_folders(table["time"], kind), kind="stable"))
    count = table.num_rows
    filled = {
        "recorder": pa.repeat(pa.scalar(recorder), count),
        "epoch": pa.repeat(pa.scalar(epoch, pa.int64()), count),
        "sequence": pa.array(range(first, first + count), pa.int64()),
    }
    columns = [_column(table, field, filled) for field in wanted]
    try:
        return pa.table(columns, open_schema).cast(wanted)
    except ValueError as error:  # a null where there is none
        raise _unfit(kind, error) from None


def _column(table: pa.Table, field: pa.Field, filled: Mapping[str, pa.Array]) -> pa.Array | pa.ChunkedArray:
    if field.name in filled:
        return filled[field.name]
    if field.name not in table.column_names:
        return pa.nulls(table.num_rows, field.type)
    try:
        return table[field.name].cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _unfit(f"`{field.name}`", error) from None


def _table(rows: Rows, open_schema: pa.Schema) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    try:
        if hasattr(rows, "iloc"):  # of pandas, which is not loaded for the sake of a question
            return pa.Table.from_pandas(rows, preserve_index=False)
        listed = list(rows)
        _check_columns(dict.fromkeys(name for row in listed for name in row), open_schema)
        return pa.Table.from_pylist(listed, open_schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise _unfit("these rows", error) from None


def _unfit(what: str, error: Exception) -> RowError:
    return RowError(f"{what}: not as an archive has it: {str(error).splitlines()[0]}")


def _check_columns(names: Iterable[str], wanted: pa.Schema) -> None:
    unknown = [name for name in names if name not in wanted.names]
    if unknown:
        known = ", ".join(name for name in wanted.names if name not in schema.IDENTITY)
        raise RowError(f"the archive has no column {unknown[0]!r}; it has {known}")
