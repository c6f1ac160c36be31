from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fumarole.pipeline.jobs.spark import session
from tests.pipeline.archives import FOR_LITTLE_DATA


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One for the whole run."""
    folder: Path = tmp_path_factory.mktemp("spark")
    started = session("fumarole tests", "local[2]", {**FOR_LITTLE_DATA, "spark.local.dir": str(folder)})
    yield started
    started.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark is slow to begin, and a call to it that is cut short spoils the session for all tests after it."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))
