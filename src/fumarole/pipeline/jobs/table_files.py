"""Deleting rows from a standing job's output: by age, or those of one producer (P11). No Spark is needed.

The job's own folders first: what is left of a folder becomes a new one, in a batch that takes nothing in. Files that
stay whole are linked, or copied where the store has no links. Then the Delta tables follow, and can be made to follow
again if the process is killed in between: what is to be deleted is found in the tables themselves.
"""

from __future__ import annotations

import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fumarole.pipeline.archive.places import Root
from fumarole.pipeline.delta import LOG as DELTA_LOG
from fumarole.pipeline.delta import Published
from fumarole.pipeline.jobs.expiring import RAW
from fumarole.pipeline.jobs.log import Entry, Folder, Job, JobError, Log, State

OUTPUT_JOB: Final = "fumarole pipeline run"
"""By which a table knows which batches it has."""
DELETIONS: Final = "fumarole expire"
READINGS: Final = "readings"
_DATE: Final = re.compile(r"(?:^|/)date=(\d{4}-\d\d-\d\d)/")
Rows = Callable[[str], pa.Table | None]
"""What is left of a file, given its path; None: all of it."""


def expire_tables(
    log: Log, state: State, keep: Mapping[str, timedelta | None], now: datetime, *, delete: bool = True
) -> dict[str, int]:
    """Deletes the dates of each table that are older than its tier is kept; how many files of each. Raises JobError.

    Without `delete` it only counts. The job must not be running elsewhere.
    """
    bounds = _bounds(_job(log), keep, now)
    found = {name: len(_old_files(log, state, name, bound)) for name, bound in bounds.items()}
    if not delete:
        return found
    old = {path for name, bound in bounds.items() for path in _old_files(log, state, name, bound)}
    if old:
        _drop(log, state, lambda path: _nothing() if path in old else None)
    _follow(log, state)
    for name, bound in bounds.items():
        table = Published.existing(log.root, _delta_name(name)) if name != READINGS else None
        if table is not None:
            gone = [path for path in table.files() if _is_before(path, bound)]
            if gone:
                table.commit(DELETIONS, _moment(), (), gone)
    return found


def erase_from_tables(log: Log, state: State, producer: str, *, delete: bool = True) -> dict[str, int]:
    """Deletes the rows of a producer from all tables, and the bytes; how many rows of each. Raises JobError."""
    _job(log)
    found: dict[str, int] = {}
    left: dict[str, pa.Table] = {}
    for folder in state.folders.values():
        for path in _data(log.root, folder.path):
            rows = _count(log.root, path, producer)
            found[folder.table] = found.get(folder.table, 0) + rows
            if rows and delete:
                left[path] = _without(log.root, path, producer)
    if not delete:
        return found
    if left:
        _drop(log, state, left.get)
    _follow(log, state)
    for name in log.root.folders():
        if name != READINGS and log.root.exists(name, DELTA_LOG):
            _erase_from_table(log, name, producer)
    log.sweep(state, datetime.now(UTC), timedelta(0))
    return found


def _erase_from_table(log: Log, name: str, producer: str) -> None:
    root = log.root
    table = Published.existing(root, name)
    if table is None or "producer" not in table.columns():
        return
    gone, made = [], []
    folder = f"files-{uuid.uuid4().hex[:16]}"
    for path in sorted(table.files()):
        if not _count(root, f"{name}/{path}", producer):
            continue
        gone.append(path)
        rows = _without(root, f"{name}/{path}", producer)
        if rows.num_rows:
            made.append(f"{folder}/{_layout(path)}{_new_name()}")
            _write(root, f"{name}/{made[-1]}", rows)
    if made:
        log.sync([f"{name}/{folder}"])
    if gone:
        table.commit(DELETIONS, _moment(), made, gone)
    table.vacuum(timedelta(0))


def _drop(log: Log, state: State, left: Rows) -> None:
    """A batch of what is left of the folders in which something is deleted."""
    made: list[Folder] = []
    replaced: list[str] = []
    for folder in list(state.folders.values()):
        kept = {path: left(path) for path in _data(log.root, folder.path)}
        if all(rows is None for rows in kept.values()):
            continue
        replaced.append(folder.path)
        name = f"batch-{state.number + 1:012d}-{uuid.uuid4().hex[:12]}"
        rows = 0
        for path, rest in kept.items():
            target = f"{folder.table}/{name}/{path.removeprefix(folder.path + '/')}"
            if rest is None:
                _link(log.root, path, target)
                rows += _footer(log.root, path).num_rows
            elif rest.num_rows:
                _write(log.root, f"{target.rpartition('/')[0]}/{_new_name()}", rest)
                rows += rest.num_rows
        if rows:
            made.append(Folder(table=folder.table, name=name, rows=rows, first=folder.first, last=folder.last))
    entry = Entry(
        number=state.number + 1,
        seals=(),
        folders=tuple(made),
        replaces=tuple(replaced),
        newest=state.newest,
        drops=True,
    )
    log.sync(each.path for each in made)
    log.commit(entry)
    state.add(entry)


