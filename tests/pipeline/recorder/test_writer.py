"""From columns to sealed files: rolling, hours, clocks that go back, and disks that take nothing for a while."""

from __future__ import annotations

import errno
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fumarole.client.capture import Columns, gather
from fumarole.pipeline.archive import open_root, sealed
from fumarole.pipeline.archive.places import Root
from fumarole.pipeline.archive.seals import Seal
from fumarole.pipeline.archive.verifying import verify
from fumarole.pipeline.recorder import writer as writing
from fumarole.pipeline.recorder.writer import Rolling, Writer

NOON = 1_794_744_000_000_000
HOUR = 3_600_000_000


def batch(numbers: range, time: int = NOON, size: int = 0) -> Columns:
    return gather(((f"t.{number % 3}", str(number).encode() + b"x" * size, []) for number in numbers), time)


def write(root: Root, batches: list[Columns], rolling: Rolling | None = None) -> list[Seal]:
    seals: list[Seal] = []
    writer = Writer(root, "default", "r", 1, "g", rolling or Rolling(), seals.append)
    writer.start()
    for columns in batches:
        writer.add(columns)
    writer.finish(1.0)
    assert writer.backlog == 0
    return seals


def payloads(folder: Path) -> list[bytes]:
    """By sequence."""
    files = [file.uri for file in sealed(folder, "default") if file.kind == "messages"]
    rows = pa.concat_tables([pq.read_table(file, partitioning=None) for file in files]).sort_by("sequence")
    assert rows["sequence"].to_pylist() == list(range(rows.num_rows))
    found: list[bytes] = rows["payload"].to_pylist()
    return found


def test_everything_is_there_once_and_in_order(tmp_path: Path) -> None:
    seals = write(open_root(tmp_path), [batch(range(start, start + 100)) for start in range(0, 1_000, 100)])
    assert [(seal.rows, seal.first, seal.last) for seal in seals] == [(1_000, 0, 999)]
    assert payloads(tmp_path) == [str(number).encode() for number in range(1_000)]
    assert verify(tmp_path, "default") == []


def test_files_roll_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", 50)
    seals = write(
        open_root(tmp_path), [batch(range(start, start + 60)) for start in range(0, 600, 60)], Rolling(size=2_000)
    )
    assert len(seals) > 2
    assert len(payloads(tmp_path)) == 600


def test_files_that_are_smaller_than_a_row_group(tmp_path: Path) -> None:
    batches = [batch(range(start, start + 60)) for start in range(0, 600, 60)]
    assert len(write(open_root(tmp_path), batches, Rolling(size=1_024))) == 10
    assert len(payloads(tmp_path)) == 600


def test_each_hour_its_own_and_a_clock_that_goes_back(tmp_path: Path) -> None:
    times = [NOON, NOON + HOUR, NOON, NOON - 1, NOON + HOUR]
    seals = write(open_root(tmp_path), [batch(range(at * 10, at * 10 + 10), time) for at, time in enumerate(times)])
    assert [(seal.path[16:23], seal.first) for seal in seals] == [
        ("hour=12", 0),
        ("hour=13", 10),
        ("hour=12", 20),
        ("hour=11", 30),
        ("hour=13", 40),
    ]
    assert len({seal.path for seal in seals}) == 5
    assert payloads(tmp_path) == [str(number).encode() for number in range(50)]
    assert verify(tmp_path, "default") == []


def test_large_payloads_are_not_held_back(tmp_path: Path) -> None:
    seals = write(open_root(tmp_path), [batch(range(at, at + 1), size=1 << 20) for at in range(40)])
    assert sum(seal.rows for seal in seals) == 40
    assert {len(payload) for payload in payloads(tmp_path)} == {(1 << 20) + 1, (1 << 20) + 2}


def test_changes_have_a_sequence_of_their_own(tmp_path: Path) -> None:
    one = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
    said = gather(
        [("a", b"1", [("Producer", one), ("Metadata", '{"Room": "410", "Floor": 4}')]), ("a", b"2", [])], NOON
    )
    seals = write(open_root(tmp_path), [said, said])
    assert sorted((seal.kind, seal.rows, seal.first, seal.last) for seal in seals) == [
        ("changes", 4, 0, 3),
        ("messages", 4, 0, 3),
    ]
    (changes,) = [file for file in sealed(tmp_path, "default") if file.kind == "changes"]
    assert changes.path.startswith("_changes/date=2026-11-15/")
    rows = pq.read_table(changes.uri, partitioning=None).to_pylist()
    assert [(row["key"], row["sequence"], row["text"], row["number"]) for row in rows[:2]] == [
        ("Room", 0, "410", None),
        ("Floor", 1, None, 4.0),
    ]


