"""The standing job in one process: what goes in, what comes out, and what it refuses."""

import random
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fumarole import pipeline
from fumarole.pipeline.archive.places import open_root
from fumarole.pipeline.errors import ArchiveError
from fumarole.pipeline.jobs import standing
from fumarole.pipeline.jobs.compacting import compact, sweep
from fumarole.pipeline.jobs.log import JobError, Log
from fumarole.pipeline.jobs.standing import BatchReport, StandingJob, alone
from fumarole.pipeline.transforms.enrich import enrich
from tests.pipeline.archives import BEGIN, NOISE, Recorder, alter, change, damage, message
from tests.pipeline.jobs.checks import check_exact


def some(seed: int, count: int = 40, begin: float = 0) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        message(
            begin + chance.uniform(0, 90), chance.choice(["a", "a.b"]), chance.choice(["p", "q", None]), chance.random()
        )
        for _ in range(count)
    ]


def catch_up(spark: SparkSession, archive: Path, out: Path, **options: Any) -> list[BatchReport]:
    return list(StandingJob(spark, archive, out, open_tables=False, **options).catch_up())


def metadata(spark: SparkSession, out: Path) -> dict[tuple[str, int], dict[str, Any]]:
    found = pipeline.output(spark, out, "readings").collect()
    return {
        (row["recorder"], row["sequence"]): {key: value[value["kind"]] for key, value in row["metadata"].items()}
        for row in found
    }


def test_batch_after_batch(spark: SparkSession, tmp_path: Path) -> None:
    archive, out = tmp_path / "archive", tmp_path / "out"
    one, two = Recorder(archive, "one"), Recorder(archive, "two")
    one.seal(some(1))
    job = StandingJob(spark, archive, out, open_tables=False)
    assert [each.rows for each in job.catch_up()] == [40]
    assert list(job.catch_up()) == []
    one.seal(some(2))
    two.seal(some(3))
    assert [each.rows for each in job.catch_up()] == [80]
    two.seal(some(4, begin=4000))
    assert [each.rows for each in catch_up(spark, archive, out)] == [40]
    assert check_exact(spark, archive, out) == 160
    hours = pipeline.output(spark, out, "rollup", every="1 hour").collect()
    assert sum(row["count"] for row in hours) == 160
    with pytest.raises(JobError, match="no windows of 5m, but of 1m, 1h"):
        pipeline.output(spark, out, "rollup", every="5 minutes")
    with pytest.raises(JobError, match="no table 'x'"):
        pipeline.output(spark, out, "x")


def test_batches_of_a_bounded_size(spark: SparkSession, tmp_path: Path) -> None:
    archive, out = tmp_path / "archive", tmp_path / "out"
    Recorder(archive).seal(some(1, 50), most_rows=20)
    assert [(each.rows, each.left) for each in catch_up(spark, archive, out, most_rows=40)] == [(40, 1), (10, 0)]
    check_exact(spark, archive, out)


def test_late_messages_are_counted_and_counted_in(spark: SparkSession, tmp_path: Path) -> None:
    archive, out = tmp_path / "archive", tmp_path / "out"
    recorder = Recorder(archive)
    recorder.seal([message(3000, "a", "p", 1.0)])
    job = StandingJob(spark, archive, out, open_tables=False, lateness="10 minutes")
    assert [each.late for each in job.catch_up()] == [0]
    recorder.seal([message(0, "a", "p", 2.0), message(2401, "a", "p", 3.0), message(3001, "a", "p", 3.0)])
    (progress,) = job.catch_up()
    assert (progress.late, progress.watermark) == (1, BEGIN + timedelta(seconds=3001 - 600))
    check_exact(spark, archive, out)


def test_metadata_that_is_sealed_late(spark: SparkSession, tmp_path: Path) -> None:
    """A change may be sealed after the readings for which it held. They are described anew, once each."""
    archive, out = tmp_path / "archive", tmp_path / "out"
    recorder = Recorder(archive)
    recorder.seal([message(10, "a", "p", 1.0), message(20, "a", "p", 2.0)])
    job = StandingJob(spark, archive, out, open_tables=False)
    assert [each.again for each in job.catch_up()] == [0]
    recorder.seal([message(500, "a", "p", 3.0)])
    recorder.seal(change(15, "p", {"Room": "410"}), "changes")
    assert [(each.rows, each.again) for each in job.catch_up()] == [(1, 2)]
    assert metadata(spark, out) == {("r", 0): {}, ("r", 1): {"Room": "410"}, ("r", 2): {"Room": "410"}}
    recorder.seal(change(400, "p", {"Room": None, "Floor": 4}), "changes")
    assert [(each.rows, each.again) for each in job.catch_up()] == [(0, 1)]
    assert metadata(spark, out) == {("r", 0): {}, ("r", 1): {"Room": "410"}, ("r", 2): {"Floor": 4.0}}
    check_exact(spark, archive, out)


