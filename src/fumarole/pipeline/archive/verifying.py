"""Verification: is everything there that the seals say, as they say it, without holes? And what to do with the rest.

damaged    a sealed file that is cut short, broken inside, or has other rows than its seal says
unreadable a sealed file that the file system does not give, so that it is unknown whether it is whole
missing    a sealed file that is not there
unsealed   a file with no seal: foreign, or left behind by a recorder that was killed in that moment
no seal    a file among the seals that is none
hole       sequences of an incarnation that no file has: messages that were lost
doubled    sequences of an incarnation that two files in force have

What was deleted on purpose is no problem: `archive.deletions` has its sequences.

Recorders and compactions may go on meanwhile. They put a file in its place before they seal it, so files are listed
before seals are read; and one that is young and has a name of theirs may still be sealed.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import chain, count, pairwise
from typing import Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fumarole.pipeline.archive.deletions import deleted_files
from fumarole.pipeline.archive.places import ASIDE, CHANGES_FOLDER, SEALED, WRITING, Root, open_root
from fumarole.pipeline.archive.schema import IDENTITY, NAMESPACE_KEY, SINCE_VERSION, VERSION, VERSION_KEY
from fumarole.pipeline.archive.seals import (
    SEAL_SUFFIX,
    SUFFIX,
    Kind,
    Seal,
    SealedFile,
    check_namespace,
    in_force,
    put_seal,
    read_seal,
    read_seals,
)
from fumarole.pipeline.archive.writing import SCHEMAS

Fault = Literal["damaged", "unreadable", "missing", "unsealed", "no seal", "hole", "doubled"]
MOVED: Final[set[Fault]] = {"damaged", "missing", "unsealed", "no seal"}
"""Faults of a file, or of its seal, that can be set aside."""
SOON: Final = timedelta(minutes=1)
"""So long after it was put in its place a file may have to wait for its seal."""
Spans = dict[tuple[Kind, str, int], list[tuple[int, int]]]
"""First and last sequences, by incarnation."""
_NAME = re.compile(r"(?P<recorder>.+)-(?P<epoch>[0-9]+)-(?P<first>[0-9]{12,})(?P<changes>\.changes)?\.parquet")


class Problem(NamedTuple):
    """Something that is not as it should be."""

    fault: Fault
    path: str
    """Relative to the namespace; of holes and what is doubled, the incarnation."""
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def verify(root: str | os.PathLike[str] | Root, namespace: str) -> list[Problem]:
    """All problems of a namespace. Reads every file to its end. Raises ArchiveError, and OSError from its store."""
    place = open_root(root)
    check_namespace(place, namespace)
    problems: list[Problem] = []
    spans: Spans = defaultdict(list)
    for file in in_force(place, namespace):
        data = read_whole(place, namespace, file)
        if isinstance(data, Problem):
            problems.append(data)
            continue
        for recorder, epoch, first, last in sequences(file, data):
            spans[file.kind, recorder, epoch].append((first, last))
        for recorder, epoch, first, last in file.deleted:
            spans[file.kind, recorder, epoch].append((first, last))
    gone = deleted_files(place, namespace)
    for deleted in gone:
        for recorder, epoch, first, last in deleted.sequences:
            spans[deleted.kind, recorder, epoch].append((first, last))
    going = {deleted.path for deleted in gone}  # the next deletion finishes those that are there still
    strays = [problem for problem in _strays(place, namespace) if problem.path not in going]
    return [*problems, *strays, *_holes_and_doubles(spans)]


def set_aside(root: str | os.PathLike[str] | Root, namespace: str, problems: list[Problem]) -> list[str]:
    """Takes files that are damaged or foreign out of the archive, to `_aside`; nothing is deleted. What was moved."""
    place = open_root(root)
    moved = []
    for problem in problems:
        if problem.fault not in MOVED:
            continue
        name = problem.path.rpartition("/")[2]
        seal = f"{SEALED}/{name.removesuffix(SUFFIX)}{SEAL_SUFFIX}"
        paths = [seal, problem.path]  # the seal first: from then on no job reads the file
        if problem.fault == "unsealed" and (found := read_seal(place, f"{namespace}/{seal}")) is not None:
            if found.path == problem.path:
                continue  # it was sealed since
            paths = [problem.path]  # the seal is of another file of this name
        for path in dict.fromkeys(paths):
            if place.exists(namespace, path):
                place.move(f"{namespace}/{path}", _free_place(place, f"{namespace}/{ASIDE}/{path}"))
                moved.append(path)
    return moved


def _free_place(root: Root, path: str) -> str:
    """This path; or, where something was set aside there before, the same with a number."""
    paths = chain([path], (f"{path}~{number}" for number in count(2)))
    return next(each for each in paths if not root.exists(each))


class Recovered(NamedTuple):
    """What a recorder found of its earlier incarnations."""

    sealed: list[Seal]
    """Whole files that only wanted their seal."""
    removed: list[str]
    """What was never finished."""
    epoch: int
    """The latest of them; 0: there was none."""


def recover(root: Root, namespace: str, recorder: str) -> Recovered:
    """Puts right what a recorder of this name left behind when it was killed. It must not be running."""
    removed = []
    for path, _ in list(root.files(namespace, WRITING)):
        name = path.rpartition("/")[2]
        if _is_of(name.removesuffix(SEAL_SUFFIX).removesuffix(SUFFIX) + SUFFIX, recorder):
            root.remove(path)
            removed.append(path)
    seals = dict(read_seals(root, namespace))
    latest = max((seal.epoch for seal in seals.values() if seal.recorder == recorder), default=0)
    found = []
    for path in files_in_place(root, namespace):
        name = path.rpartition("/")[2]
        if name.removesuffix(SUFFIX) in seals or not _is_of(name, recorder):
            continue
        seal = _seal_for(root, namespace, path)
        if seal is None:
            set_aside(root, namespace, [Problem("unsealed", path, "")])
            removed.append(path)
        else:
            put_seal(root, namespace, seal)
            found.append(seal)
            latest = max(latest, seal.epoch)
    return Recovered(found, removed, latest)


def _is_of(name: str, recorder: str) -> bool:
    found = _NAME.fullmatch(name)
    return found is not None and found["recorder"] == recorder


def _seal_for(root: Root, namespace: str, path: str) -> Seal | None:
    """The seal of a file that has none; None: it is not whole."""
    found = _NAME.fullmatch(path.rpartition("/")[2])
    footer = _footer_at(root, namespace, path)
    if found is None or isinstance(footer, str) or not footer.num_rows:
        return None
    kind: Kind = "changes" if found["changes"] else "messages"
    first = int(found["first"])
    seal = Seal(
        path=path,
        kind=kind,
        rows=footer.num_rows,
        first=first,
        last=first + footer.num_rows - 1,
        bytes=root.size(namespace, path) or 0,
        recorder=found["recorder"],
        epoch=int(found["epoch"]),
    )
    return seal if _mismatch(footer, seal, namespace) is None else None


def read_whole(root: Root, namespace: str, file: Seal) -> pa.Buffer | Problem:
    """All bytes of a sealed file that is whole; else what is wrong with it."""
    try:
        data = pa.py_buffer(root.read(namespace, file.path))
    except FileNotFoundError:
        return Problem("missing", file.path, "its seal is there, the file is not")
    except OSError as error:
        return Problem("unreadable", file.path, f"the file system does not give it: {_line(error)}")
    if data.size != file.bytes:
        return Problem("damaged", file.path, f"it has {data.size:,} bytes, sealed were {file.bytes:,}")
    footer = _footer(pa.BufferReader(data))
    wrong = footer if isinstance(footer, str) else _mismatch(footer, file, namespace) or _fault_inside(data, file)
    return data if wrong is None else Problem("damaged", file.path, wrong)


def _fault_inside(data: pa.Buffer, file: Seal) -> str | None:
    """Are these the bytes that were sealed? Where the seal does not say, every row is read."""
    if file.sha256:
        return None if sha256(data).hexdigest() == file.sha256 else "it has other bytes than were sealed"
    try:
        for _ in pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).iter_batches():
            pass
    except (pa.ArrowException, OSError) as error:
        return f"it cannot be read to its end ({_line(error)})"
    return None


def _footer_at(root: Root, namespace: str, path: str) -> pq.FileMetaData | str:
    try:
        with root.system.open_input_file(root.at(namespace, path)) as stream:
            return _footer(stream)
    except OSError as error:
        return f"it cannot be read: {_line(error)}"


def _footer(stream: pa.NativeFile) -> pq.FileMetaData | str:
    try:
        return pq.ParquetFile(stream).metadata
    except (pa.ArrowException, OSError, ValueError) as error:
        return f"it cannot be read as Parquet: {_line(error)}"


def _line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "it did not say why")


def _mismatch(footer: pq.FileMetaData, seal: Seal, namespace: str) -> str | None:
    said = footer.metadata or {}
    version = said.get(VERSION_KEY, b"")
    if not version.isdigit() or not 1 <= int(version) <= VERSION:
        return f"it says it is of version {version.decode(errors='replace') or 'none'} of the archive"
    if said.get(NAMESPACE_KEY, namespace.encode()) != namespace.encode():
        return f"it is of the namespace {said[NAMESPACE_KEY].decode(errors='replace')}"
    if footer.num_rows != seal.rows:
        return f"it has {footer.num_rows:,} rows, sealed were {seal.rows:,}"
    columns = {field.name: field for field in footer.schema.to_arrow_schema()}
    wanted = {field.name: field for field in SCHEMAS[seal.kind] if int(version) >= SINCE_VERSION.get(field.name, 1)}
    if missing := wanted.keys() - columns:
        return f"it has no column {', '.join(sorted(missing))}"
    others = [name for name, field in wanted.items() if columns[name] != field]
    return f"it has another type in the column {', '.join(others)}" if others else None


def _strays(root: Root, namespace: str) -> Iterator[Problem]:
    files = files_in_place(root, namespace)
    sealed = {seal.path for _, seal in read_seals(root, namespace)}
    for path in files:
        if path not in sealed and _stays_unsealed(root, namespace, path):
            yield Problem("unsealed", path, "it has no seal, so it is not part of the archive")
    for path, _ in root.files(namespace, SEALED):
        relative = path.removeprefix(f"{namespace}/")
        is_seal = relative.endswith(SEAL_SUFFIX) and read_seal(root, path) is not None
        if not is_seal and root.exists(path):
            yield Problem("no seal", relative, "it is no seal")


def files_in_place(root: Root, namespace: str) -> list[str]:
    """Sealed or not, the files in the folders of messages and changes, relative to the namespace."""
    return [
        path.removeprefix(f"{namespace}/")
        for folder in root.folders(namespace)
        if not folder.startswith("_") or folder == CHANGES_FOLDER
        for path, _ in root.files(namespace, folder, recursive=True)
        if not path.rpartition("/")[2].startswith(("_", "."))
    ]


def _stays_unsealed(root: Root, namespace: str, path: str) -> bool:
    """Is the file still there, and will no process seal it in a moment?"""
    if not _NAME.fullmatch(path.rpartition("/")[2]):
        return root.exists(namespace, path)
    written = root.written_at(namespace, path)
    return written is not None and written < datetime.now(UTC) - SOON


def _holes_and_doubles(spans: Spans) -> Iterator[Problem]:
    for (kind, recorder, epoch), ranges in sorted(spans.items()):
        expected = 0
        for first, last in sorted(ranges):
            if first > expected:
                lost = f"{kind} {expected:,} to {first - 1:,} are missing ({first - expected:,})"
                yield Problem("hole", f"{recorder}-{epoch}", lost)
            elif first < expected:
                end = min(last + 1, expected)
                twice = f"{kind} {first:,} to {end - 1:,} are there twice ({end - first:,})"
                yield Problem("doubled", f"{recorder}-{epoch}", twice)
            expected = max(expected, last + 1)


def sequences(file: SealedFile, data: pa.Buffer) -> Iterator[tuple[str, int, int, int]]:
    """The sequences in a file, by incarnation."""
    if file.recorder and not file.replaces:
        yield file.recorder, file.epoch, file.first, file.last
        return
    yield from sequences_of(pq.ParquetFile(pa.BufferReader(data)).read(columns=list(IDENTITY)))


def sequences_of(rows: pa.Table) -> Iterator[tuple[str, int, int, int]]:
    """Those of these rows: recorder, epoch, first, last."""
    if not rows.num_rows:
        return
    recorders = rows["recorder"].combine_chunks().dictionary_encode()
    codes, epochs, sequences = (column.to_numpy() for column in (recorders.indices, rows["epoch"], rows["sequence"]))
    cuts = np.flatnonzero((np.diff(codes) != 0) | (np.diff(epochs) != 0) | (np.diff(sequences) != 1)) + 1
    for begin, end in pairwise(sorted({0, *cuts.tolist(), len(sequences)})):
        yield recorders[begin].as_py(), int(epochs[begin]), int(sequences[begin]), int(sequences[end - 1])
