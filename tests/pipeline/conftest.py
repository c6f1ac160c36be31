from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fumarole.cli.pipeline import spark as sessions
from fumarole.pipeline.jobs.batch import Part
from fumarole.pipeline.jobs.spark import session
from tests.pipeline.archives import FOR_LITTLE_DATA, as_they_are


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One for the whole run."""
    folder: Path = tmp_path_factory.mktemp("spark")
    started = session("fumarole tests", "local[2]", {**FOR_LITTLE_DATA, "spark.local.dir": str(folder)})
    yield started
    started.stop()


@pytest.fixture
def plans_as_they_are(spark: SparkSession) -> Iterator[None]:
    """For plans that are run once: Spark does not make code of them."""
    with as_they_are(spark):
        yield


@pytest.fixture
def commands_in_session(spark: SparkSession, plans_as_they_are: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of this process have the session that runs already, in place of one of their own."""

    @contextmanager
    def running(_engine: object, _name: str, part: Part) -> Iterator[SparkSession]:
        with sessions.told():
            part.check()
            yield spark

    monkeypatch.setattr(sessions, "spark_session", running)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark is slow to begin, and a call to it that is cut short spoils the session for all tests after it."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))
