"""Messages with what their payloads say, as declared (P6), and the sensor's own time (P7).

Of messages on declared topics the payload is decoded; all others stay as they are. Columns that are added, or changed:

    fields       a struct of all declared fields, null where a payload has none
    value        the field that is declared to be the value; else as it was
    fits         is the payload as declared? Null where nothing is declared for the topic
    event_time   what the sensor said of its time, believed or not: in the payload, or a header `Time`
    recorded     when the recorder got the message
    wrong_clock  the sensor's clock was too far from the recorder's to be believed
    time         what windows, gaps and enrichment go by: the sensor's time where it is given and believed, else the
                 recorder's

A watermark on `time` stays on `time`. It goes by when messages came, as before: so a sensor whose clock is ahead cannot
push it, and a reading counts as late by its own time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from fumarole.core.payloads import AHEAD, BEHIND, Payloads
from fumarole.pipeline.analysis import is_stream, without
from fumarole.pipeline.columns.payload import KINDS, Decoded, Reading
from fumarole.pipeline.columns.topic import topic_matches
from fumarole.pipeline.patterns import grammar_of

_WHICH = "_declared"


def decode(messages: DataFrame, payloads: Payloads) -> DataFrame:
    """The messages with the columns above. They have `topic`, `payload`, `value`, `time` and `event_time`."""
    if not payloads.declared:
        return timed(messages)
    readings = [Reading(each, f"_read{number}_") for number, each in enumerate(payloads.declared)]
    which = sf.lit(None).cast("int")
    for number, each in reversed([*enumerate(payloads.declared)]):
        matches = topic_matches("topic", each.topic, grammar_of(each.topic))
        which = sf.when(matches, sf.lit(number)).otherwise(which)
    marked = messages.withColumn(_WHICH, which)
    prepared: dict[str, Column] = {}
    parts: dict[str, Column] = {}
    for number, reading in enumerate(readings):
        # Others' payloads are null here, and not only left out of the result: a function in Python is called for all.
        prepared |= reading.prepared(sf.when(sf.col(_WHICH) == number, sf.col("payload")))
        parts |= reading.read()
    found = [reading.decoded() for reading in readings]
    columns = {
        "fields": _fields(payloads, found),
        "value": _chosen([(each.value, "value") for each in found], sf.col("value")),
        "fits": _chosen([(each.fits, "") for each in found], sf.lit(None).cast("boolean")),
        "event_time": _chosen([(_moment(each), "event_time") for each in found], sf.col("event_time")),
    }
    decoded = marked.withColumns(prepared).withColumns(parts).withColumns(columns)
    ahead, behind = [each.ahead for each in payloads.declared], [each.behind for each in payloads.declared]
    return without(timed(decoded, ahead, behind), _WHICH, *prepared, *parts)


def _moment(decoded: Decoded) -> Column | None:
    """A payload without its time may have a header, which the recorder has read."""
    return None if decoded.time is None else sf.coalesce(sf.timestamp_micros(decoded.time), sf.col("event_time"))


def timed(messages: DataFrame, ahead: Sequence[int] = (), behind: Sequence[int] = ()) -> DataFrame:
    """By the sensor's time where that is within what is allowed, in microseconds, for each declaration (P7)."""
    event_time = sf.col("event_time")
    late = sf.unix_micros("time") - sf.unix_micros(event_time)
    wrong = (late < -_chosen_number(ahead, AHEAD)) | (late > _chosen_number(behind, BEHIND))
    recorded = sf.col("time")
    time = sf.when(wrong, recorded).otherwise(sf.coalesce(event_time, recorded))
    if watermark := _watermark(messages):
        # Spark knows the column of a watermark by this, and there may be one only.
        recorded = recorded.alias("recorded", metadata={"comment": "when the recorder got the message"})
        time = time.alias("time", metadata=watermark)
    return messages.withColumns({"recorded": recorded, "wrong_clock": sf.coalesce(wrong, sf.lit(False)), "time": time})


def _watermark(messages: DataFrame) -> dict[str, Any]:
    """What Spark has noted of the watermark on `time`; nothing, where there is none."""
    noted = messages.schema["time"].metadata if is_stream(messages) else {}
    return {key: value for key, value in noted.items() if key.startswith("spark.watermark")}


def _chosen_number(numbers: Sequence[int], default: int) -> Column:
    if set(numbers) <= {default}:
        return sf.lit(default)
    return _chosen([(sf.lit(number), "") for number in numbers], sf.lit(default))


def _chosen(columns: Sequence[tuple[Column | None, str]], otherwise: Column) -> Column:
    """That of the declaration which counts for a message. None: the column of that name as it is."""
    made = otherwise
    for number, (column, name) in enumerate(columns):
        made = sf.when(sf.col(_WHICH) == number, sf.col(name) if column is None else column).otherwise(made)
    return made


def _fields(payloads: Payloads, found: Sequence[Decoded]) -> Column:
    columns = []
    for name, kind in payloads.types.items():
        nothing = sf.lit(None).cast(KINDS[kind])
        own = [(each.fields.get(name, nothing), "") for each in found]
        columns.append(_chosen(own, nothing).alias(name))
    return sf.struct(*columns)
