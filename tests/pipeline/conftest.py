from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fumarole.pipeline.jobs.spark import session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One for the whole run."""
    folder: Path = tmp_path_factory.mktemp("spark")
    started = session(
        "fumarole tests",
        "local[2]",
        {"spark.sql.shuffle.partitions": "2", "spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder)},
    )
    yield started
    started.stop()
