"""Views (F7) over the changes of an archive: what the live view showed at any time.

    changes of metadata                         select Region, count(*) where Status = 'failed'
    time  producer  change                      at 2      at 3      at 4
    1     p         Region = usa                usa 1     usa 1     japan 1
    2     p         Status = failed                       nil 1     nil 1
    3     q         Status = failed
    4     p         Region = japan

`fumarole.core.query.view.content` is the definition, and metadata as of a time is as `enrich` defines it. Two things
the archive does not know: `_online`, which is not recorded, and a producer without any metadata. A producer that was
forgotten has none.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from fumarole.core.query.canonical import exact
from fumarole.core.query.tree import Value, constant
from fumarole.core.query.view import Entry, View, parse_view
from fumarole.pipeline.archive.schema import ANEW
from fumarole.pipeline.columns.where import METADATA, VALUE
from fumarole.pipeline.columns.where import where as holds
from fumarole.pipeline.tables import METADATA_MAP
from fumarole.pipeline.times import moment

COUNT: Final = "count"
_ORDER: Final = ("time", "epoch", "recorder", "sequence")


def view(changes: DataFrame, text: str | View, at: str | datetime | None = None) -> DataFrame:
    """The entries of a view, as of a time; without one, as of the last change.

    A column for each key, whose values are as in the column `metadata`: kind, text, number, truth; null where a
    producer has no such key. With `count(*)` the last column is `count`. Raises QueryError, TimeError.
    """
    asked = parse_view(text) if isinstance(text, str) else text
    described = metadata_at(changes, moment(at))
    chosen = described.where(holds(asked.query, described))
    values = [sf.try_element_at(sf.col(METADATA), sf.lit(key)) for key in asked.keys]
    # By one column: names of keys may differ in case only, which Spark does not tell apart.
    counted = chosen.groupBy(sf.array(*values).alias("_entry")).agg(sf.count(sf.lit(1)).alias("_count"))
    entry = sf.col("_entry")
    columns = [entry[number].alias(key) for number, key in enumerate(asked.keys)]
    return counted.select(*columns, *([sf.col("_count").alias(COUNT)] if asked.counted else []))


def entries(frame: DataFrame) -> frozenset[Entry]:
    """What `view` found, in the form of the definition. It collects the rows."""
    found = [[_value(each) for each in row] for row in frame.collect()]
    return frozenset(tuple([None if each is None else exact(constant(each)) for each in row]) for row in found)


def metadata_at(changes: DataFrame, at: datetime | None) -> DataFrame:
    """Each producer that has metadata at this time, and its metadata."""
    said = changes if at is None else changes.where(sf.col("time") <= sf.lit(at))
    order = sf.struct(*_ORDER)
    latest = said.groupBy("producer", "key").agg(
        sf.max_by(sf.struct(*VALUE.fieldNames()), order).alias("value"), sf.max(order).alias("said")
    )
    is_anew = sf.col("value")["kind"] == ANEW
    of_each = latest.groupBy("producer").agg(
        sf.max(sf.when(is_anew, sf.col("said"))).alias("anew"),
        sf.collect_list(sf.struct("key", "value", "said")).alias("entries"),
    )

    def is_held(entry: Column) -> Column:
        is_newer = sf.col("anew").isNull() | (entry["said"] > sf.col("anew"))
        return ~entry["value"]["kind"].isin("gone", ANEW) & is_newer

    held = sf.transform(sf.filter("entries", is_held), lambda entry: sf.struct(entry["key"], entry["value"]))
    described = of_each.select("producer", sf.map_from_entries(held).cast(METADATA_MAP).alias(METADATA))
    return described.where(sf.size(METADATA) > 0)


def _value(each: Any) -> Value | None:
    """Of a column of an entry."""
    if each is None or isinstance(each, int):
        return each
    if each["kind"] == "number":
        return int(each["text"]) if each["text"] is not None else float(each["number"])
    found: Value = each[each["kind"]]
    return found
