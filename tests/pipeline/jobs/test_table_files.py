"""Retention in the standing job's output: each tier for its time, and a producer that is deleted (P11)."""

import errno
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

from fumarole import pipeline
from fumarole.pipeline.archive import open_root, sealed
from fumarole.pipeline.archive.verifying import verify
from fumarole.pipeline.delta import Published
from fumarole.pipeline.jobs import table_files
from fumarole.pipeline.jobs.erasing import erase
from fumarole.pipeline.jobs.expiring import expire, kept
from fumarole.pipeline.jobs.log import JobError, Log
from fumarole.pipeline.jobs.standing import StandingJob, run
from fumarole.pipeline.jobs.table_files import erase_from_tables, expire_tables
from tests.pipeline.archives import BEGIN, Recorder, change, message
from tests.pipeline.jobs.checks import check_exact

DAY = 86_400
NOW = BEGIN + timedelta(days=40)


def catch_up(spark: SparkSession, archive: Path, out: Path) -> None:
    for _ in StandingJob(spark, archive, out).catch_up():
        pass


def dates(out: Path, table: str) -> list[str]:
    """Of the rows of a Delta table, as polars reads it."""
    return sorted(f"{day:%m-%d}" for day in pl.read_delta(str(out / table))["date"].unique().to_list())


@pytest.mark.usefixtures("plans_as_they_are")
def test_each_tier_for_its_time_and_a_producer_goes(spark: SparkSession, tmp_path: Path) -> None:
    archive, out = tmp_path / "archive", tmp_path / "out"
    recorder, root = Recorder(archive), open_root(archive)
    recorder.seal([message(day * DAY + second, "a", "p", 1.0) for day in (0, 20, 39) for second in (0, 1, 60)])
    recorder.seal([message(39 * DAY + second, "b", "q", 2.0) for second in (0, 70)])
    recorder.seal(change(0, "p", {"Room": "410"}) + change(0, "q", {"Room": "411"}), "changes")
    catch_up(spark, archive, out)
    log, keep = Log(out), kept("raw 10 days, 1m 30 days, 1h forever")
    with pytest.raises(JobError, match="no windows of 1d, but of 1m, 1h"):
        expire_tables(log, log.state(), kept("1 day 1 year".replace("1 day", "1d")), NOW)
    would = expire_tables(log, log.state(), keep, NOW, delete=False)
    assert would.keys() == {"readings", "rollup-1m"}
    assert all(would.values())
    assert dates(out, "readings") == ["03-01", "03-21", "04-09"]
    assert expire_tables(log, log.state(), keep, NOW) == would
    assert expire(root, timedelta(days=10), taken=log.state().taken, now=NOW)[1] == 6
    assert (dates(out, "readings"), dates(out, "rollup_1m")) == (["04-09"], ["03-21", "04-09"])
    assert dates(out, "rollup_1h") == ["03-01", "03-21", "04-09"]
    assert expire_tables(log, log.state(), keep, NOW) == {"readings": 0, "rollup-1m": 0}
    # The job goes on, also with a message of a date that is gone.
    recorder.seal([message(39 * DAY + 2, "a", "p", 3.0), message(2, "a", "p", 9.0)])
    catch_up(spark, archive, out)
    hours = {(row["topic"], row["start"].day): row["count"] for row in pl.read_delta(str(out / "rollup_1h")).to_dicts()}
    assert hours == {("a", 1): 4, ("a", 21): 3, ("a", 9): 4, ("b", 9): 2}
    assert pipeline.output(spark, out, "readings").count() == 7
    assert sorted(pl.read_delta(str(out / "readings"))["value"].to_list()) == [1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 9.0]
    # A producer goes, with its bytes.
    erase(root, "q")
    found = erase_from_tables(log, log.state(), "q")
    assert (found["readings"], found["rollup-1m"], found["rollup-1h"], found["islands"]) == (2, 2, 1, 2)
    for table in ("readings", "rollup_1m", "rollup_1h", "gaps"):
        assert "q" not in pl.read_delta(str(out / table))["producer"].to_list(), table
    for file in out.rglob("*.parquet"):
        if "_delta_log" not in file.parts:
            assert "q" not in pl.read_parquet(file, hive_partitioning=False)["producer"].to_list(), file
    catch_up(spark, archive, out)
    recorder.seal([message(39 * DAY + 3, "a", "p", 4.0)])
    catch_up(spark, archive, out)
    assert pipeline.output(spark, out, "readings").count() == 6
    assert sorted(pl.read_delta(str(out / "readings"))["value"].to_list()) == [1.0, 1.0, 1.0, 3.0, 4.0, 9.0]
    assert verify(archive, "default") == []
    # As a part of the job: by now all of this is old.
    job = StandingJob(spark, archive, out)
    run(job, lambda _: None, lambda _: None, once=True, keep=kept("raw 1 day, 1m 1 day, 1h forever"))
    assert [file.kind for file in sealed(archive, "default")] == ["changes"]
    tables = [Published.existing(open_root(out), name) for name in ("readings", "rollup_1m", "rollup_1h")]
    assert [bool(each and each.files()) for each in tables] == [False, False, True]
    assert verify(archive, "default") == []


@pytest.mark.usefixtures("plans_as_they_are")
def test_killed_between_the_log_and_the_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next deletion, or the next batch of the job, makes the tables what the log says."""
    archive, out = tmp_path / "archive", tmp_path / "out"
    recorder = Recorder(archive)
    recorder.seal([message(second, "a", "p" if second % 2 else "q", 1.0) for second in range(10)])
    catch_up(spark, archive, out)
    log = Log(out)
    erase(open_root(archive), "q")
    with monkeypatch.context() as patched:
        patched.setattr("fumarole.pipeline.jobs.table_files.Published.existing", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            erase_from_tables(log, log.state(), "q")
    erase_from_tables(log, log.state(), "q")
    assert pl.read_delta(str(out / "rollup_1h"))["producer"].to_list() == ["p"]
    assert pl.read_delta(str(out / "readings"))["producer"].to_list() == ["p"] * 5
    recorder.seal([message(3600, "a", "p", 1.0)])
    catch_up(spark, archive, out)
    check_exact(spark, archive, out)


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "no links")

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "a").write_bytes(b"rows")
    table_files._link(open_root(tmp_path), "a", "b/c")
    assert (tmp_path / "b" / "c").read_bytes() == b"rows"


def test_no_output(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="no output of a job"):
        expire_tables(Log(tmp_path), Log(tmp_path).state(), {}, datetime.now(UTC))
