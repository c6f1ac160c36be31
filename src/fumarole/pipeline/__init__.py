"""The data pipeline: messages captured into an archive of Parquet, played back, and read and written by Spark.

It needs more packages than the broker: `pip install 'fumarole[pipeline]'`.

In a notebook or a job of one's own, `from fumarole import pipeline` and then:

    pipeline.archive(spark, path, topic="volcanoes.>", where="Region = 'usa'")   messages that were captured
    pipeline.output(spark, path, "rollup")                                       what the standing job made of them
    pipeline.topic_matches(column, pattern), pipeline.where(query, schema)       patterns and queries as columns
    pipeline.register(spark)                                                     live data, as a source and a sink
    pipeline.live_metadata(spark, servers=…)                                     live messages with their metadata
    pipeline.alarms(messages, rules)                                             what rules raise and clear
    pipeline.enrich(messages, changes), rollup, gaps, traffic, balance           the transforms
    pipeline.view(changes, "select Region, count(*) where …", at=time)           a view as of any time

Each is loaded when it is first used: recording needs no Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fumarole.core.packages import need

if TYPE_CHECKING:
    from fumarole.pipeline.columns.frame_where import where
    from fumarole.pipeline.columns.topic import topic_matches
    from fumarole.pipeline.declared import payloads
    from fumarole.pipeline.jobs.output import output
    from fumarole.pipeline.jobs.own_tables import table
    from fumarole.pipeline.live.source import live_metadata, register
    from fumarole.pipeline.reading import archive, changes
    from fumarole.pipeline.transforms.alarms import alarms
    from fumarole.pipeline.transforms.decode import decode
    from fumarole.pipeline.transforms.enrich import enrich
    from fumarole.pipeline.transforms.gaps import gaps
    from fumarole.pipeline.transforms.rollup import rollup
    from fumarole.pipeline.transforms.traffic import balance, summary, traffic
    from fumarole.pipeline.transforms.view import view
    from fumarole.pipeline.views import sql

__all__ = [
    "alarms",
    "archive",
    "balance",
    "changes",
    "decode",
    "enrich",
    "gaps",
    "live_metadata",
    "output",
    "payloads",
    "register",
    "rollup",
    "sql",
    "summary",
    "table",
    "topic_matches",
    "traffic",
    "view",
    "where",
]
_HOMES = {
    "alarms": "transforms.alarms",
    "balance": "transforms.traffic",
    "changes": "reading",
    "decode": "transforms.decode",
    "enrich": "transforms.enrich",
    "gaps": "transforms.gaps",
    "live_metadata": "live.source",
    "output": "jobs.output",
    "payloads": "declared",
    "register": "live.source",
    "rollup": "transforms.rollup",
    "sql": "views",
    "summary": "transforms.traffic",
    "table": "jobs.own_tables",
    "topic_matches": "columns.topic",
    "traffic": "transforms.traffic",
    "view": "transforms.view",
    "where": "columns.frame_where",
}


need("pipeline")


def __getattr__(name: str) -> Any:
    if name == "archive":  # a folder of modules, which can be called as well
        return import_module(f"{__name__}.archive")
    if name in _HOMES:
        need("pipeline", "pyspark")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
