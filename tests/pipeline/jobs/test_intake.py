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
from fumarole.pipeline.archive.seals import SealedFile
from fumarole.pipeline.jobs.compacting import DamagedError, compact, sweep
from fumarole.pipeline.jobs.intake import Arrivals, Intake
from tests.pipeline.archives import BEGIN, Recorder, damage, message

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
        self._taken: set[str] = set()
        self._aside: set[str] = set()
        self.out: Counter[Any] = Counter()
        self.start()

    def start(self) -> None:
        self._arrivals = Arrivals(open_root(self._archive), "default")

    def batch(self, most_rows: int = 1_000_000) -> Intake:
        intake = self._arrivals.next(self._taken, self._aside, most_rows)
        intake = intake.without(self._arrivals.unreadable([*intake.files, *intake.mixed]))
        before = set(self.out)
        for file in intake.files:
            self.out += identities(file)
        for file in intake.mixed:
            self.out += Counter(identities(file).keys() - before)
        self._taken.update(intake.names)
        self._aside.update(each.name for each in intake.aside)
        return intake

    def catch_up(self, most_rows: int = 1_000_000) -> list[tuple[int, int]]:
        """Of each batch how many files it took, and how many it left."""
        done = []
        while (intake := self.batch(most_rows)).names:
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


def test_a_file_that_the_file_system_does_not_give_is_not_set_aside(tmp_path: Path) -> None:
    """It would never be taken in again, and may be whole (P5)."""
    (seal,) = Recorder(tmp_path).seal([message(0)])
    root = open_root(tmp_path)
    arrivals = Arrivals(root, "default")
    files = arrivals.next(set(), set(), 1).files
    path = tmp_path / "default" / seal.path
    path.unlink()
    assert [each.name for each in arrivals.unreadable(files)] == [seal.name]
    path.symlink_to(path)
    assert arrivals.unreadable(files) == []


@pytest.mark.parametrize("seed", range(12))
def test_every_message_once(tmp_path: Path, seed: int) -> None:
    """Seal, compact, delete, damage, start again and take in, in any order (P5)."""
    chance = random.Random(seed)
    root, job, recorders = open_root(tmp_path), Job(tmp_path), [Recorder(tmp_path, name) for name in "rs"]
    fresh: list[str] = []
    """Compacted files of which the originals are all there."""
    sealed = 0
    for moment in range(40):
        match chance.choice(["seal", "seal", "compact", "sweep", "damage", "start", "batch", "batch", "batch"]):
            case "seal":
                rows = [message(second) for second in range(chance.randint(1, 5))]
                chance.choice(recorders).seal(rows)
                sealed += len(rows)
            case "compact" if sealed:
                with suppress(DamagedError):
                    fresh += [step.path for step in compact(root, now=LATER + timedelta(seconds=moment))]
            case "sweep" if sealed:
                sweep(root, grace=timedelta(0))
                fresh.clear()
            case "damage" if fresh:
                chance.choice([damage, truncate])(tmp_path / "default" / fresh.pop())
            case "start":
                job.start()
            case "batch":
                job.batch(chance.randint(1, 10))
    job.catch_up(chance.randint(1, 10))
    assert sum(job.out.values()) == len(job.out) == sealed
