"""Verification: is everything there that the seals say, as they say it, without holes? And what to do with the rest.

damaged    a sealed file that cannot be read, is cut short, or has other rows than its seal says
missing    a sealed file that is not there
unsealed   a file with no seal: foreign, or left behind by a recorder that was killed in that moment
no seal    a file among the seals that is none
hole       sequences of an incarnation that no file has: messages that were lost
doubled    sequences of an incarnation that two files in force have
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from fumarole.pipeline.archive.places import ASIDE, CHANGES_FOLDER, SEALED, WRITING, Root, open_root
from fumarole.pipeline.archive.schema import IDENTITY, NAMESPACE_KEY, VERSION, VERSION_KEY
from fumarole.pipeline.archive.seals import (
    SEAL_SUFFIX,
    SUFFIX,
    Kind,
    Seal,
    SealedFile,
    check_namespace,
    in_force,
    parse_seal,
    put_seal,
    read_seals,
)
from fumarole.pipeline.archive.writing import SCHEMAS

Fault = Literal["damaged", "missing", "unsealed", "no seal", "hole", "doubled"]
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
    """All problems of a namespace. Reads the footer of every file, and sequences where files were joined."""
    place = open_root(root)
    check_namespace(place, namespace)
    files = in_force(place, namespace)
    problems = [problem for file in files if (problem := problem_of(place, namespace, file)) is not None]
    unfit = {problem.path for problem in problems}
    problems += _strays(place, namespace)
    problems += _holes_and_doubles(place, namespace, [file for file in files if file.path not in unfit])
    return problems


def set_aside(root: str | os.PathLike[str] | Root, namespace: str, problems: list[Problem]) -> list[str]:
    """Takes files that are damaged or foreign out of the archive, to `_aside`; nothing is deleted. What was moved."""
    place = open_root(root)
    moved = []
    for problem in problems:
        if problem.fault in {"hole", "doubled"}:  # of no file in particular
            continue
        name = problem.path.rpartition("/")[2]
        seal = f"{SEALED}/{name.removesuffix(SUFFIX)}{SEAL_SUFFIX}"
        # The seal first: from then on nobody reads the file.
        for path in dict.fromkeys((seal, problem.path)):
            if place.exists(namespace, path):
                place.move(f"{namespace}/{path}", f"{namespace}/{ASIDE}/{path.rpartition('/')[2]}")
                moved.append(path)
    return moved


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
        if name.startswith(f"{recorder}-") and _is_of(name.replace(SEAL_SUFFIX, SUFFIX), recorder):
            root.remove(path)
            removed.append(path)
    seals = dict(read_seals(root, namespace))
    latest = max((seal.epoch for seal in seals.values() if seal.recorder == recorder), default=0)
    found = []
    for path in _unsealed(root, namespace, set(seals)):
        name = path.rpartition("/")[2]
        if not _is_of(name, recorder):
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
    footer = _footer(root, namespace, path)
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


def problem_of(root: Root, namespace: str, file: Seal) -> Problem | None:
    """What is wrong with a sealed file, as its length and its footer tell; None: nothing."""
    size = root.size(namespace, file.path)
    if size is None:
        return Problem("missing", file.path, "its seal is there, the file is not")
    if size != file.bytes:
        return Problem("damaged", file.path, f"it has {size:,} bytes, sealed were {file.bytes:,}")
    footer = _footer(root, namespace, file.path)
    wrong = footer if isinstance(footer, str) else _mismatch(footer, file, namespace)
    return None if wrong is None else Problem("damaged", file.path, wrong)


def _footer(root: Root, namespace: str, path: str) -> pq.FileMetaData | str:
    try:
        with root.system.open_input_file(root.at(namespace, path)) as stream:
            return pq.ParquetFile(stream).metadata
    except (pa.ArrowException, OSError, ValueError) as error:
        return f"it cannot be read as Parquet: {str(error).splitlines()[0]}"


def _mismatch(footer: pq.FileMetaData, seal: Seal, namespace: str) -> str | None:
    said = footer.metadata or {}
    version = said.get(VERSION_KEY, b"")
    if not version.isdigit() or not 1 <= int(version) <= VERSION:
        return f"it says it is of version {version.decode(errors='replace') or 'none'} of the archive"
    if said.get(NAMESPACE_KEY, namespace.encode()) != namespace.encode():
        return f"it is of the namespace {said[NAMESPACE_KEY].decode(errors='replace')}"
    if footer.num_rows != seal.rows:
        return f"it has {footer.num_rows:,} rows, sealed were {seal.rows:,}"
    missing = set(SCHEMAS[seal.kind].names) - set(footer.schema.to_arrow_schema().names)
    return f"it has no column {', '.join(sorted(missing))}" if missing else None


def _strays(root: Root, namespace: str) -> Iterator[Problem]:
    for path in _unsealed(root, namespace, {name for name, _ in read_seals(root, namespace)}):
        yield Problem("unsealed", path, "it has no seal, so it is not part of the archive")
    for path, _ in root.files(namespace, SEALED):
        relative = path.removeprefix(f"{namespace}/")
        if not relative.endswith(SEAL_SUFFIX) or parse_seal(root.read(path), path) is None:
            yield Problem("no seal", relative, "it is no seal")


def _unsealed(root: Root, namespace: str, sealed: set[str]) -> Iterator[str]:
    """Files in the folders of messages and changes that no seal names, relative to the namespace."""
    for folder in root.folders(namespace):
        if folder.startswith("_") and folder != CHANGES_FOLDER:
            continue
        for path, _ in root.files(namespace, folder, recursive=True):
            name = path.rpartition("/")[2]
            if not name.startswith(("_", ".")) and name.removesuffix(SUFFIX) not in sealed:
                yield path.removeprefix(f"{namespace}/")


def _holes_and_doubles(root: Root, namespace: str, files: list[SealedFile]) -> Iterator[Problem]:
    ranges: dict[tuple[Kind, str, int], list[tuple[int, int]]] = defaultdict(list)
    for file in files:
        for recorder, epoch, first, last in _ranges(root, namespace, file):
            ranges[file.kind, recorder, epoch].append((first, last))
    for (kind, recorder, epoch), spans in sorted(ranges.items()):
        expected = 0
        for first, last in sorted(spans):
            if first > expected:
                lost = f"{kind} {expected:,} to {first - 1:,} are missing ({first - expected:,})"
                yield Problem("hole", f"{recorder}-{epoch}", lost)
            elif first < expected:
                end = min(last + 1, expected)
                twice = f"{kind} {first:,} to {end - 1:,} are there twice ({end - first:,})"
                yield Problem("doubled", f"{recorder}-{epoch}", twice)
            expected = max(expected, last + 1)


def _ranges(root: Root, namespace: str, file: SealedFile) -> Iterator[tuple[str, int, int, int]]:
    """The sequences in a file, by incarnation."""
    if file.recorder and not file.replaces:
        yield file.recorder, file.epoch, file.first, file.last
        return
    with root.system.open_input_file(root.at(namespace, file.path)) as stream:
        table = pq.ParquetFile(stream).read(columns=list(IDENTITY))
    table = table.sort_by([(name, "ascending") for name in IDENTITY])
    begin: tuple[str, int, int] | None = None
    before: tuple[str, int, int] | None = None
    for batch in table.to_batches(max_chunksize=65_536):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if before is None or begin is None:
                begin = row
            elif row != (before[0], before[1], before[2] + 1):
                yield before[0], before[1], begin[2], before[2]
                begin = row
            before = row
    if before is not None and begin is not None:
        yield before[0], before[1], begin[2], before[2]
