"""Compaction by itself; beside a job it is in `test_standing`."""

from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from fumarole.pipeline.archive import sealed
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
    with pytest.raises(ArchiveError, match=rf"{damaged} cannot be read .*verify --set-aside"):
        list(compact(root, now=LATER))
    assert [file.name for file in sealed(root, "default")] == [seal.name for seal in seals]


def test_a_damaged_file_holds_up_only_those_beside_it(tmp_path: Path) -> None:
    """It is named when all else is done, and the advice that is given helps."""
    recorder, root = Recorder(tmp_path), open_root(tmp_path)
    seals = [seal for second in (0, 1, 2, 3600, 3601) for seal in recorder.seal([message(second)])]
    damage(tmp_path / "default" / seals[0].path)
    with pytest.raises(DamagedError, match=rf"{seals[0].name}.parquet cannot be read .*verify --set-aside"):
        list(compact(root, now=LATER))
    assert [len(file.replaces) for file in sealed(root, "default")] == [0, 0, 0, 2]
    assert len(set_aside(root, "default", verify(root, "default"))) == 2
    assert [step.files for step in compact(root, now=LATER + timedelta(seconds=1))] == [2]


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
