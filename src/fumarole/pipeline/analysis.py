"""What Spark says of a frame, where it may be asked.

The functions of a Declarative Pipeline (`spark-pipelines`) only describe frames: Spark refuses there whatever needs an
answer, such as `columns`, `schema`, `isStreaming` and `first()`. Then a frame is taken for one of `pipeline.archive`;
where it is another, Spark names the column that is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, types

Answer = TypeVar("Answer")
_FORBIDDEN: Final = "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION"


def answered(ask: Callable[[], Answer]) -> Answer | None:
    """The answer; None where Spark may not be asked."""
    try:
        return ask()
    except PySparkException as error:
        if error.getCondition() != _FORBIDDEN:
            raise
        return None


def is_stream(frame: DataFrame) -> bool:
    """Is it a stream? No, where Spark may not be asked."""
    return bool(answered(lambda: frame.isStreaming))


def without(frame: DataFrame, *names: str) -> DataFrame:
    """The frame without these columns, which it has. For `drop` a Connect server asks for the columns at once."""
    left_out = ", ".join("`" + name.replace("`", "``") + "`" for name in names)
    return frame.selectExpr(f"* EXCEPT ({left_out})")


def schema_of(frame: DataFrame, otherwise: types.StructType) -> types.StructType:
    """Its schema; the other one, where Spark may not be asked."""
    found = answered(lambda: frame.schema)
    return otherwise if found is None else found