def test_gaps(spark: SparkSession, tmp_path: Path) -> None:
    archive, out = tmp_path / "archive", tmp_path / "out"
    recorder = Recorder(archive)
    recorder.seal([message(second, "a", "p", 1.0) for second in (*range(10), *range(60, 70))])
    job = StandingJob(spark, archive, out, open_tables=False)
    list(job.catch_up())
    recorder.seal([message(second, "a", "p", 1.0) for second in (30, 31, 70, 71)])
    list(job.catch_up())
    found = [
        (row["since"].timestamp() - BEGIN.timestamp(), row["seconds"])
        for row in pipeline.output(spark, out, "gaps").collect()
    ]
    assert sorted(found) == [(9.0, 21.0), (31.0, 29.0)]


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-50])


def replace(file: Path) -> None:
    file.write_bytes(b"x" * file.stat().st_size)


def test_files_that_are_damaged_inside_are_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    """Also a file of changes that could be read when it was taken in."""
    archive, out = tmp_path / "archive", tmp_path / "out"
    recorder = Recorder(archive)
    (said,) = recorder.seal(change(0, "p", {"Room": "410"}), "changes")
    recorder.seal([message(1, "a", "p", 1.0)])
    (progress,) = catch_up(spark, archive, out)
    assert progress.aside == ()
    (broken,) = recorder.seal([message(2, "a", "p", 1.0)])
    recorder.seal([message(3, "a", "p", 2.0)])
    for seal in (said, broken):
        damage(archive / "default" / seal.path)
    (progress,) = catch_up(spark, archive, out)
    assert sorted(progress.aside) == [
        f"{name}: it has other bytes than were sealed" for name in sorted((said.name, broken.name))
    ]
    assert sorted(row["sequence"] for row in pipeline.output(spark, out, "readings").collect()) == [0, 2]
    assert catch_up(spark, archive, out) == []


def test_a_bit_that_changes_in_a_file_of_changes_that_was_taken_in(spark: SparkSession, tmp_path: Path) -> None:
    """It is read again with each batch, and its length, its footer and its form are as they were."""
    archive, out = tmp_path / "archive", tmp_path / "out"
    recorder = Recorder(archive)
    (said,) = recorder.seal(change(0, "p", {"Room": NOISE.decode()}), "changes")
    (progress,) = catch_up(spark, archive, out)
    assert (progress.rows, progress.lag, progress.watermark) == (0, None, None), "no message, no time to tell of"
    alter(archive / "default" / said.path)
    recorder.seal([message(1, "a", "p", 1.0)])
    (progress,) = catch_up(spark, archive, out)
    assert progress.aside == (f"{said.name}: it has other bytes than were sealed",)
    assert progress.lag is not None
    assert progress.watermark == BEGIN + timedelta(seconds=1 - 600)
    assert metadata(spark, out) == {("r", 0): {}}


def test_a_damaged_file_of_changes_brings_back_one_that_is_damaged_too(spark: SparkSession, tmp_path: Path) -> None:
    archive, out = tmp_path / "archive", tmp_path / "out"
    recorder = Recorder(archive)
    broken, _ = (recorder.seal(change(0, "p", {key: 1}), "changes")[0] for key in ("Room", "Floor"))
    catch_up(spark, archive, out)
    (step,) = compact(open_root(archive), now=BEGIN + timedelta(days=2))
    for path in (step.path, broken.path):
        damage(archive / "default" / path)
    recorder.seal([message(1, "a", "p", 1.0)])
    (progress,) = catch_up(spark, archive, out)
    assert [text.split(":")[0] for text in progress.aside] == [Path(step.path).stem, broken.name]
    assert metadata(spark, out) == {("r", 0): {"Floor": 1.0}}


