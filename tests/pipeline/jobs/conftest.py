from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.archives import AS_THEY_ARE


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> Iterator[SparkSession]:
    """The same one, for jobs whose every batch is another plan."""
    before = {key: spark.conf.get(key) for key in AS_THEY_ARE}
    for key, value in AS_THEY_ARE.items():
        spark.conf.set(key, value)
    yield spark
    for key, usual in before.items():
        spark.conf.set(key, usual or "")