def test_of_a_topic_that_is_left_out_only_the_changes_are_there(tmp_path: Path) -> None:
    one = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
    farewell = ("gone", one.encode(), [("Producer", one), ("Metadata", '{"Room": null}')])
    said = [("a", b"1", [("Producer", one), ("Metadata", '{"Room": "410"}')]), farewell, ("not.gone", b"2", [])]
    seals: list[Seal] = []
    writer = Writer(open_root(tmp_path), "default", "r", 1, "g", Rolling(), seals.append, "gone")
    writer.start()
    writer.add(gather(said, NOON))
    writer.add(gather([farewell], NOON))
    writer.finish(1.0)
    assert (writer.progress.captured, writer.progress.confirmed, writer.backlog) == (2, 2, 0)
    assert payloads(tmp_path) == [b"1", b"2"]
    assert sorted((seal.kind, seal.rows) for seal in seals) == [("changes", 3), ("messages", 2)]


def test_all_that_is_needed_is_loaded_before_the_first_rows(tmp_path: Path) -> None:
    """A recorder that receives messages meanwhile would stand still for a second, and misdate them."""
    code = """
import sys
from tests.pipeline.recorder.test_writer import NOON, Rolling, Writer, batch, open_root

writer = Writer(open_root(sys.argv[1]), "default", "r", 1, "g", Rolling(), lambda seal: None)
writer.start()
before = set(sys.modules)
writer.add(batch(range(10)))
writer.finish(1.0)
print(*(set(sys.modules) - before))
"""
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert run.stdout.split() == []


@dataclass(frozen=True, slots=True)
class FullDisk(Root):
    """Takes nothing for as many times as there are entries left."""

    refusals: list[None]

    def put(self, namespace: str, path: str, data: bytes | pa.Buffer) -> None:
        if self.refusals:
            self.refusals.pop()
            raise OSError(errno.ENOSPC, "No space left on device")
        Root.put(self, namespace, path, data)


def full_disk(folder: Path, times: int) -> FullDisk:
    root = open_root(folder)
    return FullDisk(root.system, root.folder, root.name, [None] * times)


def test_a_full_disk_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "RETRY_SECONDS", 0.01)
    assert [seal.rows for seal in write(full_disk(tmp_path, 20), [batch(range(100))])] == [100]
    assert payloads(tmp_path) == [str(number).encode() for number in range(100)]


def test_what_cannot_wait_is_lost_and_the_hole_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(writing, "MOST_BACKLOG", 1_000)
    root = full_disk(tmp_path, 1_000_000)
    seals: list[Seal] = []
    writer = Writer(root, "default", "r", 1, "g", Rolling(seconds=0.01), seals.append)
    writer.start()
    writer.add(batch(range(10)))
    while not writer.progress.fault:
        pass
    assert writer.progress.fault == "No space left on device"
    for start in range(10, 510, 100):
        writer.add(batch(range(start, start + 100)))
    assert writer.progress.lost == 400
    assert writer.is_stuck
    assert not writer.add_changes(pa.table({"key": ["not taken"]}))
    root.refusals.clear()
    while writer.progress.fault or writer.is_full:
        pass
    writer.add(batch(range(510, 520)))
    writer.finish(1.0)
    progress = writer.progress
    assert (progress.captured, progress.confirmed, progress.lost, progress.fault) == (520, 120, 400, "")
    assert [(seal.first, seal.last) for seal in seals][-1] == (510, 519)
    assert [str(problem) for problem in verify(tmp_path, "default")] == ["r-1: messages 110 to 509 are missing (400)"]


def test_a_disk_that_stays_full_ends_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "RETRY_SECONDS", 0.01)
    with pytest.raises(OSError, match="No space left"):
        write(full_disk(tmp_path, 1_000_000), [batch(range(10))])
    assert not list(tmp_path.rglob("*.parquet"))


@dataclass(frozen=True, slots=True)
class SlowDisk(Root):
    """Takes its time, and fails at some of the files, once each."""

    failing: list[str]

    def put(self, namespace: str, path: str, data: bytes | pa.Buffer) -> None:
        time.sleep(0.02)
        if self.failing and self.failing[0] in path:
            raise OSError(errno.EIO, f"{self.failing.pop(0)} failed")
        Root.put(self, namespace, path, data)


def test_patience_begins_with_the_fault_and_not_with_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A passing fault late in a long end is waited for as one at its beginning is."""
    monkeypatch.setattr(writing, "RETRY_SECONDS", 0.01)
    root = open_root(tmp_path)
    disk = SlowDisk(root.system, root.folder, root.name, ["000000000540.parquet"])
    writer = Writer(disk, "default", "r", 1, "g", Rolling(size=1_024), lambda _: None)
    for start in range(0, 600, 60):
        writer.add(batch(range(start, start + 60)))
    writer.start()
    writer.finish(0.1)
    assert disk.failing == []
    assert writer.progress.confirmed == 600
