"""What was deleted from an archive on purpose (P11): so that `verify` tells it from what was lost.

    archive/default/_deleted/1795031123653000.json    which files, which sequences they had, when, and why

A deletion is written down first; then the seals go, then the files. One that was cut short is finished by the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from fumarole.pipeline.archive.places import SEALED, Root
from fumarole.pipeline.archive.seals import SEAL_SUFFIX, Kind

FOLDER: Final = "_deleted"
VERSION: Final = 1


class DeletedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file, and what was in it."""

    name: str
    """Of its seal."""
    path: str
    kind: Kind
    rows: int
    sequences: tuple[tuple[str, int, int, int], ...]
    """Recorder, epoch, first, last."""


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """Files that were deleted together."""

    version: int = VERSION
    at: int
    """Microseconds."""
    why: str
    files: tuple[DeletedFile, ...]


def put_deletion(root: Root, namespace: str, deletion: Deletion) -> None:
    """Writes it down. Nothing is deleted yet."""
    root.put(namespace, f"{FOLDER}/{deletion.at}.json", msgspec.json.encode(deletion) + b"\n")


def deletions(root: Root, namespace: str) -> Iterator[Deletion]:
    """All, from the first to the last. Raises msgspec.DecodeError for what is none."""
    for path, _ in sorted(root.files(namespace, FOLDER)):
        if path.endswith(".json"):
            yield msgspec.json.decode(root.read(path), type=Deletion)


def finish(root: Root, namespace: str, deletion: Deletion) -> None:
    """Deletes what is still there: the seals first, so that no job reads a file that is going."""
    for file in deletion.files:
        root.remove(namespace, SEALED, file.name + SEAL_SUFFIX)
    for file in deletion.files:
        root.remove(namespace, file.path)


def deleted_files(root: Root, namespace: str) -> list[DeletedFile]:
    """Those that are gone: their seals are not there any more."""
    return [
        file
        for deletion in deletions(root, namespace)
        for file in deletion.files
        if not root.exists(namespace, SEALED, file.name + SEAL_SUFFIX)
    ]
