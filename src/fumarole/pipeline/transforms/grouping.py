"""What to group by: columns of messages, words of their topics, and metadata as of their time (P8).

topic, producer, recorder    the column
topic[2]                     the second word of the topic, counted from 1; null where it has fewer
any other name               the metadata key of the producer, at the time of the message; null where it has none
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from fumarole.pipeline.columns.where import METADATA
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.transforms.enrich import enrich

COLUMNS: Final = ("topic", "producer", "recorder")
_WORD: Final = re.compile(r"topic\[([1-9][0-9]{0,3})\]")
_TAKEN: Final = frozenset(
    {"time", "value", "payload", "headers", "changes", "event_time", "recorded", "wrong_clock", "fields", "fits"}
    | {"epoch", "sequence", METADATA, "start", "count", "numbers", "nonfinite", "min", "max", "mean", "stddev"}
    | {"window", "spread", "sketch"}
)


def metadata_keys(by: Sequence[str]) -> list[str]:
    """The names that are keys of metadata. Raises PipelineError for one that cannot be beside the figures."""
    for name in by:
        if name.lower() in _TAKEN:
            raise PipelineError(f"to group by {name!r} would give two columns of that name; name another key")
    if len({name.lower() for name in by}) < len(by):
        raise PipelineError(f"grouped by {', '.join(by)}: a name is there twice")
    return [name for name in by if name not in COLUMNS and not _WORD.fullmatch(name)]


def keyed(messages: DataFrame, by: Sequence[str], changes: DataFrame | None = None) -> DataFrame:
    """The messages with a column for each name. For keys of metadata it needs their changes, or `metadata` as `enrich`
    makes it. Raises PipelineError.
    """
    keys = metadata_keys(by)
    words = {name: int(found[1]) for name in by if (found := _WORD.fullmatch(name))}
    added = {name: sf.get(sf.split("topic", r"\.", -1), sf.lit(number - 1)) for name, number in words.items()}
    if keys:
        messages = messages if changes is None else enrich(messages, changes, keys)
        added |= {key: metadata_text(sf.try_element_at(sf.col(METADATA), sf.lit(key))) for key in keys}
    return messages.withColumns(added) if added else messages


def metadata_text(value: Column) -> Column:
    """A value of metadata as text: a whole number without a point. Null where there is none."""
    number = value["number"]
    whole = sf.when((number == sf.floor(number)) & (sf.abs(number) < 1e15), number.cast("long").cast("string"))
    return (
        sf.when(value["kind"] == "text", value["text"])
        .when(value["kind"] == "number", sf.coalesce(value["text"], whole, number.cast("string")))
        .when(value["kind"] == "truth", value["truth"].cast("string"))
    )


def quoted(name: str) -> Column:
    """The column of this very name, whatever signs it has."""
    return sf.col("`" + name.replace("`", "``") + "`")