def _follow(log: Log, state: State) -> None:
    """The Delta table of readings has the files that are in force; the others, that the batch took nothing in."""
    readings = Published.existing(log.root, READINGS)
    if readings is None:
        return
    want = {path.removeprefix(f"{READINGS}/") for each in state.of(READINGS) for path in _data(log.root, each.path)}
    have = readings.files()
    readings.commit(OUTPUT_JOB, state.number, sorted(want - have), sorted(have - want))
    for name in log.root.folders():
        table = Published.existing(log.root, name) if name.startswith("rollup_") else None
        if table is not None and table.version_of(OUTPUT_JOB) == state.number - 1:
            table.commit(OUTPUT_JOB, state.number, ())


def _bounds(job: Job, keep: Mapping[str, timedelta | None], now: datetime) -> dict[str, date]:
    """The first date that is kept, for each of the job's own tables. Raises JobError for windows that it has not."""
    check_tiers(keep, job.windows)
    return {
        READINGS if tier == RAW else f"rollup-{tier}": (now - length).date()
        for tier, length in keep.items()
        if length is not None
    }


def check_tiers(keep: Iterable[str], windows: Sequence[str]) -> None:
    """Raises JobError for a tier that a job with these windows has not."""
    unknown = [tier for tier in keep if tier != RAW and tier not in windows]
    if unknown:
        raise JobError(f"this job has no windows of {unknown[0]}, but of {', '.join(windows)}")


def _old_files(log: Log, state: State, table: str, bound: date) -> list[str]:
    return [path for each in state.of(table) for path in _data(log.root, each.path) if _is_before(path, bound)]


def _is_before(path: str, bound: date) -> bool:
    found = _DATE.search(path)
    return found is not None and date.fromisoformat(found[1]) < bound


def _job(log: Log) -> Job:
    job = log.job()
    if job is None:
        raise JobError(f"there is no output of a job at {log.root.name}")
    return job


def _delta_name(table: str) -> str:
    return table.replace("rollup-", "rollup_", 1)


def _layout(path: str) -> str:
    """The folders of a file that say its date and hour."""
    return "".join(f"{part}/" for part in path.split("/")[:-1] if "=" in part and not part.startswith("batch="))


def _data(root: Root, folder: str) -> list[str]:
    """The Parquet files in a folder, by path."""
    found = [path for path, _ in root.files(folder, recursive=True)]
    return [path for path in found if path.endswith(".parquet") and not path.rpartition("/")[2].startswith(("_", "."))]


def _count(root: Root, path: str, producer: str) -> int:
    with root.system.open_input_file(root.at(path)) as stream:
        file = pq.ParquetFile(stream)
        if "producer" not in file.schema_arrow.names:
            return 0
        return int(pc.sum(pc.equal(file.read(columns=["producer"])["producer"], producer)).as_py() or 0)


def _without(root: Root, path: str, producer: str) -> pa.Table:
    with root.system.open_input_file(root.at(path)) as stream:
        rows = pq.ParquetFile(stream).read()
    return rows.filter(pc.fill_null(pc.not_equal(rows["producer"], producer), True))


def _write(root: Root, path: str, rows: pa.Table) -> None:
    root.system.create_dir(root.at(path).rpartition("/")[0], recursive=True)
    pq.write_table(rows, root.at(path), filesystem=root.system, compression="zstd", write_page_checksum=True)


def _link(root: Root, source: str, target: str) -> None:
    if root.is_local:
        Path(root.at(target)).parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(root.at(source), root.at(target))
        except OSError:  # a file system without links
            shutil.copyfile(root.at(source), root.at(target))
    else:
        root.system.create_dir(root.at(target).rpartition("/")[0], recursive=True)
        root.system.copy_file(root.at(source), root.at(target))


def _footer(root: Root, path: str) -> pq.FileMetaData:
    with root.system.open_input_file(root.at(path)) as stream:
        return pq.ParquetFile(stream).metadata


def _nothing() -> pa.Table:
    return pa.table({})


def _new_name() -> str:
    return f"part-{uuid.uuid4().hex}.parquet"


def _moment() -> int:
    return int(time.time() * 1_000_000)
