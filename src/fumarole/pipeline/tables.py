"""The archive's rows as Spark sees them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import types

from fumarole.pipeline.columns.where import METADATA, VALUE

CHANGE: Final = types.StructType([types.StructField("key", types.StringType()), *VALUE.fields])
_IDENTITY_FIELDS: Final = [
    types.StructField("recorder", types.StringType()),
    types.StructField("epoch", types.LongType()),
    types.StructField("sequence", types.LongType()),
]
MESSAGES: Final = types.StructType(
    [
        types.StructField("time", types.TimestampType()),
        types.StructField("topic", types.StringType()),
        types.StructField("producer", types.StringType()),
        types.StructField("value", types.DoubleType()),
        types.StructField("payload", types.BinaryType()),
        types.StructField("headers", types.MapType(types.StringType(), types.ArrayType(types.StringType()))),
        types.StructField("changes", types.ArrayType(CHANGE)),
        types.StructField("event_time", types.TimestampType()),
        *_IDENTITY_FIELDS,
    ]
)
ARCHIVED: Final = types.StructType(
    [
        *MESSAGES.fields,
        types.StructField("recorded", types.TimestampType()),
        types.StructField("wrong_clock", types.BooleanType()),
    ]
)
"""What `pipeline.archive` gives where no payloads are declared."""
CHANGES: Final = types.StructType(
    [
        types.StructField("time", types.TimestampType()),
        types.StructField("producer", types.StringType()),
        *CHANGE.fields,
        *_IDENTITY_FIELDS,
    ]
)
METADATA_MAP: Final = types.MapType(types.StringType(), VALUE)
"""Metadata as `enrich` gives it and `where` reads it."""
DESCRIBED: Final = types.StructType([*ARCHIVED.fields, types.StructField(METADATA, METADATA_MAP)])
VALUE_TEXT: Final = (
    "transform_values(metadata, (key, it) -> CASE it.kind WHEN 'text' THEN it.text WHEN 'truth' THEN string(it.truth) "
    "WHEN 'number' THEN coalesce(it.text, "
    "CASE WHEN it.number = floor(it.number) AND abs(it.number) < 1e15 THEN string(bigint(it.number)) END, "
    "string(it.number)) END)"
)
"""Such a map with texts for values, in SQL."""
