"""Retention: messages that are older than they are to be kept are deleted from an archive (P11).

    raw 30 days, 1m 1 year, 1h forever      the archive and the table of readings; the rollups by their windows

By the recorder's time, a file at a time: a file goes when its last message is old enough. With the output of a standing
job, only what that job has taken in. Changes of metadata stay: what held at a time was said before it.
"""

from __future__ import annotations

import re
from collections.abc import Container
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from fumarole.pipeline.archive.deletions import DeletedFile, Deletion, deletions, finish, put_deletion
from fumarole.pipeline.archive.places import Root, span
from fumarole.pipeline.archive.seals import SUFFIX, Seal, SealedFile, check_namespace, in_force, read_seals
from fumarole.pipeline.archive.verifying import Problem, read_whole, sequences
from fumarole.pipeline.errors import TimeError
from fumarole.pipeline.jobs.compacting import NAME, alone_in
from fumarole.pipeline.times import duration, shown

RAW: Final = "raw"
_YEARS: Final = re.compile(r"(\d+)\s*years?")


class Expiry(NamedTuple):
    """What is to be deleted, or was."""

    files: int
    rows: int
    bytes: int
    waiting: int
    """Files that are old enough, which the standing job has not taken in."""


def kept(text: str) -> dict[str, timedelta | None]:
    """How long each tier is kept: `raw 30 days, 1m 1 year, 1h forever`. None is forever. Raises TimeError.

    `raw` is what was recorded; all others are rollups, by their windows.
    """
    found: dict[str, timedelta | None] = {}
    for part in text.split(","):
        name, _, length = part.strip().partition(" ")
        if not name or not length.strip():
            raise TimeError(f"{part.strip()!r}: say what is kept and how long, such as 'raw 30 days, 1m 1 year'")
        tier = RAW if name == RAW else shown(duration(name))
        if tier in found:
            raise TimeError(f"{text!r} says twice how long {tier} is kept")
        whole = length.strip() == "forever"
        found[tier] = None if whole else duration(_YEARS.sub(lambda years: f"{int(years[1]) * 365} days", length))
    return found


def expire(
    root: Root,
    keep: timedelta,
    namespace: str = "default",
    taken: Container[str] | None = None,
    now: datetime | None = None,
    *,
    delete: bool = True,
) -> Expiry:
    """Deletes files whose last message was recorded longer ago than `keep`; without `delete` only counts them.

    `taken` are the names of seals that a standing job has taken in (`State.taken`); None: there is no such job. Raises
    ArchiveError, and PipelineError where a compaction runs.
    """
    check_namespace(root, namespace)
    moment = now or datetime.now(UTC)
    with alone_in(root, namespace):
        if delete:
            for earlier in deletions(root, namespace):
                finish(root, namespace, earlier)
        old = [file for file in in_force(root, namespace) if file.kind == "messages" and _last(file) < moment - keep]
        ready = [file for file in old if taken is None or all(name in taken for name in _recorded(file))]
        if delete and ready:
            ready = _delete(root, namespace, ready, moment, keep)
    sizes = (sum(file.rows for file in ready), sum(file.bytes for file in ready))
    return Expiry(len(ready), *sizes, len(old) - len(ready))


def _delete(root: Root, namespace: str, files: list[SealedFile], now: datetime, keep: timedelta) -> list[SealedFile]:
    """Those that are whole. What was in a damaged one is unknown: `verify` reports it."""
    seals = dict(read_seals(root, namespace))
    gone: list[DeletedFile] = []
    whole: list[SealedFile] = []
    for file in files:
        data = read_whole(root, namespace, file)
        if isinstance(data, Problem):
            continue
        # What it replaced goes before it: otherwise that would be in force again.
        gone += [_described(seals[name]) for name in file.replaces if name in seals]
        gone.append(_described(file, (*sequences(file, data), *file.deleted)))
        whole.append(file)
    if gone:
        why = f"older than {keep.days} days"
        deletion = Deletion(at=int(now.timestamp() * 1_000_000), why=why, files=tuple(gone))
        put_deletion(root, namespace, deletion)
        finish(root, namespace, deletion)
    return whole


def _described(seal: Seal, found: tuple[tuple[str, int, int, int], ...] = ()) -> DeletedFile:
    return DeletedFile(name=seal.name, path=seal.path, kind=seal.kind, rows=seal.rows, sequences=found)


def _recorded(file: SealedFile) -> list[str]:
    """The recorders' files whose rows it has."""
    return [name for name in file.replaces if not name.startswith(NAME)] or [file.name]


def _last(file: SealedFile) -> datetime:
    """When its last message was recorded; of an old seal, the end of its hour."""
    if file.last_time:
        return datetime.fromtimestamp(file.last_time / 1e6, UTC)
    times = span(f"{PurePosixPath(file.path).parent}/{file.name}{SUFFIX}")
    return datetime.max.replace(tzinfo=UTC) if times is None else times[1]
