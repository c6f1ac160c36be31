"""A job that fails says why in a line, whatever Spark raises."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fumarole.pipeline.jobs.failures import FAILURES, in_short


def test_a_plan_that_cannot_be(spark: SparkSession) -> None:
    with pytest.raises(FAILURES) as raised:
        spark.range(1).select("nothing")
    assert in_short(raised.value).startswith("[UNRESOLVED_COLUMN")


def test_a_task_that_failed(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 is not enough")
    with pytest.raises(FAILURES) as raised:
        spark.read.schema("a int").parquet(str(tmp_path)).collect()
    said = in_short(raised.value)
    assert "\n" not in said
    assert "is not a Parquet file" in said
