"""The standing job's log: what has been taken in, and which folders of the output are in force.

    OUT/_log/job.json                 what the job is: archive, namespace, windows
    OUT/_log/000000000107.json        batch 107: the seals it took in, the folders it wrote, those it put out of force
    OUT/_log/000000000100.sum.json    what batches 1 to 100 come to
    OUT/readings/batch-000000000107-5f0c…/date=…/hour=…/….parquet

A batch counts from the moment in which its entry appears, whole, under the next number. Whatever was written before
that moment, by a driver that died, is in no entry, so no job reads it, and the next driver sweeps it away: at once
where it can be sure to be alone, else when it has lain there for a time of grace. There is nothing else to recover.
Input and output are told in one file, so neither can be without the other (P5).

A job that runs for years has millions of batches. So every hundredth time the sum of all is written down too, and
readers of the log begin there. Entries before a sum that has stood for the time of grace are not read any longer: they
are deleted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import msgspec

from fumarole.core.payloads import Type
from fumarole.pipeline.archive.places import Root, open_root
from fumarole.pipeline.errors import PipelineError

LOG = "_log"
JOB = "job.json"
VERSION = 1
SUM_EVERY = 100
"""Batches."""
GRACE = timedelta(hours=1)
"""How long folders that were replaced stay, for their readers; and those that a driver may be writing."""
FOREVER = datetime.max.replace(tzinfo=UTC)
LONG_AGO = datetime.min.replace(tzinfo=UTC)
_ENTRY = re.compile(r"(\d{12})\.json")
_SUM = re.compile(r"(\d{12})\.sum\.json")
_BATCH = re.compile(r"batch[-=](\d+)-")
"""With `=`: of an older version. Programs that read Delta tables take that for a column."""


class JobError(PipelineError):
    """An output that this job cannot go on with."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What does not change from batch to batch."""

    version: int = VERSION
    archive: str
    namespace: str
    windows: tuple[str, ...]
    lateness: float
    """Seconds."""
    grain: float
    """Seconds; see `transforms.gaps`."""
    payloads: str = ""
    """The digest of the declarations of payloads (P6); empty: there are none."""
    fields: dict[str, Type] = {}
    """The fields that these declare: columns of the readings."""


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of the output with rows of one table."""

    table: str
    name: str
    rows: int = 0
    first: int = 0
    last: int = 0
    """The earliest and latest time in it, microseconds, where the table has times."""

    @property
    def path(self) -> str:
        return f"{self.table}/{self.name}"

    @property
    def is_old(self) -> bool:
        """Of a version that made no open tables."""
        return self.name.startswith("batch=")


class Aside(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the archive that was not fit to be read."""

    name: str
    reason: str


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One batch."""

    number: int
    seals: tuple[str, ...]
    folders: tuple[Folder, ...]
    replaces: tuple[str, ...] = ()
    """Paths of folders that are in force no more."""
    aside: tuple[Aside, ...] = ()
    messages: int = 0
    late: int = 0
    """Messages from before the watermark. They are in the output like all others."""
    unfit: int = 0
    """Messages whose payload is not as declared (P6)."""
    newest: int = 0
    """The latest time of a message so far."""
    drops: bool = False
    """Rows were deleted on purpose (P11): its folders have what is left of those that it replaces."""


@dataclass(slots=True)
class State:
    """What the entries come to, all together."""

    number: int = 0
    taken: set[str] = field(default_factory=set)
    """Names of seals whose rows are in the output. What was set aside is not, unless another file had its rows."""
    folders: dict[str, Folder] = field(default_factory=dict)
    replaced: dict[str, int] = field(default_factory=dict)
    """Folders that were in force once, and the batch that put them out of it."""
    aside: list[Aside] = field(default_factory=list)
    messages: int = 0
    late: int = 0
    newest: int = 0

    def add(self, entry: Entry) -> None:
        """The next batch."""
        self.number = entry.number
        self.taken.update(set(entry.seals) - {each.name for each in entry.aside})  # old entries name them too
        self.replaced.update(dict.fromkeys(entry.replaces, entry.number))
        for path in entry.replaces:
            self.folders.pop(path, None)
        self.folders.update((each.path, each) for each in entry.folders)
        self.aside += entry.aside
        self.messages += entry.messages
        self.late += entry.late
        self.newest = max(self.newest, entry.newest)

    def of(self, table: str) -> list[Folder]:
        """The folders of a table that are in force."""
        return [each for each in self.folders.values() if each.table == table]


_Kind = TypeVar("_Kind", Entry, State)


def entry_name(number: int) -> str:
    """Twelve digits, so that names are in order too."""
    return f"{number:012d}.json"


def sum_name(number: int) -> str:
    """Of what all batches up to this one come to."""
    return f"{number:012d}.sum.json"


class Log:
    """The log of one output."""

    def __init__(self, place: str | os.PathLike[str] | Root) -> None:
        self.root = open_root(place)

    def job(self) -> Job | None:
        """What the job is; None: none has been here. Raises JobError."""
        if not self.root.exists(LOG, JOB):
            return None
        data = self.root.read(LOG, JOB)
        try:
            version = int(msgspec.json.decode(data)["version"])
            if version > VERSION:
                raise JobError(f"{self.root.name} was made by a newer Fumarole (its log is of version {version})")
            return msgspec.json.decode(data, type=Job)
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            raise self._unknown(JOB) from None

    def begin(self, job: Job) -> None:
        """The first thing that is written."""
        self.root.put(LOG, JOB, msgspec.json.encode(job))

    def state(self) -> State:
        """Where the job is. Raises JobError where a batch is missing, or something is not what a job wrote."""
        entries, sums = self._numbers()
        state = self._read(sum_name(sums[-1]), State) if sums else State()
        for number in entries:
            if number <= state.number:
                continue
            if number != state.number + 1:
                raise JobError(
                    f"batch {state.number + 1} is missing from {self.root.uri(LOG)}, though batch {number} is there; "
                    "put it back, or begin anew with another --out"
                )
            state.add(self._read(entry_name(number), Entry))
        return state

    def entries(self, first: int, last: int) -> tuple[Entry, ...] | None:
        """Those of these batches; None: some are there no longer, since their sum is."""
        wanted = range(first, last + 1)
        there = set(self._numbers()[0])
        if not there.issuperset(wanted):
            return None
        return tuple(self._read(entry_name(number), Entry) for number in wanted)

    def _numbers(self) -> tuple[list[int], list[int]]:
        """Of the entries that are there, and of the sums, each in order."""
        names = [path.rpartition("/")[2] for path, _ in self.root.files(LOG)]
        entries = sorted(int(found[1]) for found in map(_ENTRY.fullmatch, names) if found)
        sums = sorted(int(found[1]) for found in map(_SUM.fullmatch, names) if found)
        return entries, sums

    def _read(self, name: str, kind: type[_Kind]) -> _Kind:
        try:
            return msgspec.json.decode(self.root.read(LOG, name), type=kind)
        except msgspec.DecodeError:
            raise self._unknown(name) from None

    def _unknown(self, name: str) -> JobError:
        return JobError(f"{self.root.uri(LOG, name)} is not what a job wrote; the output cannot be gone on with")

    def commit(self, entry: Entry) -> None:
        """From here on the batch is done. Raises JobError where another driver has done it, or its folders are gone."""
        entries, sums = self._numbers()
        if max((*entries, *sums), default=0) >= entry.number:
            raise JobError(
                f"another job has written batch {entry.number} of {self.root.name}; only one can run at a time"
            )
        missing = self._missing(each.path for each in entry.folders)
        if missing:
            raise JobError(f"{self.root.uri(missing[0])} is gone, though it was just written; start the job again")
        self.root.put(LOG, entry_name(entry.number), msgspec.json.encode(entry))

    def sum_up(self, state: State, now: datetime, grace: timedelta = GRACE) -> None:
        """Every hundredth batch, so that a reader need not read all of the log. Then most of it can be deleted."""
        if state.number % SUM_EVERY:
            return
        self.root.put(LOG, sum_name(state.number), msgspec.json.encode(state))
        entries, sums = self._numbers()
        stood = [each for each in sums if (self.root.written_at(LOG, sum_name(each)) or FOREVER) <= now - grace]
        if stood:
            for name in (*(entry_name(each) for each in entries if each <= stood[-1]), *map(sum_name, stood[:-1])):
                self.root.remove(LOG, name)

    def written(self) -> list[str]:
        """The folders that are there, in force or not, by path."""
        return [
            f"{table}/{name}"
            for table in self.root.folders()
            if not table.startswith("_")
            for name in self.root.folders(table)
            if _BATCH.match(name)
        ]

    def check_lost(self, state: State, job: Job | None) -> None:
        """Raises JobError where there is output that the log knows nothing of, and that no dead driver left behind."""
        written = self.written()
        beyond = [path for path in written if path not in state.folders and _number(path) > state.number + 1]
        if beyond or (job is None and written):
            raise JobError(
                f"{self.root.name} has output, but its log ({LOG}) is gone; to go on would take every message in "
                "twice. Put the log back, or begin anew with another --out"
            )
        missing = self._missing(state.folders)
        if missing:
            raise JobError(f"{self.root.uri(missing[0])} is gone, though the log counts on it; put it back")

    def _missing(self, paths: Iterable[str]) -> list[str]:
        return [path for path in paths if not self.root.exists(path)]

    def sweep(self, state: State, now: datetime, grace: timedelta = GRACE) -> list[str]:
        """Removes what drivers that died were writing, and folders that were replaced longer ago than the grace."""
        swept = [
            path
            for path in self.written()
            if path not in state.folders and self._last_of_use(path, state) <= now - grace
        ]
        for path in swept:
            self.root.system.delete_dir(self.root.at(path))
            state.replaced.pop(path, None)
        return swept

    def _last_of_use(self, path: str, state: State) -> datetime:
        """Until when a folder that is not in force may have been read or written."""
        if path in state.replaced:
            entry = entry_name(state.replaced[path])
            if not self.root.exists(LOG, entry):
                return LONG_AGO  # `sum_up` has deleted it since
            return self.root.written_at(LOG, entry) or FOREVER
        if self.root.is_local:  # there only one driver runs (`standing.alone`), and it is writing nothing
            return LONG_AGO
        return self.root.changed_at(path) or FOREVER

    def sync(self, paths: Iterable[str]) -> None:
        """What Spark wrote survives a power failure too, before the log says that it is there."""
        if not self.root.is_local:
            return
        folders = [Path(self.root.at(path)) for path in paths]
        inside = [place for folder in folders for place in folder.rglob("*")]
        # The name of a folder is in the one above it: that of the batch in its table's, and that in the output's.
        above = {place for folder in folders for place in (folder.parent, folder.parent.parent)}
        for place in (*inside, *folders, *above):
            handle = os.open(place, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def _number(path: str) -> int:
    found = _BATCH.search(path)
    assert found is not None
    return int(found[1])
