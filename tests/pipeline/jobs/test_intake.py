"""What a job takes in of an archive: every message once, whatever compaction does meanwhile. Without Spark."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fumarole.pipeline.archive.places import open_root
from fumarole.pipeline.archive.schema import IDENTITY
from fumarole.pipeline.archive.seals import SealedFile, read_seals
from fumarole.pipeline.jobs.compacting import DamagedError, compact, sweep
from fumarole.pipeline.jobs.intake import Arrivals, Intake
from fumarole.pipeline.jobs.log import Entry, State
from tests.pipeline.archives import BEGIN, NOISE, Recorder, alter, change, damage, message

LATER = BEGIN + timedelta(days=1)


def identities(file: SealedFile) -> Counter[Any]:
    columns = pq.read_table(file.uri, columns=list(IDENTITY), partitioning=None).to_pydict()
    return Counter(zip(*columns.values(), strict=True))


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


class Job:
    """What the standing job does, but for Spark: its output is the identities of messages."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._state = State()
        self.out: Counter[Any] = Counter()
        self.start()

    def start(self) -> None:
        self._arrivals = Arrivals(open_root(self._archive), "default")

    def batch(self, most_rows: int = 1_000_000, meanwhile: Callable[[], object] = lambda: None) -> Intake:
        aside = {each.name for each in self._state.aside}
        intake = self._arrivals.next(self._state.taken, aside, most_rows)
        meanwhile()
        intake = intake.without(self._arrivals.unreadable([*intake.files, *intake.mixed]))
        before = set(self.out)
        for file in intake.files:
            self.out += identities(file)
        for file in intake.mixed:
            self.out += Counter(identities(file).keys() - before)
        seals, unfit = tuple(intake.names), tuple(intake.aside)
        self._state.add(Entry(number=self._state.number + 1, seals=seals, folders=(), aside=unfit))
        return intake

    def catch_up(self, most_rows: int = 1_000_000) -> list[tuple[int, int]]:
        """Of each batch how many files it took, and how many it left."""
        done = []
        while intake := self.batch(most_rows):
            done.append((len(intake.files) + len(intake.mixed), intake.left))
        return done


def test_files_that_a_bounded_batch_left_are_compacted(tmp_path: Path) -> None:
    """Some were taken in, some are too many for the next batch: they come after it (P5)."""
    recorder, job = Recorder(tmp_path), Job(tmp_path)
    for second in range(3):
        recorder.seal([message(second)] * 20)
    assert job.batch(20).left == 2
    assert [step.rows for step in compact(open_root(tmp_path), now=LATER)] == [60]
    assert job.catch_up(20) == [(1, 1), (1, 0)]
    assert Counter(job.out.values()) == {1: 60}


def test_what_is_known_is_no_batch(tmp_path: Path) -> None:
    recorder, job = Recorder(tmp_path), Job(tmp_path)
    for second in range(3):
        recorder.seal([message(second)])
    assert job.catch_up() == [(3, 0)]
    assert len(list(compact(open_root(tmp_path), now=LATER))) == 1
    assert job.catch_up() == []


