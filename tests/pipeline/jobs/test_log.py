"""The standing job's log: where a second job cannot be prevented, and after very many batches.

The rest is in `test_standing`.
"""

import os
import random
from datetime import timedelta
from pathlib import Path

import pytest
from pyarrow import fs

from fumarole.pipeline.archive.places import Root
from fumarole.pipeline.jobs import log as jobs_log
from fumarole.pipeline.jobs.log import GRACE, LOG, Aside, Entry, Folder, Job, JobError, Log, State, entry_name, sum_name
from tests.pipeline.archives import BEGIN

RUNNING = Folder(table="readings", name="batch-000000000001-a", rows=1)


@pytest.fixture
def log() -> Log:
    """On a file system that is not local, where a job is in the middle of its first batch."""
    log = Log(Root(fs._MockFileSystem(current_time=BEGIN), "bucket/out", "mock://bucket/out"))
    log.begin(Job(archive="a", namespace="default", windows=("1m",), lateness=600, grain=1))
    folder = f"{RUNNING.path}/date=2026-03-01/hour=12"
    log.root.system.create_dir(log.root.at(folder))
    with log.root.system.open_output_stream(log.root.at(folder, "part-0.parquet")) as stream:
        stream.write(b"rows")
    return log


def test_what_another_job_is_writing_is_not_swept(log: Log) -> None:
    state = log.state()
    assert log.sweep(state, BEGIN + timedelta(minutes=59)) == []
    log.commit(Entry(number=1, seals=("r-1-0",), folders=(RUNNING,)))
    log.check_lost(log.state(), log.job())
    with pytest.raises(JobError, match=r"another job has written batch 1 of mock://bucket/out"):
        log.commit(Entry(number=1, seals=("r-1-0",), folders=()))


def test_what_a_dead_driver_left_is_swept_after_a_while(log: Log) -> None:
    assert log.sweep(log.state(), BEGIN + GRACE) == [RUNNING.path]
    assert log.written() == []


def test_a_batch_whose_folders_are_gone_does_not_count(log: Log) -> None:
    log.root.system.delete_dir(log.root.at(RUNNING.path))
    with pytest.raises(JobError, match=r"mock://bucket/out/readings/batch-000000000001-a is gone"):
        log.commit(Entry(number=1, seals=("r-1-0",), folders=(RUNNING,)))
    assert log.state().number == 0


def test_names_of_folders_are_synced_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is in the folder above: without it a power failure takes away what the log says is there."""
    synced: set[Path] = set()

    def sync(handle: int) -> None:
        synced.add(Path(f"/proc/self/fd/{handle}").readlink())

    file = tmp_path / RUNNING.path / "date=2026-03-01" / "part-0.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"rows")
    monkeypatch.setattr(os, "fsync", sync)
    Log(tmp_path).sync([RUNNING.path])
    folders = (file.parent, tmp_path / RUNNING.path, tmp_path / "readings", tmp_path)
    assert synced == {file, *folders}


def batches(log: Log, count: int, seed: int = 1) -> list[Entry]:
    """Each takes something in, writes a folder, and now and then replaces some."""
    chance = random.Random(seed)
    made: list[Entry] = []
    standing: list[str] = []
    for number in range(1, count + 1):
        folder = Folder(table="readings", name=f"batch-{number:012d}-a", rows=number, last=number)
        log.root.system.create_dir(log.root.at(folder.path))
        replaces = tuple(standing) if len(standing) > 6 else ()
        standing = [*(standing if not replaces else []), folder.path]
        aside = (Aside(name=f"r-{number}-1", reason="torn"),) if chance.random() < 0.2 else ()
        seals = (f"r-{number}-0", f"r-{number}-1")
        newest = chance.randrange(1000)
        made.append(
            Entry(
                number=number,
                seals=seals,
                folders=(folder,),
                replaces=replaces,
                aside=aside,
                messages=number,
                late=number % 3,
                newest=newest,
            )
        )
    return made


def done(log: Log, state: State, entry: Entry) -> None:
    """A batch, after a long time: what can be deleted is."""
    log.commit(entry)
    state.add(entry)
    log.sum_up(state, BEGIN + GRACE)


def names(log: Log) -> list[str]:
    return sorted(path.removeprefix(f"{LOG}/") for path, _ in log.root.files(LOG))


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums are written every tenth time."""
    monkeypatch.setattr(jobs_log, "SUM_EVERY", 10)


@pytest.mark.usefixtures("often")
def test_sums_come_to_the_same_as_all_batches(log: Log) -> None:
    definition = State()
    for entry in batches(log, 95):
        log.commit(entry)
        definition.add(entry)
        now = BEGIN + (GRACE if entry.number > 45 else GRACE / 2)
        log.sum_up(definition, now)
        assert Log(log.root).state() == definition
        if entry.number == 45:
            assert len(names(log)) == len(["job.json"]) + 45 + 4, "those who are reading may still need them"
    assert names(log) == [sum_name(90), *(entry_name(number) for number in range(91, 96)), "job.json"]


@pytest.mark.usefixtures("often")
def test_batches_that_were_summed_up_are_not_done_again(log: Log) -> None:
    state = State()
    *before, last = batches(log, 21)
    for entry in before:
        done(log, state, entry)
    assert names(log) == [sum_name(20), "job.json"]
    for entry in before:
        with pytest.raises(JobError, match=rf"another job has written batch {entry.number} of"):
            log.commit(entry)
    log.commit(last)
    assert log.state().number == 21


@pytest.mark.usefixtures("often")
def test_folders_are_swept_also_when_nobody_knows_any_longer_when_they_were_replaced(log: Log) -> None:
    state = State()
    for entry in batches(log, 20):
        log.commit(entry)
        state.add(entry)
    standing = set(state.folders)
    replaced = set(state.replaced)
    log.sum_up(state, BEGIN + GRACE)
    reopened = log.state()
    swept = log.sweep(reopened, BEGIN + GRACE / 2)
    assert set(swept) == replaced
    assert standing <= set(log.written())
    assert reopened.replaced == {}


@pytest.mark.usefixtures("often")
def test_a_sum_that_is_gone_or_torn(log: Log) -> None:
    state = State()
    for entry in batches(log, 12):
        done(log, state, entry)
    whole = log.root.read(LOG, sum_name(10))
    log.root.put(LOG, sum_name(10), whole[:-9])
    with pytest.raises(JobError, match=r"000000000010\.sum\.json is not what a job wrote"):
        log.state()
    log.root.remove(LOG, sum_name(10))
    with pytest.raises(JobError, match=r"batch 1 is missing from .*, though batch 11 is there"):
        log.state()
    log.root.put(LOG, sum_name(10), whole)
    assert log.state() == state
