"""Compaction: small files become large ones, beside recorders and readers that go on.

The new file is put in its place, and its seal says which it replaces: with that one file the old ones are out of force
and the new one is in it. The old ones stay where they are for a time of grace, because a job may be reading them;
the next compaction after that deletes them, if the new one can be read to its end. Killed at any moment, it leaves a
file without a seal at most, which is no part of the archive, and which the next compaction deletes.

Hours in which little came, of a day that ended some time ago, become one file for the day.

A file is joined only if it has the bytes that were sealed: afterwards the damage could not be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from fumarole.core.limits import MIB
from fumarole.pipeline.archive.places import ASIDE, SEALED, WRITING, Root, day_folder, span
from fumarole.pipeline.archive.schema import completed
from fumarole.pipeline.archive.seals import SEAL_SUFFIX, SealedFile, check_namespace, in_force, put_manifest, read_seals
from fumarole.pipeline.archive.verifying import Problem, files_in_place, read_whole
from fumarole.pipeline.archive.writing import SCHEMAS, FileWriter
from fumarole.pipeline.errors import ArchiveError, PipelineError
from fumarole.pipeline.locks import take

TARGET: Final = 128 << 20
GRACE: Final = timedelta(hours=1)
HOURS: Final = 24
NAME: Final = "compacted~"
"""No recorder can be called so."""
LOCK: Final = "_compacting.lock"
MIXED: Final = "mixed"
"""In place of a digest: rows that were recorded by different declarations of payloads."""
ROW_GROUP: Final = 262_144
ROW_GROUP_BYTES: Final = 64 * MIB
"""A reader has all of a row group in memory, large payloads too."""


class CompactingError(PipelineError):
    """A compaction, or a deletion, is at work on the same archive."""


class DamagedError(ArchiveError):
    """Files that are not whole. They and those that would have been joined with them stay as they are."""


class Compacted(NamedTuple):
    """One step of a compaction."""

    path: str
    files: int
    rows: int
    before: int
    after: int
    """Bytes."""


def compact(
    root: Root,
    namespace: str = "default",
    now: datetime | None = None,
    target: int = TARGET,
    settled: timedelta = timedelta(minutes=10),
    days_after: timedelta | None = None,
) -> Iterator[Compacted]:
    """Makes files of about `target` bytes of each hour's small ones, of hours that ended `settled` ago.

    With `days_after`, the quiet hours of each day that ended so long ago become one file. In the end all seals are
    summed up in a manifest, where something has changed. Raises ArchiveError, PipelineError where another compaction
    runs, and, when all else is done, DamagedError.
    """
    check_namespace(root, namespace)
    moment = now or datetime.now(UTC)
    epoch = int(moment.timestamp() * 1_000_000)
    damaged = []
    with alone_in(root, namespace):
        _clear(root, namespace)
        began = epoch
        for day in [] if days_after is None else _quiet_days(root, namespace, moment - days_after, target):
            try:
                yield _merge(root, namespace, day, epoch, day_folder)
            except DamagedError as error:
                damaged.append(str(error))
            epoch += 1
        for folder, files in groupby(
            in_force(root, namespace), lambda file: (file.kind, str(PurePosixPath(file.path).parent))
        ):
            small = [file for file in files if file.bytes < target // 2]
            if _ended(folder[1], moment - settled):
                for together in _portions(small, target):
                    try:
                        yield _merge(root, namespace, together, epoch)
                    except DamagedError as error:
                        damaged.append(str(error))
                    epoch += 1  # names never repeat
        if epoch > began:
            put_manifest(root, namespace, began)
    if damaged:
        raise DamagedError(
            f"{'; '.join(damaged)}; `fumarole pipeline verify --set-aside` takes what is damaged out of the archive"
        )


def _quiet_days(root: Root, namespace: str, moment: datetime, target: int) -> list[list[SealedFile]]:
    """The files of each day's quiet hours, where there are two or more, of days that had ended by then.

    An hour is quiet if a day of such hours is not more than one file.
    """
    days: dict[str, dict[str, list[SealedFile]]] = {}
    for file in in_force(root, namespace):
        folder = PurePosixPath(file.path).parent
        if file.kind == "messages" and _ended(str(folder.parent), moment):
            days.setdefault(str(folder.parent), {}).setdefault(folder.name, []).append(file)
    found = []
    for hours in days.values():
        quiet = [files for files in hours.values() if sum(file.bytes for file in files) * HOURS <= target]
        if len(quiet) > 1:
            found.append([file for files in quiet for file in files])
    return found


def sweep(root: Root, namespace: str = "default", now: datetime | None = None, grace: timedelta = GRACE) -> int:
    """Deletes files that were replaced longer ago than the time of grace, by one that is whole; says how many.

    Raises PipelineError where a compaction runs.
    """
    moment = now or datetime.now(UTC)
    swept = 0
    with alone_in(root, namespace):
        seals = dict(read_seals(root, namespace))
        for name, seal in list(seals.items()):
            old = [each for each in seal.replaces if each in seals]
            if not old or not _sealed_before(root, namespace, name, moment - grace):
                continue
            if isinstance(read_whole(root, namespace, seal), Problem):
                continue  # what it was made of is all that there is
            for replaced in old:
                root.remove(namespace, seals.pop(replaced).path)
                root.remove(namespace, SEALED, replaced + SEAL_SUFFIX)
            swept += len(old)
    return swept


def _sealed_before(root: Root, namespace: str, name: str, moment: datetime) -> bool:
    at = root.written_at(namespace, SEALED, name + SEAL_SUFFIX)
    return at is not None and at <= moment


@contextmanager
def alone_in(root: Root, namespace: str) -> Iterator[None]:
    """Two at once would each make files of the same small ones, and every message would be there twice.

    Where the file system is not local there is no lock.
    """
    if not root.is_local:
        yield
        return
    lock = take(Path(root.at(namespace, LOCK)))
    if lock is None:
        raise CompactingError(f"a compaction of {root.uri(namespace)} runs already; only one can at a time")
    with lock:
        yield


def _clear(root: Root, namespace: str) -> None:
    """Deletes what killed compactions left: files that were never sealed, so what they were made of is in force.

    Where there is no lock, another compaction may be about to seal them.
    """
    if not root.is_local:
        return
    # A seal that was set aside, or is none any more, is one too: its file may be all that there is of its rows.
    seals = {path for folder in (SEALED, ASIDE) for path, _ in root.files(namespace, folder, recursive=True)}
    sealed = {PurePosixPath(path).name.partition(SEAL_SUFFIX)[0] for path in seals}
    in_place = (f"{namespace}/{path}" for path in files_in_place(root, namespace))
    left = [path for path, _ in root.files(namespace, WRITING)]
    left += [path for path in in_place if PurePosixPath(path).stem not in sealed]
    for path in left:
        if PurePosixPath(path).name.startswith(NAME):
            root.remove(path)


def _portions(files: Iterable[SealedFile], target: int) -> Iterator[list[SealedFile]]:
    portion: list[SealedFile] = []
    size = 0
    for file in files:
        if portion and size + file.bytes > target:
            if len(portion) > 1:
                yield portion
            portion, size = [], 0
        portion.append(file)
        size += file.bytes
    if len(portion) > 1:
        yield portion


def _merge(
    root: Root, namespace: str, files: list[SealedFile], epoch: int, folder: Callable[[int], str] | None = None
) -> Compacted:
    """One file of these: in the folder that its rows were in, also where a clock went back, or in that of `folder`."""
    kind = files[0].kind
    payloads = {file.payloads for file in files}
    writer = FileWriter(namespace, kind, NAME, epoch, payloads=payloads.pop() if len(payloads) == 1 else MIXED)
    for table in _tables(root, namespace, files):
        writer.add(table)
    whole = writer.finish()
    place = str(PurePosixPath(files[0].path).parent) if folder is None else folder(whole.seal.first_time)
    path = f"{place}/{PurePosixPath(whole.seal.path).name}"
    # All of them, also those that were replaced by these before: so a seal needs no other to be understood, and it does
    # not matter in which order the old ones are deleted.
    names = tuple(dict.fromkeys(name for file in files for name in (file.name, *file.replaces)))
    deleted = tuple(each for file in files for each in file.deleted)
    whole.seal = msgspec.structs.replace(
        whole.seal, path=path, recorder="", first=0, last=0, replaces=names, deleted=deleted
    )
    whole.put(root)
    return Compacted(path, len(files), whole.seal.rows, sum(file.bytes for file in files), whole.seal.bytes)


def _tables(root: Root, namespace: str, files: list[SealedFile]) -> Iterator[pa.Table]:
    """All rows, in groups that are neither tiny nor huge."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for group in _groups(root, namespace, files):
        waiting.append(group)
        rows, size = rows + group.num_rows, size + group.nbytes
        if rows >= ROW_GROUP or size >= ROW_GROUP_BYTES:
            yield pa.concat_tables(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_tables(waiting)


def _groups(root: Root, namespace: str, files: list[SealedFile]) -> Iterator[pa.Table]:
    for file in files:
        data = read_whole(root, namespace, file)
        if isinstance(data, Problem):
            raise DamagedError(f"{file.uri} cannot be joined ({data.text})")
        source = pq.ParquetFile(pa.BufferReader(data))
        for number in range(source.num_row_groups):
            yield completed(source.read_row_group(number), SCHEMAS[file.kind])


def _ended(path: str, moment: datetime) -> bool:
    times = span(f"{path}/")
    return times is None or times[1] <= moment
