"""`pipeline.where` on frames in which nothing can be asked."""

import pytest
from pyspark.sql.types import StructType

from fumarole import pipeline
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.jobs.output import READINGS_SCHEMA
from fumarole.pipeline.tables import MESSAGES


def test_messages_without_metadata(spark: object) -> None:
    """The query would be true for none of them, which looks like an answer."""
    with pytest.raises(PipelineError, match=r"no column `metadata`, nor one for Region; pipeline\.enrich"):
        pipeline.where("Region = 'usa'", MESSAGES)


@pytest.mark.parametrize(
    "schema",
    [READINGS_SCHEMA, StructType(list(MESSAGES.fields)).add("Region", "string"), StructType().add("x", "string")],
)
def test_frames_that_can_be_asked(spark: object, schema: StructType) -> None:
    pipeline.where("Region = 'usa' or Status = 'x'", schema)