def test_a_file_that_cannot_be_had_is_told_of_and_waits(spark: SparkSession, tmp_path: Path) -> None:
    """It is taken in when the file system gives it again (P5)."""
    archive, out = tmp_path / "archive", tmp_path / "out"
    recorder = Recorder(archive)
    (away,) = recorder.seal([message(1, "a", "p", 1.0)])
    recorder.seal([message(2, "a", "p", 1.0)])
    path = archive / "default" / away.path
    kept = path.rename(tmp_path / "kept")
    path.symlink_to(path)
    job = StandingJob(spark, archive, out, open_tables=False)
    told: list[BatchReport] = []
    warned: list[str] = []
    with pytest.raises(JobError, match="files that cannot be had at the moment: 1; all others are in the output"):
        standing.run(job, told.append, warned.append, once=True)
    assert [(each.rows, each.left, each.aside) for each in told] == [(1, 1, ())]
    (line,) = warned
    assert line.startswith(f"{away.name}: the file system does not give it: ")
    looks = iter([False, False, True])
    standing.run(job, told.append, warned.append, stopping=lambda _: next(looks))
    assert len(warned) == 2, "once, though it looked three times"
    kept.replace(path)
    standing.run(job, told.append, warned.append, once=True)
    assert [each.rows for each in told] == [1, 1]
    assert check_exact(spark, archive, out) == 2


