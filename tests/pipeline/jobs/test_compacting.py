"""Compaction by itself; beside a job it is in `test_standing`."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset, fs

from fumarole.pipeline.archive import sealed, writing
from fumarole.pipeline.archive.places import Root, open_root
from fumarole.pipeline.archive.verifying import set_aside, verify
from fumarole.pipeline.errors import ArchiveError, PipelineError
from fumarole.pipeline.jobs.compacting import ROW_GROUP_BYTES, DamagedError, compact, sweep
from tests.pipeline.archives import BEGIN, Recorder, damage, message

LATER = BEGIN + timedelta(days=1)


def test_one_at_a_time(tmp_path: Path) -> None:
    """Two at once would both replace the same files, and every message would be there twice (P1)."""
    recorder, root = Recorder(tmp_path), open_root(tmp_path)
    for second in (0, 1, 3600, 3601):
        recorder.seal([message(second)])
    first = compact(root, now=LATER)
    assert next(first).rows == 2
    with pytest.raises(PipelineError, match=r"a compaction of .*/default runs already"):
        list(compact(root, now=LATER + timedelta(seconds=1)))
    with pytest.raises(PipelineError, match="runs already"):
        sweep(root, grace=timedelta(0))
    assert [step.rows for step in first] == [2]
    assert [(file.rows, len(file.replaces)) for file in sealed(root, "default")] == [(2, 2), (2, 2)]
    assert sweep(root, grace=timedelta(0)) == 4
    assert list(compact(root, now=LATER)) == []
    assert verify(root, "default") == []


def test_a_damaged_file_is_named_and_nothing_replaced(tmp_path: Path) -> None:
    recorder, root = Recorder(tmp_path), open_root(tmp_path)
    seals = [seal for second in (0, 1) for seal in recorder.seal([message(second)])]
    damaged = tmp_path / "default" / seals[1].path
    damaged.write_bytes(damaged.read_bytes()[:-10])
    with pytest.raises(ArchiveError, match=rf"{damaged} cannot be joined \(it has .* bytes, .*verify --set-aside"):
        list(compact(root, now=LATER))
    assert [file.name for file in sealed(root, "default")] == [seal.name for seal in seals]


def test_a_damaged_file_holds_up_only_those_beside_it(tmp_path: Path) -> None:
    """It is named when all else is done, and the advice that is given helps."""
    recorder, root = Recorder(tmp_path), open_root(tmp_path)
    seals = [seal for second in (0, 1, 2, 3600, 3601) for seal in recorder.seal([message(second)])]
    damage(tmp_path / "default" / seals[0].path)
    with pytest.raises(DamagedError, match=rf"{seals[0].name}.parquet cannot be joined .*verify --set-aside"):
        list(compact(root, now=LATER))
    assert [len(file.replaces) for file in sealed(root, "default")] == [0, 0, 0, 2]
    assert len(set_aside(root, "default", verify(root, "default"))) == 2
    assert [step.files for step in compact(root, now=LATER + timedelta(seconds=1))] == [2]


def test_one_bit_of_a_footer(tmp_path: Path) -> None:
    """Names and types of columns are there: other times, or a column that is gone, must not become what was sealed."""
    recorder, root = Recorder(tmp_path), open_root(tmp_path)
    first, *_ = (seal for second in (0, 1, 3600, 3601) for seal in recorder.seal([message(second)]))
    path = tmp_path / "default" / first.path
    whole = path.read_bytes()
    begin = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    name = whole.index(b"topic", begin)
    for moment, at in enumerate((name, *range(begin, len(whole), 151))):
        data = bytearray(whole)
        data[at] ^= 0x10
        path.write_bytes(data)
        with pytest.raises(DamagedError, match=rf"{first.name}.parquet cannot be joined"):
            list(compact(root, now=LATER + timedelta(seconds=moment)))
    assert [len(file.replaces) for file in sealed(root, "default")] == [0, 0, 2]
    path.write_bytes(whole)
    assert [step.files for step in compact(root, now=LATER)] == [2]
    assert verify(root, "default") == []


class Killed(BaseException):
    """As if the process had ended here."""


def kill(*_: object) -> None:
    raise Killed


@pytest.mark.parametrize(
    ("place", "name", "where"), [(Root, "move", "_writing"), (writing, "put_seal", "date=2026-03-01/hour=12")]
)
def test_what_a_killed_compaction_left_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: object, name: str, where: str
) -> None:
    """But nothing that was sealed once, nor what others left."""
    recorder, root = Recorder(tmp_path), open_root(tmp_path)
    for second in (0, 1):
        recorder.seal([message(second)])
    with monkeypatch.context() as patch:
        patch.setattr(place, name, kill)
        with pytest.raises(Killed):
            list(compact(root, now=LATER))
    folder = tmp_path / "default"
    hour = folder / "date=2026-03-01" / "hour=12"
    (left,) = folder.rglob("compacted~*")
    assert left.parent == folder / where
    others = [folder / "_writing" / "s-1-000000000000.parquet", hour / "s-1-000000000000.parquet"]
    others += [hour / f"compacted~-{number}-000000000000.parquet" for number in (1, 2)]
    for path in others:
        path.write_text("of others")
    (folder / "_sealed" / "compacted~-1-000000000000.json").write_text("a seal that was damaged")
    (folder / "_aside" / "_sealed").mkdir(parents=True)
    (folder / "_aside" / "_sealed" / "compacted~-2-000000000000.json").write_text("a seal that was set aside")
    (step,) = compact(root, now=LATER + timedelta(seconds=1))
    assert [path for path in (left, *others) if path.exists()] == others
    assert (folder / step.path).exists()


def test_what_was_replaced_by_a_file_that_is_damaged_is_not_deleted(tmp_path: Path) -> None:
    recorder, root = Recorder(tmp_path), open_root(tmp_path)
    seals = [seal for second in (0, 1) for seal in recorder.seal([message(second)])]
    (step,) = compact(root, now=LATER)
    damage(tmp_path / "default" / step.path)
    assert sweep(root, grace=timedelta(0)) == 0
    set_aside(root, "default", verify(root, "default"))
    assert [file.name for file in sealed(root, "default")] == [seal.name for seal in seals]
    assert verify(root, "default") == []


def test_groups_of_large_payloads_are_not_huge(tmp_path: Path) -> None:
    recorder, root = Recorder(tmp_path), open_root(tmp_path)
    for second in range(5):
        recorder.seal([message(second) | {"payload": bytes(ROW_GROUP_BYTES // 2)}])
    (step,) = compact(root, now=LATER)
    footer = pq.read_metadata(tmp_path / "default" / step.path)
    assert [footer.row_group(number).num_rows for number in range(footer.num_row_groups)] == [2, 2, 1]


def test_on_another_file_system() -> None:
    root = Root(fs._MockFileSystem(), "bucket/archive", "mock://bucket/archive")
    recorder = Recorder(root)
    for second in (0, 1):
        recorder.seal([message(second)])
    assert [step.files for step in compact(root, now=LATER)] == [2]
    assert verify(root, "default") == []


def test_quiet_hours_of_a_day_become_one_file(tmp_path: Path) -> None:
    """Not those of a day that has just ended, nor a busy hour; and all is found by time as before."""
    recorder, root = Recorder(tmp_path), open_root(tmp_path)
    for hour in (0, 1, 2, 3, 30):
        recorder.seal([message(3600 * hour + second, f"t{hour}") for second in range(500 if hour == 2 else 2)])
    size = 24 * max(file.bytes for file in sealed(root, "default") if file.rows == 2)
    after = timedelta(days=1)
    assert list(compact(root, now=BEGIN + timedelta(days=1), target=size, days_after=after)) == []
    (step,) = compact(root, now=BEGIN + timedelta(days=2), target=size, days_after=after)
    assert (step.files, step.rows, step.path[:15]) == (3, 6, "date=2026-03-01")
    assert sweep(root, grace=timedelta(0)) == 3
    assert verify(root, "default") == []
    rows = [file.rows for file in sealed(root, "default", BEGIN + timedelta(hours=1), BEGIN + timedelta(hours=2))]
    assert rows == [6]
    assert [file.rows for file in sealed(root, "default", topics="t30")] == [2]
    assert [file.rows for file in sealed(root, "default", topics="t0")] == [6]
    assert sealed(root, "default", topics="u") == []
    assert list(compact(root, now=BEGIN + timedelta(days=2), target=size, days_after=after)) == []


def test_the_folder_of_a_day_is_a_null_hour_to_others(tmp_path: Path) -> None:
    recorder, root = Recorder(tmp_path), open_root(tmp_path)
    for hour in (0, 1):
        recorder.seal([message(3600 * hour)])
    assert len(list(compact(root, now=BEGIN + timedelta(days=3), days_after=timedelta(days=1)))) == 1
    sweep(root, grace=timedelta(0))
    (file,) = sealed(root, "default")
    layout = dataset.partitioning(pa.schema([("date", pa.string()), ("hour", pa.int32())]), flavor="hive")
    hive = dataset.dataset(file.uri, partitioning=layout, partition_base_dir=str(tmp_path / "default"))
    assert hive.to_table(columns=["date", "hour"]).to_pylist() == [{"date": "2026-03-01", "hour": None}] * 2
