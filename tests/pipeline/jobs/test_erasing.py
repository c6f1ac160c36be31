"""Deleting a producer from an archive: nothing of it is left, all else is, and `verify` knows (P11)."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fumarole.pipeline.archive import open_root, sealed
from fumarole.pipeline.archive.places import Root
from fumarole.pipeline.archive.verifying import verify
from fumarole.pipeline.jobs.compacting import DamagedError, compact
from fumarole.pipeline.jobs.erasing import erase
from tests.pipeline.archives import BEGIN, Recorder, change, damage, message

GOES, STAYS = "6f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60", "0b0a7c1e-93f5-4f0e-8d3a-5c8f1f9b2a11"


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """One file of both, one of each alone, one without producers that says that it was forgotten."""
    made = Recorder(tmp_path)
    made.seal([message(second, "a", GOES if second % 3 == 1 else STAYS, 1.0) for second in range(9)])
    made.seal([message(20, "a", GOES, 1.0)])
    made.seal([message(30, "a", STAYS, 1.0)])
    forgotten = {**message(40, "_FORGOTTEN"), "payload": GOES.encode()}
    made.seal([message(39, f"readings.{GOES}"), forgotten, message(41, "b")])
    made.seal(change(0, GOES, {"Room": "410"}) + change(0, STAYS, {"Room": "411"}), "changes")
    return made


def contents(folder: Path) -> list[tuple[Any, ...]]:
    found = []
    for file in sealed(folder, "default"):
        rows = pq.read_table(file.uri, partitioning=None).to_pylist()
        found += [(file.kind, row["producer"], row["sequence"]) for row in rows]
    return sorted(found, key=str)


LEFT = sorted(
    [
        *[("messages", STAYS, number) for number in (0, 2, 3, 5, 6, 8, 10)],
        ("messages", None, 13),
        ("changes", STAYS, 1),
    ],
    key=str,
)


def check(folder: Path) -> None:
    assert contents(folder) == LEFT
    assert verify(folder, "default") == []
    for file in (folder / "default").rglob("*.parquet"):
        assert GOES not in str(pq.read_table(file, partitioning=None).to_pylist())
    for file in (folder / "default").rglob("*"):
        assert file.is_dir() or GOES.encode() not in file.read_bytes()


@pytest.mark.parametrize("compacted", [False, True])
def test_nothing_of_it_is_left(tmp_path: Path, recorder: Recorder, compacted: bool) -> None:
    root = open_root(tmp_path)
    if compacted:  # what was replaced lies there still
        assert len(list(compact(root))) == 1
    before = contents(tmp_path)
    assert erase(root, GOES, delete=False)[1:] == (6, 1)
    assert contents(tmp_path) == before
    assert erase(root, GOES)[1:] == (6, 1)
    check(tmp_path)
    assert erase(root, GOES) == (0, 0, 0)
    assert len(list(compact(root, now=BEGIN + timedelta(days=2)))) == (not compacted)
    check(tmp_path)
    recorder.seal([message(50, "a", STAYS, 1.0)])
    assert verify(tmp_path, "default") == []


@pytest.mark.parametrize("steps", range(12))
def test_killed_at_every_step(tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Nothing else is lost or doubled meanwhile, and the next one finishes it."""
    root, left = open_root(tmp_path), [steps]

    def counted(name: str) -> None:
        real = getattr(Root, name)

        def dying(self: Root, *given: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return real(self, *given)

        patched.setattr(Root, name, dying)

    with monkeypatch.context() as patched:
        counted("put")
        counted("remove")
        with pytest.raises(KeyboardInterrupt):
            erase(root, GOES)
    assert {row for row in contents(tmp_path) if row[1] != GOES} >= {row for row in LEFT if row[1] is not None}
    assert [problem for problem in verify(tmp_path, "default") if problem.fault != "unsealed"] == []
    erase(root, GOES)
    list(compact(root, now=BEGIN + timedelta(days=2)))  # deletes a file that was put and not sealed
    check(tmp_path)


def test_a_file_that_cannot_be_searched_is_named(tmp_path: Path, recorder: Recorder) -> None:
    file = next(file for file in sealed(tmp_path, "default") if file.kind == "messages")
    damage(Path(file.uri))
    with pytest.raises(DamagedError, match=rf"{file.name}.parquet cannot be searched .*--set-aside"):
        erase(open_root(tmp_path), GOES)
