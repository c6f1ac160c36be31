"""The standing job's log where nobody can be kept from starting a second job. The rest is in `test_standing`."""

import os
from datetime import timedelta
from pathlib import Path

import pytest
from pyarrow import fs

from fumarole.pipeline.archive.places import Root
from fumarole.pipeline.jobs.log import GRACE, Entry, Folder, Job, JobError, Log
from tests.pipeline.archives import BEGIN

RUNNING = Folder(table="readings", name="batch=000000000001-a", rows=1)


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
    with pytest.raises(JobError, match=r"mock://bucket/out/readings/batch=000000000001-a is gone"):
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
