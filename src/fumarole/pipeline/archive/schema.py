"""What a row of the archive is. Version 3.

Messages, one row each. A record's identity is (recorder, epoch, sequence); a hole in a sequence is a loss.

    time        when the recorder got it, UTC, microseconds
    topic       as published; empty: the empty topic
    producer    the UUID of the producer, where it is a reading
    value       the payload where that is a number, or what the recorder's declarations call the value (P6): the file
                and its seal have the digest of these declarations
    payload     as it was
    headers     names and values, but for those of the two columns before and after
    changes     what the message said that is new about its producer
    event_time  what the sensor said of its own time, believed or not (P7); versions 1 and 2 have no such column
    recorder    the recorder that captured it
    epoch       when that recorder was started, microseconds: each start is another incarnation
    sequence    counted from 0 in each incarnation

Changes of metadata, one row for each key, with a sequence of their own. `kind` says which of the three columns has the
value: 'text', 'number', 'truth'; or that there is none: 'gone'. A whole number that no double is, such as 2⁵³ + 1, has
its digits in `text` as well. Of the kind 'anew' is a row that is about no key, its own being empty, but about the
producer: nothing that was said of it before holds any longer. (Version 1 has no such rows.) What held at a time is
found by the order (time, epoch, recorder, sequence).
"""

from __future__ import annotations

import pyarrow as pa

VERSION = 3
VERSION_KEY = b"fumarole.version"
NAMESPACE_KEY = b"fumarole.namespace"
GROUP_KEY = b"fumarole.group"
PAYLOADS_KEY = b"fumarole.payloads"
SINCE_VERSION = {"event_time": 3}
"""Columns that older files do not have; there they are null."""

IDENTITY = ("recorder", "epoch", "sequence")
"""What makes a record the one it is."""
TIME = pa.timestamp("us", tz="UTC")
ANEW = "anew"
KINDS = ("text", "number", "truth", "gone", ANEW)

CHANGE = pa.struct(
    [
        pa.field("key", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("text", pa.string()),
        pa.field("number", pa.float64()),
        pa.field("truth", pa.bool_()),
    ]
)
HEADERS = pa.map_(pa.string(), pa.list_(pa.string()))

MESSAGES = pa.schema(
    [
        pa.field("time", TIME, nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("producer", pa.string()),
        pa.field("value", pa.float64()),
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("headers", HEADERS),
        pa.field("changes", pa.list_(CHANGE)),
        pa.field("event_time", TIME),
        pa.field("recorder", pa.string(), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
    ]
)
CHANGES = pa.schema(
    [
        pa.field("time", TIME, nullable=False),
        pa.field("producer", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("number", pa.float64()),
        pa.field("truth", pa.bool_()),
        pa.field("recorder", pa.string(), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
    ]
)


def file_metadata(namespace: str, group: str, payloads: str = "") -> dict[bytes, bytes]:
    """What each file says of itself, as Parquet's key-value metadata."""
    said = {VERSION_KEY: str(VERSION), NAMESPACE_KEY: namespace, GROUP_KEY: group, PAYLOADS_KEY: payloads}
    return {key: text.encode() for key, text in said.items()}


def completed(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Rows of an older version, with the columns that were added since."""
    for place, field in enumerate(wanted):
        if field.name in SINCE_VERSION and field.name not in rows.column_names:
            rows = rows.add_column(place, field, pa.nulls(rows.num_rows, field.type))
    return rows
