"""Retention: what goes, what stays, and what `verify` says afterwards (P11)."""

from datetime import timedelta
from pathlib import Path

import pytest

from fumarole.pipeline.archive import open_root, sealed
from fumarole.pipeline.archive.seals import SealedFile
from fumarole.pipeline.archive.verifying import verify
from fumarole.pipeline.errors import TimeError
from fumarole.pipeline.jobs.compacting import compact
from fumarole.pipeline.jobs.expiring import expire, kept
from tests.pipeline.archives import BEGIN, Recorder, change, damage, message

DAY = 86_400
NOW = BEGIN + timedelta(days=40)
KEEP = timedelta(days=30)


def files(folder: Path) -> list[SealedFile]:
    return [file for file in sealed(folder, "default") if file.kind == "messages"]


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """Two files of the first day, one of the twentieth, and what was said on the first."""
    made = Recorder(tmp_path)
    for begin in (0, 5, 20 * DAY):
        made.seal([message(begin + second, "a", "p", 1.0) for second in range(3)])
    made.seal(change(0, "p", {"Room": "410"}), "changes")
    return made


@pytest.mark.parametrize("compacted", [False, True])
def test_old_messages_go_and_verify_knows(tmp_path: Path, recorder: Recorder, compacted: bool) -> None:
    root = open_root(tmp_path)
    if compacted:
        assert len(list(compact(root))) == 1
    number = 1 if compacted else 2
    assert expire(root, KEEP, now=NOW, delete=False)[:2] == (number, 6)
    assert len(files(tmp_path)) == number + 1
    assert expire(root, KEEP, now=NOW)[:2] == (number, 6)
    assert [file.first_time for file in files(tmp_path)] == [int((BEGIN.timestamp() + 20 * DAY) * 1e6)]
    assert len(sealed(tmp_path, "default")) == 2  # what was said stays
    assert not list(tmp_path.glob("default/date=2026-03-01/**/*.parquet"))
    assert verify(tmp_path, "default") == []
    assert expire(root, KEEP, now=NOW) == (0, 0, 0, 0)
    recorder.seal([message(30 * DAY, "a", "p", 1.0)])
    assert verify(tmp_path, "default") == []


def test_only_what_the_standing_job_has_taken_in(tmp_path: Path, recorder: Recorder) -> None:
    first = min(files(tmp_path), key=lambda file: file.first)
    assert expire(open_root(tmp_path), KEEP, taken={first.name}, now=NOW) == (1, 3, first.bytes, 1)
    assert len(files(tmp_path)) == 2
    assert verify(tmp_path, "default") == []


def test_what_is_lost_is_still_a_hole(tmp_path: Path, recorder: Recorder) -> None:
    lost = max(files(tmp_path), key=lambda file: file.first)
    recorder.seal([message(21 * DAY, "a", "p", 1.0)])
    expire(open_root(tmp_path), KEEP, now=NOW)
    (tmp_path / "default" / "_sealed" / f"{lost.name}.json").unlink()
    (tmp_path / "default" / lost.path).unlink()
    assert [(each.fault, each.text) for each in verify(tmp_path, "default")] == [
        ("hole", "messages 6 to 8 are missing (3)")
    ]


def test_a_damaged_file_stays(tmp_path: Path, recorder: Recorder) -> None:
    first = min(files(tmp_path), key=lambda file: file.first)
    damage(tmp_path / "default" / first.path)
    assert expire(open_root(tmp_path), KEEP, now=NOW)[:2] == (1, 3)
    assert [each.fault for each in verify(tmp_path, "default")] == ["damaged", "hole"]


@pytest.mark.parametrize("removals", range(5))
def test_killed_in_between(tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, removals: int) -> None:
    """At every step: nothing is doubled or a stray, and the next one finishes it."""
    root, left = open_root(tmp_path), [removals]
    remove = type(root).remove

    def dying(self: object, *parts: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        remove(root, *parts)

    with monkeypatch.context() as patched:
        patched.setattr(type(root), "remove", dying)
        if removals < 4:
            with pytest.raises(KeyboardInterrupt):
                expire(root, KEEP, now=NOW)
        else:
            expire(root, KEEP, now=NOW)
    assert verify(tmp_path, "default") == []
    expire(root, KEEP, now=NOW + timedelta(seconds=1))
    assert verify(tmp_path, "default") == []
    assert len(files(tmp_path)) == 1
    assert len(list(tmp_path.glob("default/date=*/**/*.parquet"))) == 1


def test_how_long() -> None:
    year = timedelta(days=365)
    assert kept("raw 30 days") == {"raw": timedelta(days=30)}
    assert kept("raw 30 days, 1m 1 year, 1h forever") == {"raw": timedelta(days=30), "1m": year, "1h": None}
    assert kept("raw 2 years,60s 1 year") == {"raw": 2 * year, "1m": year}
    for wrong in ("raw", "raw soon", "", "daily 1 year", "raw 1 day, raw 2 days", "1m 1 year, 60s 2 years"):
        with pytest.raises(TimeError):
            kept(wrong)
