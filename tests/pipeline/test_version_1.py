"""An archive as the first version wrote it, beside this file: it is read, and goes on being written to.

Its seals have no digest, and nobody in it begins anew.
"""

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fumarole import pipeline
from fumarole.pipeline.archive import open_root, sealed
from fumarole.pipeline.archive.verifying import verify
from fumarole.pipeline.jobs.compacting import compact
from fumarole.pipeline.jobs.standing import StandingJob
from fumarole.pipeline.replay import Range, messages
from tests.pipeline.archives import BEGIN, Recorder, change, message
from tests.pipeline.jobs.checks import check_exact

pytestmark = pytest.mark.usefixtures("plans_as_they_are")
ETNA = "6f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
VALUES = [61.5, 62.0, None, 63.0]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A copy: nothing may happen to the one that is kept."""
    return Path(shutil.copytree(Path(__file__).parent / "version-1", tmp_path / "archive"))


def values(spark: SparkSession, archive: Path, **wanted: Any) -> list[float | None]:
    return [row["value"] for row in pipeline.archive(spark, archive, **wanted).orderBy("time").collect()]


def test_it_is_read(spark: SparkSession, archive: Path) -> None:
    assert {file.version for file in sealed(archive, "default")} == {1}
    assert verify(archive, "default") == []
    assert values(spark, archive) == VALUES
    assert values(spark, archive, topic="volcanoes.>", where="Region = 'italy' AND Level = 3") == [61.5, 62.0]
    assert values(spark, archive, where="Open = true AND Level IS NULL") == [63.0]
    (other,) = pipeline.archive(spark, archive, topic="*").collect()
    assert (bytes(other["payload"]), other["headers"]) == (b"\x00\xff no number", {"Trace": ["a", "b"]})
    replayed = [row for part in messages(archive, "default", Range()) for row in part.to_pylist()]
    assert [row["value"] for row in replayed] == VALUES


def test_it_is_gone_on_with(spark: SparkSession, archive: Path, tmp_path: Path) -> None:
    """Files of both versions, together in a job, and made into one."""
    out = tmp_path / "out"
    job = StandingJob(spark, archive, out)
    assert [each.rows for each in job.catch_up()] == [4]
    recorder = Recorder(archive)
    recorder.seal([message(3, "volcanoes.italy.etna", ETNA, 64.0), message(3800, "volcanoes.italy.etna", ETNA, 65.0)])
    recorder.seal(change(3750, ETNA, {"Level": 4}), "changes")
    assert [(each.rows, each.aside) for each in job.catch_up()] == [(2, ())]
    assert check_exact(spark, archive, out) == 6
    assert [step.files for step in compact(open_root(archive), now=BEGIN + timedelta(days=2))] == [2, 2, 2]
    assert {file.version for file in sealed(archive, "default")} == {3}
    assert verify(archive, "default") == []
    assert list(job.catch_up()) == []
    assert check_exact(spark, archive, out) == 6
    assert values(spark, archive, where="Level = 3") == [61.5, 62.0, 64.0]
    assert values(spark, archive, where="Level = 4") == [65.0]
