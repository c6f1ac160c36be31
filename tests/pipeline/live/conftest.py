from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from fumarole import pipeline
from tests.integration.running import RunningBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker with default settings, for the tests of one module."""
    broker = RunningBroker(tmp_path_factory.mktemp("broker"))
    yield broker
    broker.release()


@pytest.fixture(scope="module")
def live_spark(spark: SparkSession) -> SparkSession:
    """The one Spark session of the run, which knows `format("fumarole")`."""
    spark.sparkContext.setLogLevel("OFF")
    pipeline.register(spark)
    return spark
