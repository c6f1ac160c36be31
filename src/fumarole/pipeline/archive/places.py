"""Where an archive lies: a folder of any file system that pyarrow knows, and how a file gets there whole or not at all.

    DIR/<namespace>/date=2026-11-15/hour=22/<recorder>-<epoch>-<first sequence>.parquet    messages
    DIR/<namespace>/date=2026-11-15/hour=__HIVE_DEFAULT_PARTITION__/<…>.parquet            the quiet hours of a day
    DIR/<namespace>/_changes/date=2026-11-15/<…>.changes.parquet                           changes of metadata
    DIR/<namespace>/_sealed/<name of the file>.json                                        what is in force
    DIR/<namespace>/_manifest/                                                             all seals in one file
    DIR/<namespace>/_writing/                                                              not there yet
    DIR/<namespace>/_aside/                                                                not fit to be read

Spark passes over names that begin with `_`, so it can read `DIR/<namespace>` as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from fumarole.pipeline.errors import ArchiveError

SEALED = "_sealed"
WRITING = "_writing"
ASIDE = "_aside"
NO_HOUR = "__HIVE_DEFAULT_PARTITION__"
"""A null, as the name of a folder."""
CHANGES_FOLDER = "_changes"
OBJECT_STORES = {"s3", "gcs", "abfs"}
"""An object appears when it is complete, and cannot be renamed but only copied."""
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_HOUR = re.compile(r"date=(\d{4})-(\d\d)-(\d\d)(?:/hour=(\d\d))?/")


@dataclass(frozen=True, slots=True)
class Root:
    """The folder of an archive. Paths are relative to it, with `/`."""

    system: fs.FileSystem
    folder: str
    name: str
    """For people and for Spark: as it was given, but for passwords and options."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False, kw_only=True)
    """What a URI says of S3 and of credentials, by the names that delta-rs has for it."""

    @property
    def is_local(self) -> bool:
        return isinstance(self.system, fs.LocalFileSystem)

    def at(self, *parts: str) -> str:
        """The path by which the file system knows it."""
        return "/".join([self.folder, *parts]) if self.folder else "/".join(parts)

    def uri(self, *parts: str) -> str:
        """The path by which others know it: with the scheme, where one was given."""
        return "/".join([self.name.rstrip("/"), *parts])

    def exists(self, *parts: str) -> bool:
        return bool(self.system.get_file_info(self.at(*parts)).type != fs.FileType.NotFound)

    def size(self, *parts: str) -> int | None:
        """Bytes of a file; None: there is none."""
        found: int | None = self.system.get_file_info(self.at(*parts)).size
        return found

    def written_at(self, *parts: str) -> datetime | None:
        """When a file was written; None: there is none, or the file system does not know."""
        found: datetime | None = self.system.get_file_info(self.at(*parts)).mtime
        return found

    def changed_at(self, *parts: str) -> datetime | None:
        """When something was last written into a folder, or below; None: the file system does not know."""
        times = [info.mtime for info in self._list(parts, recursive=True) if info.mtime is not None]
        return max(times, default=self.written_at(*parts))

    def folders(self, *parts: str) -> list[str]:
        """The names of the folders in one."""
        return sorted(info.base_name for info in self._list(parts) if info.type == fs.FileType.Directory)

    def files(self, *parts: str, recursive: bool = False) -> Iterator[tuple[str, int]]:
        """Files in a folder and their sizes, by path relative to the root. A folder that is not there has none."""
        skip = len(self.folder) + 1 if self.folder else 0
        for info in self._list(parts, recursive):
            if info.type == fs.FileType.File:
                yield info.path[skip:], info.size

    def read(self, *parts: str) -> bytes:
        """All of a file. Raises FileNotFoundError."""
        with self.system.open_input_stream(self.at(*parts)) as stream:
            return bytes(stream.read())

    def remove(self, *parts: str) -> None:
        """Removes a file, if it is there."""
        if self.exists(*parts):
            self.system.delete_file(self.at(*parts))

    def move(self, source: str, target: str) -> None:
        """Moves a file inside the archive, for good: also a power failure does not undo it."""
        self._make_folder(target)
        self.system.move(self.at(source), self.at(target))
        if self.is_local:
            sync_folder(Path(self.at(target)).parent)
            sync_folder(Path(self.at(source)).parent)

    def put(self, namespace: str, path: str, data: bytes | pa.Buffer) -> None:
        """Puts a file in its place: whole, safe on disk, and only then to be seen. Raises OSError, and then it is not.

        `path` is relative to the namespace.
        """
        if self.system.type_name in OBJECT_STORES:
            self._write(self.at(namespace, path), data)
            return
        aside = f"{namespace}/{WRITING}/{path.rpartition('/')[2]}"
        self._make_folder(aside)
        try:
            self._write(self.at(aside), data)
            self.move(aside, f"{namespace}/{path}")
        except OSError:
            self._discard(aside)
            raise

    def _write(self, path: str, data: bytes | pa.Buffer) -> None:
        if self.is_local:
            with Path(path).open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        else:
            with self.system.open_output_stream(path) as stream:
                stream.write(data)

    def _discard(self, path: str) -> None:
        try:
            self.remove(path)
        except OSError:  # the first fault is the one to report
            return

    def _make_folder(self, path: str) -> None:
        parent = self.at(path).rpartition("/")[0]
        if not self.is_local:
            self.system.create_dir(parent, recursive=True)
            return
        missing = Path(parent)
        made = []
        while not missing.exists():
            made.append(missing)
            missing = missing.parent
        for folder in reversed(made):
            folder.mkdir(exist_ok=True)
            sync_folder(folder.parent)

    def _list(self, parts: tuple[str, ...], recursive: bool = False) -> list[fs.FileInfo]:
        selector = fs.FileSelector(self.at(*parts), allow_not_found=True, recursive=recursive)
        found: list[fs.FileInfo] = self.system.get_file_info(selector)
        return found


