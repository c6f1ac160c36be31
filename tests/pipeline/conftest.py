from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fumarole.cli.pipeline import spark as sessions
from fumarole.pipeline.jobs.batch import Part
from fumarole.pipeline.jobs.spark import session
from fumarole.pipeline.sharding import STORE
from tests.pipeline.archives import FOR_LITTLE_DATA, as_they_are


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One for the whole run."""
    folder: Path = tmp_path_factory.mktemp("spark")
    started = session("fumarole tests", "local[2]", {**FOR_LITTLE_DATA, "spark.local.dir": str(folder)})
    yield started
    started.stop()


@pytest.fixture(scope="session")
def known_settings() -> dict[str, dict[str, str]]:
    """Settings of the session by their text: one call of Java says whether they are still the same."""
    return {}


@pytest.fixture(autouse=True)
def settings_stay(request: pytest.FixtureRequest, known_settings: dict[str, dict[str, str]]) -> Iterator[None]:
    """A setting that one test leaves behind decides what all tests after it see. (`noDataMicroBatches` did.)"""
    spark = request.getfixturevalue("spark") if "spark" in request.fixturenames else None
    if not isinstance(spark, SparkSession):  # a table of cases may have a column of this name
        yield
        return
    text = settings_text(spark)
    before = known_settings.get(text) or settings_of_plans(spark)
    known_settings[text] = before
    yield
    if settings_text(spark) == text:
        return
    after = settings_of_plans(spark)
    for key in after.keys() - before.keys():
        spark.conf.unset(key)
    for key, value in before.items():
        if after.get(key) != value:
            spark.conf.set(key, value)
    assert {**after, STORE: None} == {**before, STORE: None}


def settings_text(spark: SparkSession) -> str:
    return str(spark._jsparkSession.conf().getAll().toString())


def settings_of_plans(spark: SparkSession) -> dict[str, str]:
    """Those that a session can change; the others are for the start of Java."""
    return {key: value for key, value in spark.conf.getAll.items() if spark.conf.isModifiable(key)}


@pytest.fixture
def plans_as_they_are(spark: SparkSession) -> Iterator[None]:
    """For plans that are run once: Spark does not make code of them."""
    with as_they_are(spark):
        yield


@pytest.fixture
def commands_in_session(spark: SparkSession, plans_as_they_are: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of this process have the session that runs already, in place of one of their own."""

    @contextmanager
    def running(_engine: object, _name: str, part: Part | None = None) -> Iterator[SparkSession]:
        with sessions.told():
            if part is not None:
                part.check()
            yield spark

    monkeypatch.setattr(sessions, "spark_session", running)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark is slow to begin, and a call to it that is cut short spoils the session for all tests after it."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))
