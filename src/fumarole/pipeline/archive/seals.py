"""Seals: which files are the archive. A file counts from the moment in which its seal appears, and not before.

Each file has a seal of the same name. A seal may say that its file `replaces` others, which count no more from that
moment on, whether they have been deleted yet or not: so many small files become one without a moment in which a row is
missing or there twice.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Literal

import msgspec
from pyarrow import fs

from fumarole.pipeline.archive.places import SEALED, Root, open_root, span
from fumarole.pipeline.archive.schema import SINCE_VERSION, VERSION
from fumarole.pipeline.errors import ArchiveError

Kind = Literal["messages", "changes"]
SUFFIX = ".parquet"
SEAL_SUFFIX = ".json"
MANIFEST = "_manifest"
MANIFEST_SUFFIX = ".seals"
"""Lines of JSON, compressed. Not `.gz`, which pyarrow would take apart by itself."""


class Seal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """What is written down of a file."""

    version: int = VERSION
    path: str
    """Relative to the folder of the namespace."""
    kind: Kind
    rows: int
    first: int
    last: int
    """The sequences it has. Of a file with rows of several incarnations they say nothing."""
    bytes: int
    recorder: str
    """Empty: rows of several."""
    epoch: int
    replaces: tuple[str, ...] = ()
    """Names of seals, without `.json`, whose files count no more."""
    payloads: str = ""
    """The digest of the declarations by which `value` and `event_time` were found (P6); empty: there were none."""
    first_time: int = 0
    last_time: int = 0
    """The earliest and latest of the recorder's times in it, microseconds; both 0: of version 1 or 2."""
    first_event: int = 0
    last_event: int = 0
    """Those of the sensors' times, as far as they are believed (P7); both 0: there are none."""
    first_topic: str | None = None
    last_topic: str | None = None
    """The least and greatest of its topics, by their code points; null: changes, or sealed without a look inside."""
    first_producer: str | None = None
    last_producer: str | None = None
    """Those of its producers; null as well where it has none."""
    deleted: tuple[tuple[str, int, int, int], ...] = ()
    """Recorder, epoch, first and last sequence of rows that it would have, and that were deleted on purpose (P11)."""
    sha256: str = ""
    """Of all bytes of the file, in hexadecimal; empty: of version 1, or sealed by a process that found it there."""

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name.removesuffix(SUFFIX)

    @property
    def has_events(self) -> bool:
        """May some of its messages have a time of their own? Where a seal was made later it does not say."""
        return bool(self.last_event) or (self.version >= SINCE_VERSION["event_time"] and not self.last_time)


class SealedFile(Seal, frozen=True, kw_only=True):
    """A file in force."""

    uri: str
    """Where it is: a path, or a URI where the archive was given as one."""
    system: fs.FileSystem | None = None
    """The file system, as it was opened."""
    path_in_system: str = ""

    @classmethod
    def of(cls, seal: Seal, root: Root, namespace: str) -> SealedFile:
        fields = {field: getattr(seal, field) for field in Seal.__struct_fields__}
        place = root.at(namespace, seal.path)
        return cls(uri=root.uri(namespace, seal.path), system=root.system, path_in_system=place, **fields)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Seal).decode
_version = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def put_seal(root: Root, namespace: str, seal: Seal) -> None:
    """From here on the file is part of the archive."""
    root.put(namespace, f"{SEALED}/{seal.name}{SEAL_SUFFIX}", _encode(seal) + b"\n")


def sealed(
    root: str | os.PathLike[str] | Root,
    namespace: str,
    since: datetime | None = None,
    until: datetime | None = None,
    topics: str = "",
) -> list[SealedFile]:
    """The files in force, in order of their names within each folder.

    With `since` or `until`, without those that have no message in [since, until), by either time: rows outside it may
    be in them still. Changes of metadata are there from the beginning, because what held at a time was said before.
    `topics` is how the topics that are asked for begin: files that have none of them are left out as well. Raises
    ArchiveError where there is no such archive, it cannot be read, or it is of a newer version.
    """
    place = open_root(root)
    try:
        check_namespace(place, namespace)
        found = in_force(place, namespace)
        return [file for file in found if _overlaps(file, since, until) and _may_have(file, topics)]
    except OSError as error:
        reason = str(error).partition("\n")[0]
        raise ArchiveError(f"the seals of the archive at {place.name} cannot be read: {reason}") from None


def in_force(root: Root, namespace: str) -> list[SealedFile]:
    """All files whose seal is not replaced by another."""
    seals = dict(read_seals(root, namespace))
    replaced = {name for seal in seals.values() for name in seal.replaces}
    standing = [SealedFile.of(seal, root, namespace) for name, seal in seals.items() if name not in replaced]
    return sorted(standing, key=lambda file: (file.kind, file.path))