def open_root(place: str | os.PathLike[str] | Root) -> Root:
    """The archive at a path, or at a URI such as `s3://bucket/archive?region=…`. It need not be there yet."""
    if isinstance(place, Root):
        return place
    text = os.fspath(place)
    if not _URI.match(text):
        folder = str(Path(text).absolute())
        return Root(fs.LocalFileSystem(), folder, folder)
    text = text.replace("s3a://", "s3://", 1)  # as Hadoop calls it
    name = _without_secrets(text)
    try:
        system, folder = fs.FileSystem.from_uri(text)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        # No URI, a scheme that pyarrow does not know (or was built without), a store that does not answer.
        why = str(error).splitlines()[0].replace(text, name)
        raise ArchiveError(f"{name} cannot be opened: {why}") from None
    options = store_options(text) if text.startswith("s3://") else {}
    return Root(system, folder.rstrip("/"), folder if isinstance(system, fs.LocalFileSystem) else name, options=options)


def store_options(uri: str) -> dict[str, str]:
    """The credentials, region and endpoint of an S3 URI, as pyarrow understands it, for delta-rs.

    What the URI does not say comes from the environment for both.
    """
    parts = urlsplit(uri)
    said = dict(parse_qsl(parts.query))
    found = {}
    if parts.username and parts.password:
        found = {"AWS_ACCESS_KEY_ID": unquote(parts.username), "AWS_SECRET_ACCESS_KEY": unquote(parts.password)}
    if "region" in said:
        found["AWS_REGION"] = said["region"]
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    if "endpoint_override" in said:
        endpoint = said["endpoint_override"]
        if "://" not in endpoint:
            endpoint = f"{said.get('scheme', 'https')}://{endpoint}"
        found["AWS_ENDPOINT_URL"] = endpoint
    if endpoint.startswith("http://"):
        found["AWS_ALLOW_HTTP"] = "true"
    return found


def _without_secrets(uri: str) -> str:
    """`s3://KEY:SECRET@bucket/a?region=r` is `s3://bucket/a`, which can be shown, kept, and have a path added."""
    scheme, _, rest = uri.partition("?")[0].partition("://")
    authority, slash, path = rest.partition("/")
    user, _, host = authority.rpartition("@")
    container = "" if scheme in {"s3", "gs", "gcs"} else user.partition(":")[0]
    return f"{scheme}://{container}{'@' if container else ''}{host}{slash}{path}"


def messages_folder(microseconds: int) -> str:
    """Where messages of this time are, in the namespace."""
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("date=%Y-%m-%d/hour=%H")


def day_folder(microseconds: int) -> str:
    """Where messages of all hours of a day are, when those are in one file. To readers of folders the hour is null."""
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime(f"date=%Y-%m-%d/hour={NO_HOUR}")


def changes_folder(microseconds: int) -> str:
    """Where changes of this time are, in the namespace."""
    return CHANGES_FOLDER + datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("/date=%Y-%m-%d")


def span(path: str) -> tuple[datetime, datetime] | None:
    """From when until when a file has rows, as its folder says: an hour, or a day. None: it does not say."""
    found = _HOUR.search(path)
    if found is None:
        return None
    year, month, day, hour = found.groups()
    begin = datetime(int(year), int(month), int(day), int(hour or 0), tzinfo=UTC)
    return begin, begin + (timedelta(days=1) if hour is None else timedelta(hours=1))


def sync_folder(folder: Path) -> None:
    """What was renamed in it stays so, also after a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
