"""The standing job's Delta tables: the same as `pipeline.output`, whatever happens between two commits (P10)."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

from fumarole import pipeline
from fumarole.pipeline.delta import Published
from fumarole.pipeline.jobs.own_tables import table as own_table
from fumarole.pipeline.jobs.standing import StandingJob
from tests.pipeline.archives import Recorder, change, message
from tests.pipeline.jobs.checks import check_exact


def catch_up(spark: SparkSession, archive: Path, out: Path, open_tables: bool = True) -> None:
    for _ in StandingJob(spark, archive, out, open_tables=open_tables).catch_up():
        pass


def table(out: Path, name: str) -> list[dict[str, Any]]:
    return pl.read_delta(str(out / name)).to_dicts()


def check(spark: SparkSession, archive: Path, out: Path) -> None:
    check_exact(spark, archive, out)
    gaps = {(row["producer"], row["seconds"]) for row in pipeline.output(spark, out, "gaps").collect()}
    assert {(row["producer"], row["seconds"]) for row in table(out, "gaps")} == gaps
    hours = {(row["topic"], row["producer"], row["count"]) for row in table(out, "rollup_1h")}
    assert hours == {
        tuple(row) for row in pipeline.output(spark, out, "rollup", "1h").select("topic", "producer", "count").collect()
    }


@pytest.mark.timeout(600)
def test_every_table_is_exact_though_a_driver_dies_before_any_of_its_commits(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, out = tmp_path / "archive", tmp_path / "out"
    recorder = Recorder(archive)
    commit, left = Published.commit, [0]

    def dying(self: Published, *given: Any, **options: Any) -> bool:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return commit(self, *given, **options)

    monkeypatch.setattr(Published, "commit", dying)
    for commits in range(4):  # readings, rollup_1m, rollup_1h, gaps
        begin = 1000 * (commits % 2)  # the third and fourth batch are late
        recorder.seal([message(begin + second + commits / 10, "a", "p", float(second)) for second in (*range(9), 90)])
        recorder.seal(change(begin + 5, "p", {"Room": commits}), "changes")
        left[0] = commits
        with pytest.raises(KeyboardInterrupt):
            catch_up(spark, archive, out)
        left[0] = 100
        catch_up(spark, archive, out)
        check(spark, archive, out)
    rooms = [dict(row["metadata_text"]).get("Room") for row in table(out, "readings")]
    assert sorted(map(str, set(rooms))) == ["2", "3", "None"]


def test_an_output_of_an_older_version_has_tables_when_it_is_gone_on_with(spark: SparkSession, tmp_path: Path) -> None:
    archive, out = tmp_path / "archive", tmp_path / "out"
    recorder = Recorder(archive)
    for begin in (0, 3600):
        recorder.seal([message(begin + second, "a", "p", 1.0) for second in range(5)])
        catch_up(spark, archive, out, open_tables=False)
    catch_up(spark, archive, out)
    check(spark, archive, out)
    assert len(table(out, "readings")) == 10


def test_a_table_of_ones_own_has_one_row_for_each_key(spark: SparkSession, tmp_path: Path) -> None:
    """Calibration: readings whose metadata is sealed late are made again. A table that is added has all readings."""

    @own_table("calibrated", key=["recorder", "epoch", "sequence"])
    def calibrated(readings: DataFrame) -> DataFrame:
        columns = ["time", "recorder", "epoch", "sequence", "value * metadata.gain.number AS celsius"]
        return readings.selectExpr(*columns)

    archive, out = tmp_path / "archive", tmp_path / "out"
    recorder = Recorder(archive)
    recorder.seal([message(0, "a", "p", 1.0)])
    catch_up(spark, archive, out, open_tables=False)
    for begin in (10, 86_400):
        recorder.seal([message(begin, "a", "p", 2.0)])
        recorder.seal(change(begin - 5, "p", {"gain": begin}), "changes")
        for _ in StandingJob(spark, archive, out, own=[calibrated]).catch_up():
            pass
    recorder.seal(change(-5, "p", {"gain": 7}), "changes")
    for _ in StandingJob(spark, archive, out, own=[calibrated]).catch_up():
        pass
    assert sorted((row["sequence"], row["celsius"]) for row in table(out, "calibrated")) == [
        (0, 7.0),
        (1, 20.0),
        (2, 172_800.0),
    ]