@pytest.mark.parametrize("spoil", [damage, truncate, Path.unlink])
def test_a_compacted_file_that_is_not_fit_replaces_nothing(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    recorder, job = Recorder(tmp_path), Job(tmp_path)
    for second in range(3):
        recorder.seal([message(second)])
    (step,) = compact(open_root(tmp_path), now=LATER)
    spoil(tmp_path / "default" / step.path)
    assert job.batch().aside
    assert job.catch_up(1) == [(1, 2), (1, 1), (1, 0)]
    assert Counter(job.out.values()) == {1: 3}


@pytest.mark.parametrize("spoil", [damage, truncate, Path.unlink])
def test_a_replaced_file_that_is_not_fit_is_had_from_where_its_rows_are(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    """One of two was taken in, the other cannot be: the file that replaces them has its messages (P5)."""
    recorder, job = Recorder(tmp_path), Job(tmp_path)
    _, left = (seal for second in range(2) for seal in recorder.seal([message(second)] * 20))
    assert job.batch(20).left == 1
    assert [step.rows for step in compact(open_root(tmp_path), now=LATER)] == [40]
    spoil(tmp_path / "default" / left.path)
    job.catch_up()
    assert Counter(job.out.values()) == {1: 40}
    recorder.seal([message(2)])
    assert job.catch_up() == [(1, 0)]
    assert [step.rows for step in compact(open_root(tmp_path), now=LATER + timedelta(seconds=1))] == [41]
    assert job.catch_up() == [], "all of it is known"


def test_a_replaced_file_that_is_deleted_before_it_is_read(tmp_path: Path) -> None:
    recorder, job, root = Recorder(tmp_path), Job(tmp_path), open_root(tmp_path)
    for second in range(2):
        recorder.seal([message(second)] * 20)
    job.batch(20)
    assert len(list(compact(root, now=LATER))) == 1
    assert job.batch(meanwhile=lambda: sweep(root, grace=timedelta(0))).files == []
    assert job.catch_up() == [(1, 0)]
    assert Counter(job.out.values()) == {1: 40}


def test_a_file_that_is_set_aside_alone_is_not_looked_at_again(tmp_path: Path) -> None:
    (seal,) = Recorder(tmp_path).seal([message(0)])
    truncate(tmp_path / "default" / seal.path)
    job = Job(tmp_path)
    assert job.catch_up() == [(0, 0)]
    assert job.catch_up() == []


def test_a_single_bit_that_can_be_read_as_another(tmp_path: Path) -> None:
    (seal,) = Recorder(tmp_path).seal([message(0) | {"payload": NOISE}])
    alter(tmp_path / "default" / seal.path)
    intake = Arrivals(open_root(tmp_path), "default").next(set(), set(), 1)
    assert (intake.files, intake.names) == ([], [])
    assert [(each.name, each.reason) for each in intake.aside] == [(seal.name, "it has other bytes than were sealed")]


def test_changes_of_a_replaced_file_that_cannot_be_had_hide_no_others(tmp_path: Path) -> None:
    """The file that replaced it has what was known before, and is read for that."""
    recorder, arrivals = Recorder(tmp_path), Arrivals(open_root(tmp_path), "default")
    known, new = (recorder.seal(change(second, "p", {"Room": second}), "changes")[0] for second in range(2))
    (step,) = compact(open_root(tmp_path), now=LATER + timedelta(days=1))
    taken = {known.name}
    assert arrivals.next(taken, set(), 1).names == [new.name]
    assert [file.path for file in arrivals.changes(taken, set())] == [step.path]
    compacted = Path(step.path).stem
    assert [file.name for file in arrivals.changes(taken, {compacted})] == [known.name]
    assert arrivals.changes(set(), {compacted}) == []


def away(path: Path) -> Path:
    """The file system does not give the file at this path. Where it is kept meanwhile."""
    kept = path.rename(path.with_name(f"_{path.name}"))
    path.symlink_to(path)
    return kept


def test_a_file_that_the_file_system_does_not_give_is_not_set_aside(tmp_path: Path) -> None:
    """It would never be taken in again, and may be whole (P5)."""
    (seal,) = Recorder(tmp_path).seal([message(0)])
    arrivals = Arrivals(open_root(tmp_path), "default")
    files = arrivals.next(set(), set(), 1).files
    path = tmp_path / "default" / seal.path
    kept = away(path)
    assert arrivals.unreadable(files) == []
    job = Job(tmp_path)
    intake = job.batch()
    assert not intake
    assert [each.name for each in intake.away] == [seal.name]
    assert "Too many levels of symbolic links" in intake.away[0].reason
    kept.replace(path)
    assert job.catch_up() == [(1, 0)]
    path.unlink()
    assert [each.name for each in arrivals.unreadable(files)] == [seal.name]


@pytest.mark.parametrize("seed", range(12))
def test_every_message_once(tmp_path: Path, seed: int) -> None:
    """Seal, compact, delete, damage, start again and take in, in any order and while files are taken in (P5)."""
    chance = random.Random(seed)
    root, job, recorders = open_root(tmp_path), Job(tmp_path), [Recorder(tmp_path, name) for name in "rs"]
    fresh: list[str] = []
    """Compacted files of which the originals are all there."""
    sealed = 0
    often = ["seal", "batch"]
    steps = [*often, *often, "compact", "sweep", "damage", "damage an original", "start", "batch", "late sweep"]

    def spoil(path: str) -> None:
        chance.choice([damage, truncate])(tmp_path / "default" / path)

    def sweep_all() -> None:
        sweep(root, grace=timedelta(0))
        fresh.clear()

    for moment in range(40):
        match chance.choice(steps):
            case "seal":
                rows = [message(second) for second in range(chance.randint(1, 5))]
                chance.choice(recorders).seal(rows)
                sealed += len(rows)
            case "compact" if sealed:
                with suppress(DamagedError):
                    fresh += [step.path for step in compact(root, now=LATER + timedelta(seconds=moment))]
            case "sweep" if sealed:
                sweep_all()
            case "damage" if fresh:
                spoil(fresh.pop())
            case "damage an original" if fresh:  # what replaces it stays whole
                seals = dict(read_seals(root, "default"))
                replaced = seals[Path(fresh.pop()).stem].replaces
                spoil(chance.choice([seals[name].path for name in replaced if name in seals]))
            case "start":
                job.start()
            case "batch":
                job.batch(chance.randint(1, 10))
            case "late sweep" if sealed:
                job.batch(chance.randint(1, 10), sweep_all)
    job.catch_up(chance.randint(1, 10))
    assert sum(job.out.values()) == len(job.out) == sealed
