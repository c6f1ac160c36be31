"""Readings with the metadata that held at their time.

What held at a time is, for each key, what was said last about it at that time or before; `gone` is nothing. A reading's
own delta counts for it (M5). That is the whole definition; it does not matter in which order rows were captured.

    time  producer  change                     time  producer  reading      metadata
    1     p         Room = '410'               2     p         20.5         Room = '410'
    3     p         Room = '411', Floor = 4    3     p         20.6         Room = '411', Floor = 4
    5     p         Room gone                  9     p         20.7         Floor = 4

In two steps. First the changes become versions, all that held from one moment on: one pass over the changes of each
producer, in order, with a running last value for each key. Then versions and readings are sorted together by producer
and time, and each reading takes the version before it. That sorts the readings once, as a join by producer would have
to; nothing is compared with more than its neighbour, however often a producer changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from fumarole.pipeline.columns.where import METADATA, VALUE
from fumarole.pipeline.tables import METADATA_MAP

_ORDER = ("time", "epoch", "recorder", "sequence")
_SPREAD = 64
"""Messages without a producer need no metadata, and must not all meet in one task."""


def enrich(messages: DataFrame, changes: DataFrame, keys: Sequence[str] | None = None) -> DataFrame:
    """The messages with a column `metadata`: a map from keys to values, each with its kind; never null.

    With `keys`, of these keys only, which is cheaper. Without, the keys are looked up first, by a job of their own.
    """
    known = sorted(row["key"] for row in changes.select("key").distinct().collect()) if keys is None else list(keys)
    described = _as_of(messages, _versions(changes, known)) if known else messages.withColumn(METADATA, _nothing())
    return described.withColumn(METADATA, _with_own(sf.col(METADATA), sf.col("changes"), keys))


def _nothing() -> Column:
    return sf.create_map().cast(METADATA_MAP)


def _versions(changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """For each producer and each time at which something changed: all that held from then on."""
    in_order = Window.partitionBy("producer").orderBy(*_ORDER)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    value = sf.struct(*VALUE.fieldNames())
    latest = [sf.last(sf.when(sf.col("key") == key, value), ignorenulls=True).over(so_far) for key in keys]
    entries = sf.array(*[sf.struct(sf.lit(key), found) for key, found in zip(keys, latest, strict=True)])
    return (
        changes.where(sf.col("key").isin(list(keys)))
        .select(
            "producer",
            "time",
            entries.alias("entries"),
            (sf.lead("time").over(in_order) == sf.col("time")).alias("superseded"),
        )
        .where(~sf.coalesce("superseded", sf.lit(False)))
        .select("producer", "time", sf.map_from_entries(sf.filter("entries", _held)).cast(METADATA_MAP).alias(METADATA))
    )


def _held(entry: Column) -> Column:
    return entry["col2"].isNotNull() & (entry["col2"]["kind"] != "gone")


def _as_of(messages: DataFrame, versions: DataFrame) -> DataFrame:
    spread = sf.concat(sf.lit("\0"), sf.pmod(sf.hash(*_ORDER), sf.lit(_SPREAD)).cast("string"))
    readings = messages.withColumn("_of", sf.coalesce("producer", spread)).withColumn("_reading", sf.lit(True))
    described = versions.withColumnRenamed("producer", "_of").withColumn("_reading", sf.lit(False))
    # A version comes before a reading of the same time: what is said at a time holds at that time.
    until_now = (
        Window.partitionBy("_of").orderBy("time", "_reading").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        readings.unionByName(described, allowMissingColumns=True)
        .withColumn(METADATA, sf.last(METADATA, ignorenulls=True).over(until_now))
        .where("_reading")
        .drop("_of", "_reading")
        .withColumn(METADATA, sf.coalesce(METADATA, _nothing()))
    )


def _with_own(metadata: Column, own: Column, keys: Sequence[str] | None) -> Column:
    """What the message itself said, on top."""
    said = own if keys is None else sf.filter(own, lambda change: change["key"].isin(list(keys)))
    names = sf.transform(said, lambda change: change["key"])
    entries = sf.transform(
        said, lambda change: sf.struct(change["key"], sf.struct(*[change[n] for n in VALUE.fieldNames()]))
    )
    merged = sf.map_concat(
        sf.map_filter(metadata, lambda key, _: ~sf.array_contains(names, key)),
        sf.map_from_entries(entries).cast(METADATA_MAP),
    )
    return sf.when(sf.size(own) > 0, sf.map_filter(merged, lambda _, value: value["kind"] != "gone")).otherwise(
        metadata
    )
