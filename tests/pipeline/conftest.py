from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fumarole.app.commands import analysing
from fumarole.pipeline.jobs.batch import Part
from fumarole.pipeline.jobs.spark import session
from tests.pipeline.archives import AS_THEY_ARE, FOR_LITTLE_DATA


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One for the whole run."""
    folder: Path = tmp_path_factory.mktemp("spark")
    started = session("fumarole tests", "local[2]", {**FOR_LITTLE_DATA, "spark.local.dir": str(folder)})
    yield started
    started.stop()


@pytest.fixture
def commands_in_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands of this process have the session that runs already, in place of one of their own."""

    @contextmanager
    def running(_engine: object, _name: str, part: Part) -> Iterator[SparkSession]:
        with analysing.told():
            part.check()
            yield spark

    monkeypatch.setattr(analysing, "spark_session", running)
    before = {key: spark.conf.get(key) or "" for key in AS_THEY_ARE}
    for key, value in AS_THEY_ARE.items():
        spark.conf.set(key, value)
    yield
    for key, value in before.items():
        spark.conf.set(key, value)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark is slow to begin, and a call to it that is cut short spoils the session for all tests after it."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))