def read_seals(root: Root, namespace: str, known: Mapping[str, Seal] | None = None) -> Iterator[tuple[str, Seal]]:
    """Every seal by its name, but for files that are none: `verify` tells of those. Raises ArchiveError if too new.

    Those that are `known` already are not read again: a seal never changes.
    """
    known = known or dict(_summed_up(root, namespace))
    for path, _ in root.files(namespace, SEALED):
        if not path.endswith(SEAL_SUFFIX):
            continue
        name = PurePosixPath(path).name.removesuffix(SEAL_SUFFIX)
        seal = known.get(name) or read_seal(root, path)
        if seal is not None:
            yield name, seal


def put_manifest(root: Root, namespace: str, at: int) -> None:
    """Sums up all seals in one file, so that later readers read that one, and the seals that are newer.

    `at` is a time, in microseconds. The seals decide: one that has been deleted counts no more, wherever it is named.
    """
    lines = [_encode(seal) for _, seal in read_seals(root, namespace)]
    root.put(namespace, f"{MANIFEST}/{at}{MANIFEST_SUFFIX}", gzip.compress(b"\n".join(lines), 6))
    for path in _manifests(root, namespace)[:-1]:
        root.remove(path)


def _manifests(root: Root, namespace: str) -> list[str]:
    """Their paths, the newest last."""
    found = [path for path, _ in root.files(namespace, MANIFEST) if path.endswith(MANIFEST_SUFFIX)]
    return sorted(found, key=lambda path: (len(path), path))


def _summed_up(root: Root, namespace: str) -> Iterator[tuple[str, Seal]]:
    """The seals that the newest manifest names. One that cannot be read names none."""
    for path in reversed(_manifests(root, namespace)):
        try:
            lines = gzip.decompress(root.read(path)).split(b"\n")
        except (OSError, EOFError, zlib.error):
            continue  # the one before it may be there still
        for line in lines:
            seal = parse_seal(line, root.uri(path)) if line else None
            if seal is not None:
                yield seal.name, seal
        return


def read_seal(root: Root, path: str) -> Seal | None:
    """The seal at a path; None: there is none, or it is not one. Raises ArchiveError for one of a newer version."""
    try:
        return parse_seal(root.read(path), root.uri(path))
    except FileNotFoundError:
        return None  # perhaps tidied away since the folder was listed


def parse_seal(data: bytes, place: str) -> Seal | None:
    """A seal; None: it is none. Raises ArchiveError for one of a newer version."""
    try:
        version = int(_version(data).get("version", b""))
    except (msgspec.DecodeError, ValueError):
        return None
    if version > VERSION:
        raise ArchiveError(
            f"{place} is of version {version} of the archive, and this is a Fumarole that knows up to {VERSION}; "
            "use a newer one"
        )
    try:
        return _decode(data)
    except msgspec.DecodeError:
        return None


def namespaces(root: str | os.PathLike[str] | Root) -> list[str]:
    """The namespaces that an archive has something of."""
    place = open_root(root)
    if not place.exists():
        raise ArchiveError(f"there is no archive at {place.name}; `fumarole record --archive {place.name}` makes one")
    try:
        return [name for name in place.folders() if place.exists(name, SEALED)]
    except NotADirectoryError:
        raise ArchiveError(f"{place.name} is a file; an archive is a folder") from None


def check_namespace(root: Root, namespace: str) -> None:
    """Raises ArchiveError where there is no archive, or nothing of this namespace in it."""
    known = namespaces(root)
    if namespace not in known:
        if not known:
            raise ArchiveError(
                f"there is nothing in the archive at {root.name}: no recorder has sealed a file there yet"
            )
        raise ArchiveError(f"the archive at {root.name} has no namespace {namespace!r}; it has {', '.join(known)}")


def _overlaps(file: SealedFile, since: datetime | None, until: datetime | None) -> bool:
    times = _times(file)
    if times is None:
        return True
    begin, end = times
    return (until is None or begin < until) and (since is None or file.kind == "changes" or end > since)


def _may_have(file: SealedFile, topics: str) -> bool:
    """May it have a topic that begins so?"""
    if file.first_topic is None or file.last_topic is None:
        return True
    return file.first_topic[: len(topics)] <= topics <= file.last_topic[: len(topics)]


def _times(file: SealedFile) -> tuple[datetime, datetime] | None:
    """From when until when a file has rows; the end is not in it. None: not known."""
    if not file.last_time:
        return span(file.path)
    known = [file.first_time, file.last_time, *([file.first_event, file.last_event] if file.last_event else [])]
    return moment_of(min(known)), moment_of(max(known) + 1)


def moment_of(microseconds: int) -> datetime:
    """A time of a seal, or of a log."""
    return _EPOCH + timedelta(microseconds=microseconds)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
