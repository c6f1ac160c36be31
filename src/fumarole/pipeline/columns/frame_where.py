"""`pipeline.where`: a query as a column of a frame that has the needed columns."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, types

from fumarole.core.query import tree
from fumarole.core.query.parse import parse
from fumarole.pipeline.analysis import schema_of
from fumarole.pipeline.columns import where as columns
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.tables import DESCRIBED

_OF_MESSAGES: Final = {"topic", "producer"}


def where(query: str | tree.Query, schema: types.StructType | DataFrame) -> Column:
    """Does the query hold for the metadata in a row?

    Raises QueryError, and PipelineError for messages that have neither `metadata` nor a column for any key: there the
    query would be true for no row, which looks like an answer. In a function of a Declarative Pipeline a frame is taken
    for messages with `metadata`; for columns of your own pass their schema.
    """
    parsed = parse(query) if isinstance(query, str) else query
    found = schema if isinstance(schema, types.StructType) else schema_of(schema, DESCRIBED)
    column = columns.where(parsed, found)
    asked = tree.keys(parsed)
    names = set(found.names)
    if asked and columns.METADATA not in names and asked.isdisjoint(names) and names >= _OF_MESSAGES:
        raise PipelineError(
            f"these messages have no column `{columns.METADATA}`, nor one for {', '.join(sorted(asked))}; "
            "pipeline.enrich(messages, changes) adds the metadata that held at the time of each message"
        )
    return column
