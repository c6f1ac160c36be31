"""Deleting all data of one producer from an archive (P11): its messages, and what it said of itself.

A file that has some of it is replaced by one that has the rest. The seal of the new file names the sequences that are
gone, so `verify` reports no hole. The old file is deleted at once, with those that it had replaced. Killed at any
moment, it can be begun again: what is to be deleted is found in the files themselves.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fumarole.pipeline.archive.deletions import DeletedFile, Deletion, deletions, finish, put_deletion
from fumarole.pipeline.archive.places import SEALED, Root
from fumarole.pipeline.archive.schema import completed
from fumarole.pipeline.archive.seals import (
    SEAL_SUFFIX,
    Seal,
    SealedFile,
    check_namespace,
    in_force,
    put_manifest,
    read_seals,
)
from fumarole.pipeline.archive.verifying import Problem, read_whole, sequences_of
from fumarole.pipeline.archive.writing import SCHEMAS, FileWriter
from fumarole.pipeline.jobs.compacting import NAME, DamagedError, alone_in

FORGOTTEN = "_FORGOTTEN"
"""The topic on which the broker names producers that are forgotten."""


class Erased(NamedTuple):
    """What was deleted, or is to be."""

    files: int
    messages: int
    changes: int


def erase(root: Root, producer: str, namespace: str = "default", *, delete: bool = True) -> Erased:
    """Deletes a producer from an archive; without `delete` it only counts.

    Raises ArchiveError, DamagedError for files that cannot be read, and PipelineError where a compaction runs.
    """
    check_namespace(root, namespace)
    epoch = int(datetime.now(UTC).timestamp() * 1_000_000)
    counted = {"messages": 0, "changes": 0}
    files = 0
    with alone_in(root, namespace):
        if delete:
            for earlier in deletions(root, namespace):
                finish(root, namespace, earlier)
        for number, file in enumerate(in_force(root, namespace)):
            if not _may_have(file, producer):
                continue
            rows = _rows(root, namespace, file)
            its = _is_of(rows, producer)
            count = int(pc.sum(its).as_py() or 0)
            if not count:
                continue
            counted[file.kind] += count
            files += 1
            if delete:
                _replace(root, namespace, file, rows, its, epoch + number)
        if delete:
            _clear(root, namespace, producer)
            put_manifest(root, namespace, epoch)
    return Erased(files, counted["messages"], counted["changes"])


def _may_have(file: Seal, producer: str) -> bool:
    """By what its seal says of producers. Messages that the server sent of it have no producer."""
    if file.first_producer is None or file.last_producer is None or file.last_topic is None:
        return True
    if file.first_topic is not None and file.first_topic <= FORGOTTEN <= file.last_topic:
        return True
    return file.first_producer <= producer <= file.last_producer


def _rows(root: Root, namespace: str, file: SealedFile) -> pa.Table:
    data = read_whole(root, namespace, file)
    if isinstance(data, Problem):
        raise DamagedError(
            f"{file.uri} cannot be searched ({data.text}); `fumarole pipeline verify --set-aside` moves it away"
        )
    return completed(pq.ParquetFile(pa.BufferReader(data)).read(), SCHEMAS[file.kind])


def _is_of(rows: pa.Table, producer: str) -> pa.ChunkedArray:
    own = pc.fill_null(pc.equal(rows["producer"], producer), False)
    if "topic" not in rows.column_names:
        return own
    told = pc.and_(pc.equal(rows["topic"], FORGOTTEN), pc.equal(rows["payload"], producer.encode()))
    return pc.or_(pc.or_(own, pc.equal(rows["topic"], f"readings.{producer}")), told)


def _replace(root: Root, namespace: str, file: SealedFile, rows: pa.Table, its: pa.ChunkedArray, epoch: int) -> None:
    gone = (*sequences_of(rows.filter(its)), *file.deleted)
    rest = rows.filter(pc.invert(its))
    old = dict(read_seals(root, namespace))
    names = tuple(dict.fromkeys((file.name, *file.replaces)))
    if not rest.num_rows:
        described = [
            DeletedFile(
                name=name,
                path=old[name].path,
                kind=file.kind,
                rows=old[name].rows,
                sequences=gone if name == file.name else (),
            )
            for name in reversed(names)  # what it replaced goes before it, or it would be in force again
            if name in old
        ]
        deletion = Deletion(at=epoch, why="a producer was deleted", files=tuple(described))
        put_deletion(root, namespace, deletion)
        finish(root, namespace, deletion)
        return
    writer = FileWriter(namespace, file.kind, NAME, epoch, payloads=file.payloads)
    writer.add(rest)
    whole = writer.finish()
    path = f"{PurePosixPath(file.path).parent}/{PurePosixPath(whole.seal.path).name}"
    whole.seal = msgspec.structs.replace(
        whole.seal, path=path, recorder="", first=0, last=0, replaces=names, deleted=gone
    )
    whole.put(root)
    for name in reversed(names):
        if name in old:
            _remove(root, namespace, old[name])


def _clear(root: Root, namespace: str, producer: str) -> None:
    """Deletes files that are replaced already and have data of it, by a compaction or an erasure that was killed."""
    standing = {file.name for file in in_force(root, namespace)}
    for name, seal in dict(read_seals(root, namespace)).items():
        if name in standing or not _may_have(seal, producer):
            continue
        data = read_whole(root, namespace, seal)
        if not isinstance(data, Problem):
            rows = completed(pq.ParquetFile(pa.BufferReader(data)).read(), SCHEMAS[seal.kind])
            if not pc.any(_is_of(rows, producer)).as_py():
                continue
        _remove(root, namespace, seal)


def _remove(root: Root, namespace: str, seal: Seal) -> None:
    root.remove(namespace, seal.path)
    root.remove(namespace, SEALED, seal.name + SEAL_SUFFIX)
