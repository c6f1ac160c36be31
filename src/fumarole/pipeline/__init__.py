"""The data pipeline: messages captured into an archive of Parquet, played back, and read and written by Spark.

It needs more packages than the broker: `pip install 'fumarole[pipeline]'`.

In a notebook or a job of one's own, `from fumarole import pipeline` and then:

    pipeline.archive(spark, path, topic="volcanoes.>", where="Region = 'usa'")   messages that were captured
    pipeline.output(spark, path, "rollup")                                       what the standing job made of them
    pipeline.topic_matches(column, pattern), pipeline.where(query, schema)       patterns and queries as columns
    pipeline.enrich(messages, changes), rollup, gaps, traffic, balance           the transforms

Each is loaded when it is first used: recording needs no Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fumarole.pipeline.columns.topic import topic_matches
    from fumarole.pipeline.columns.where import where

__all__ = ["topic_matches", "where"]
_HOMES = {
    "topic_matches": "fumarole.pipeline.columns.topic",
    "where": "fumarole.pipeline.columns.where",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