def test_a_batch_that_is_not_what_was_sealed_does_not_count(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, out = tmp_path / "archive", tmp_path / "out"
    Recorder(archive).seal([message(1, "a", "p", 1.0)])
    with monkeypatch.context() as patched:
        patched.setattr(standing, "enrich", lambda messages, said: enrich(messages.unionByName(messages), said))
        with pytest.raises(JobError, match="has 2 messages, and should have 1; nothing of this batch counts"):
            catch_up(spark, archive, out)
    assert [each.rows for each in catch_up(spark, archive, out)] == [1]


def test_names_that_are_patterns_to_others(spark: SparkSession, tmp_path: Path) -> None:
    """`*` in the name of a folder is a name: nothing is read from its neighbours."""
    archive, out = tmp_path / "a*", tmp_path / "out [1] %20{x,y}"
    for folder in (archive, tmp_path / "abc"):
        Recorder(folder).seal([message(1, "a", "p", 1.0)])
    catch_up(spark, archive, out)
    assert check_exact(spark, archive, out) == 1


def test_damaged_files_are_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    archive, out = tmp_path / "archive", tmp_path / "out"
    recorder = Recorder(archive)
    damages: list[tuple[Callable[[Path], None], str]] = [
        (truncate, "bytes, sealed were"),
        (replace, "it cannot be read as Parquet"),
        (Path.unlink, "its seal is there, the file is not"),
    ]
    names = []
    for number, (spoil, _) in enumerate(damages):
        (seal,) = recorder.seal([message(number, "a", "p", 1.0)])
        spoil(archive / "default" / seal.path)
        names.append(seal.name)
    recorder.seal([message(9, "a", "p", 2.0)])
    (progress,) = catch_up(spark, archive, out)
    assert progress.rows == 1
    for said, (_, reason) in zip(progress.aside, damages, strict=True):
        assert reason in said
    assert [row["sequence"] for row in pipeline.output(spark, out, "readings").collect()] == [3]
    assert catch_up(spark, archive, out) == []
    assert [aside.name for aside in Log(out).state().aside] == names


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An archive, and the output of a job that has done three batches of it."""
    folder = tmp_path_factory.mktemp("made")
    recorder = Recorder(folder / "archive")
    for number in range(3):
        recorder.seal([message(number, "a", "p", 1.0)])
        catch_up(spark, folder / "archive", folder / "out")
    return folder / "archive", folder / "out"


@pytest.fixture
def done(made: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """The same, to be damaged."""
    shutil.copytree(made[1], tmp_path / "out")
    return made[0], tmp_path / "out"


def test_a_lost_log_is_refused(spark: SparkSession, done: tuple[Path, Path], tmp_path: Path) -> None:
    archive, out = done
    kept = tmp_path / "kept"
    shutil.copytree(out / "_log", kept)
    shutil.rmtree(out / "_log")
    with pytest.raises(JobError, match=r"has output, but its log .* is gone"):
        StandingJob(spark, archive, out, open_tables=False)
    shutil.copytree(kept, out / "_log")
    (out / "_log/000000000002.json").unlink()
    with pytest.raises(JobError, match="batch 2 is missing"):
        StandingJob(spark, archive, out, open_tables=False)
    (out / "_log/000000000003.json").unlink()
    with pytest.raises(JobError, match=r"has output, but its log .* is gone"):
        StandingJob(spark, archive, out, open_tables=False)
    shutil.copy(kept / "000000000002.json", out / "_log")
    (out / "_log/job.json").unlink()
    with pytest.raises(JobError, match=r"is gone|job\.json"):
        StandingJob(spark, archive, out, open_tables=False)
    shutil.copy(kept / "job.json", out / "_log")
    assert [each.rows for each in catch_up(spark, archive, out)] == [1]  # batch 3 again, as if it had died
    check_exact(spark, archive, out)


def test_a_log_that_is_not_one_is_refused(spark: SparkSession, done: tuple[Path, Path]) -> None:
    archive, out = done
    truncate(out / "_log/000000000002.json")
    with pytest.raises(JobError, match=r"000000000002\.json is not what a job wrote"):
        StandingJob(spark, archive, out, open_tables=False)


def test_lost_output_is_refused(spark: SparkSession, done: tuple[Path, Path], tmp_path: Path) -> None:
    archive, out = done
    shutil.rmtree(next((out / "readings").iterdir()))
    with pytest.raises(JobError, match="is gone, though the log counts on it"):
        StandingJob(spark, archive, out, open_tables=False)


def test_what_is_refused(spark: SparkSession, done: tuple[Path, Path], tmp_path: Path) -> None:
    archive, out = done
    with pytest.raises(JobError, match="a job with windows"):
        StandingJob(spark, archive, out, windows=["5 minutes"])
    Recorder(tmp_path / "other").seal([message(1)])
    with pytest.raises(JobError, match="a job with archive"):
        StandingJob(spark, tmp_path / "other", out)
    with pytest.raises(ArchiveError, match="there is no archive"):
        StandingJob(spark, tmp_path / "nowhere", out)
    with pytest.raises(JobError, match="there is no output of a job"):
        pipeline.output(spark, tmp_path / "nowhere", "readings")
    with alone(out), pytest.raises(JobError, match=r"writing to .* already"), alone(out):
        pass


def test_small_folders_become_one(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "MOST_FOLDERS", 3)
    archive, out = tmp_path / "archive", tmp_path / "out"
    recorder = Recorder(archive)
    for number in range(4):
        recorder.seal([message(60 * number + second, "a", "p", float(second)) for second in range(5)])
        catch_up(spark, archive, out)
    state = Log(out).state()
    assert {table: len(state.of(table)) for table in ("readings", "rollup-1m", "rollup-1h", "islands")} == {
        "readings": 2, "rollup-1m": 2, "rollup-1h": 2, "islands": 2,
    }  # fmt: skip
    check_exact(spark, archive, out)
    assert sum(row["count"] for row in pipeline.output(spark, out, "rollup", every="1 hour").collect()) == 20
    assert len(Log(out).written()) == 16 + 4, "for those who are reading them"
    Log(out).sweep(state, datetime.now(UTC), timedelta(0))
    assert len(Log(out).written()) == 8
    check_exact(spark, archive, out)


def test_what_a_dead_driver_left_is_swept(spark: SparkSession, done: tuple[Path, Path], tmp_path: Path) -> None:
    archive, out = done
    left = out / "readings/batch-000000000004-dead"
    shutil.copytree(next((out / "readings").iterdir()), left)
    assert pipeline.output(spark, out, "readings").count() == 3
    StandingJob(spark, archive, out, open_tables=False)
    assert not left.exists()
    check_exact(spark, archive, out)


def test_compaction_beside_a_job(spark: SparkSession, tmp_path: Path) -> None:
    """Files are replaced that the job has taken in, has not, and partly has; before and after they are deleted."""
    archive, out = tmp_path / "archive", tmp_path / "out"
    root = open_root(archive)
    later = BEGIN + timedelta(days=2)
    recorder = Recorder(archive)
    expected = 0

    def seal(count: int) -> None:
        nonlocal expected
        for number in range(count):
            recorder.seal(some(expected + number, 5))
        recorder.seal(change(expected, "p", {"Round": expected}), "changes")
        expected += count * 5

    seal(3)
    reader = pipeline.archive(spark, archive)
    assert [(step.files, step.rows) for step in compact(root, now=later)] == [(3, 15)]
    assert reader.count() == 15, "a reader that began before"
    catch_up(spark, archive, out)
    seal(2)
    catch_up(spark, archive, out)
    assert sum(step.rows for step in compact(root, now=later + timedelta(seconds=1))) == 25 + 2
    catch_up(spark, archive, out)
    seal(2)
    job = StandingJob(spark, archive, out, open_tables=False)
    assert sum(step.rows for step in compact(root, now=later + timedelta(seconds=2))) == 35 + 3
    assert [each.rows for each in job.catch_up()] == [10], "from the files that were replaced but are there"
    seal(1)
    assert sum(step.rows for step in compact(root, now=later + timedelta(seconds=3))) == 40 + 4
    assert sweep(root, now=None, grace=timedelta(0)) > 10
    assert [each.rows for each in catch_up(spark, archive, out)] == [5], "by identity"
    assert check_exact(spark, archive, out) == expected == 40
    assert {each["Round"] for each in metadata(spark, out).values() if each} == {0.0, 15.0, 25.0, 35.0}
    assert len(list((archive / "default").rglob("*.parquet"))) == 2
