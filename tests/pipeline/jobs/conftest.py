from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.archives import as_they_are


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> Iterator[SparkSession]:
    """The same one, for jobs whose every batch is another plan."""
    with as_they_are(spark):
        yield spark
