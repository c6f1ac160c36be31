"""Readings with the metadata that held at their time.

What held at a time is, for each key, what was said last about it at that time or before; `gone` is nothing, and `anew`
is nothing for all keys. A reading's own delta counts for it (M5). That is the whole definition; it does not matter in
which order rows were captured.

    time  producer  change                     time  producer  reading      metadata
    1     p         Room = '410'               2     p         20.5         Room = '410'
    3     p         Room = '411', Floor = 4    3     p         20.6         Room = '411', Floor = 4
    5     p         Room gone                  9     p         20.7         Floor = 4
    10    p         anew, Room = '412'         11    p         20.8         Room = '412'

In two steps. First the changes become versions, all that held from one moment until the next: one pass over the
changes of each producer, in order, with a running last value for each key. Then each reading finds the version of its
time. That would be a join by a range, for which Spark has no good way. So time is cut into buckets, each about as long
as a version holds; a version stands in each bucket that it reaches into, mostly two, and a reading is joined by
equality of producer and bucket, where it meets two or three versions, of which the range picks one. For the few
producers that say far more than others time is cut finer: they would have thousands of versions in a bucket.

Producer and bucket are joined as one number, which is called a place: Spark has a table for single whole numbers that
is quicker than the one for rows. Of producers that share a place by chance, each still gets its own versions: the join
looks at the producer as well.

Readings are never sorted. Versions that take a small part of a worker's memory are sent to all workers, in the order of
time: archived readings come in that order too, and what the next one looks for lies beside what the last one found, so
that a large table is read as from a small one. More of them are dealt out by place, and the readings with them; then
each worker has a table of its part, and there are so many parts that one fits into a worker's memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from fumarole.core.limits import KIB, MIB
from fumarole.pipeline.analysis import answered, without
from fumarole.pipeline.archive.schema import ANEW
from fumarole.pipeline.columns.where import METADATA, VALUE
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.tables import METADATA_MAP

_ORDER = ("time", "epoch", "recorder", "sequence")
_SENT_TO_ALL = 1 / 8
"""Versions that take so much of a worker's memory, and less: Spark has them twice while it makes the table."""
_MOST_SENT_TO_ALL = 1024 * MIB
_A_PART = 32 * MIB
"""Of those that are dealt out."""
_MOST_PARTS = 2_000
"""Where one value is very long, or one producer has very many keys, most versions are far smaller than is reckoned."""
_MOST_KEYS = 64
"""Of all producers together: a column for each. With more, each producer's are numbered, a column for each number."""
_MOST_BUCKETS = 10_000
_ASKING = ("_place", "_asking_time", "_asking_producer")
"""What a reading is asked about. Names that changes have not: Spark would take theirs."""
_IN_A_BUCKET = 1
"""Versions of a producer that begin there. With more, a reading meets more of them, each in another part of memory;
with fewer, the table grows."""
_FAR_MORE = 8
"""Times as many changes as a producer has on average: it is one of the chatty."""
_MOST_CHATTY = 100
_WORTH_A_LOOK = 10_000
"""Changes. With fewer, finding the busiest producers takes longer than it saves."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """About changes of metadata, as far as it matters for how they are joined."""

    count: int
    producers: int
    begin: int
    end: int
    keys: Sequence[str]
    name: int
    """Bytes of the longest name of a producer."""
    text: int
    """Bytes of the longest value. Not of most: all versions of a producer have it, until it says something else."""
    most_keys: int
    """Of one producer, over all the time."""
    chatty: Mapping[str, int]
    """Producers that say far more than others, and how much."""
    counted: bool = True
    """False where Spark may not be asked: then nothing is known but the keys."""

    @classmethod
    def of(cls, changes: DataFrame, keys: Sequence[str] | None = None) -> _Facts | None:
        """None: they say nothing of any key. A small job of its own; of many changes, two. Raises PipelineError."""
        asked = answered(lambda: [cls._counted(changes)])
        if asked is not None:
            return asked[0]
        if keys is None:
            raise PipelineError(
                "the functions of a Declarative Pipeline cannot look at the metadata that an archive has: "
                "enrich outside of them, or name the keys, enrich(messages, changes, keys)"
            )
        return cls(0, 1, 0, 0, list(keys), 0, 0, len(keys), {}, counted=False) if keys else None

    @classmethod
    def _counted(cls, changes: DataFrame) -> _Facts | None:
        found = changes.agg(
            sf.count(sf.lit(1)).alias("count"),
            sf.approx_count_distinct("producer").alias("producers"),
            # A clock that was far off, now and then, must not decide how wide buckets are.
            sf.percentile_approx(sf.unix_micros("time"), [0.01, 0.99], 1_000).alias("times"),
            sf.sort_array(sf.collect_set(sf.when(~_is_anew(), sf.col("key")))).alias("keys"),
            sf.max(sf.octet_length("producer")).alias("name"),
            sf.max(sf.octet_length("text")).alias("text"),
        ).first()
        assert found is not None
        if not found["keys"]:
            return None
        begin, end = found["times"]
        keys = found["keys"]
        most = len(keys) if len(keys) <= _MOST_KEYS else _most_keys(changes)
        chatty = _chatty(changes, found["count"], found["producers"])
        name, text = found["name"] or 0, found["text"] or 0
        return cls(found["count"], found["producers"], begin, end, keys, name, text, most, chatty)

    @property
    def size(self) -> int:
        """What their versions take in memory, at most, about, as Spark lays rows out: if each has all keys, and the
        last of each bucket stands in the next as well.
        """
        key = max(len(key.encode()) for key in self.keys)
        entry = 64 + _in_words(key) + _in_words(self.text)
        version = 96 + _in_words(self.name) + self.most_keys * entry
        return int((1 + 1 / _IN_A_BUCKET) * self.count * version)


def _in_words(size: int) -> int:
    """Bytes that a text of so many bytes takes."""
    return (size + 7) // 8 * 8


@dataclass(frozen=True, slots=True)
class _Buckets:
    """How time is cut: the first and last bucket reach to the beginning and the end of time."""

    begin: int
    width: int
    count: int

    @classmethod
    def between(cls, begin: int, end: int, changes: int, producers: int) -> _Buckets:
        """For so many changes of so many producers."""
        count = max(1, min(_MOST_BUCKETS, changes // max(1, producers * _IN_A_BUCKET)))
        return cls(begin, max(1, (end - begin) // count), count)

    def of(self, time: Column) -> Column:
        """Its bucket."""
        number = sf.floor((sf.unix_micros(time) - self.begin) / sf.lit(self.width)).cast("long")
        return sf.greatest(sf.lit(0), sf.least(sf.lit(self.count - 1), number))


@dataclass(frozen=True, slots=True)
class _Cut:
    """Which buckets are whose: the chatty have finer ones."""

    usual: _Buckets
    fine: _Buckets
    chatty: list[str]

    @classmethod
    def of_changes(cls, facts: _Facts) -> _Cut:
        said, chatty = sum(facts.chatty.values()), list(facts.chatty)
        usual = _Buckets.between(facts.begin, facts.end, facts.count - said, facts.producers - len(chatty))
        return cls(usual, _Buckets.between(facts.begin, facts.end, said, len(chatty)), chatty)

    def bucket(self, producer: Column, time: Column) -> Column:
        return self._for(producer, self.usual.of(time), self.fine.of(time))

    def last(self, producer: Column) -> Column:
        """The bucket that reaches to the end of time."""
        usual, fine = (sf.lit(buckets.count - 1).cast("long") for buckets in (self.usual, self.fine))
        return self._for(producer, usual, fine)

    def _for(self, producer: Column, usual: Column, fine: Column) -> Column:
        return sf.when(producer.isin(self.chatty), fine).otherwise(usual) if self.chatty else usual


def _place(producer: Column, bucket: Column) -> Column:
    """Buckets of one producer never share a place."""
    return sf.xxhash64(producer).bitwiseXOR(bucket)


def enrich(messages: DataFrame, changes: DataFrame, keys: Sequence[str] | None = None) -> DataFrame:
    """The messages with a column `metadata`: a map from keys to values, each with its kind; never null.

    With `keys`, of these keys only. Some facts about the changes are looked up first, by small jobs of their own. In a
    function of a Declarative Pipeline they cannot be: there `keys` are needed, and time is not cut into buckets.
    Raises PipelineError.
    """
    asked = changes if keys is None else changes.where(sf.col("key").isin(list(keys)) | _is_anew())
    facts = _Facts.of(asked, keys)
    if facts is None:
        described = messages.withColumn(METADATA, _nothing())
    else:
        cut = _Cut.of_changes(facts)
        described = _as_of(messages, _dealt(_versions(asked, facts), facts, cut), cut)
    return _with_own(described, keys)


def _dealt(versions: DataFrame, facts: _Facts, cut: _Cut) -> DataFrame:
    """To all workers, or to each a part. Said to Spark outright, whose guess goes by the size of the files: that says
    nothing of the maps that come out of them, and a table taken for small could fill the memory of all workers.
    """
    spark = versions.sparkSession
    if facts.counted and facts.size <= min(_MOST_SENT_TO_ALL, _SENT_TO_ALL * _memory(spark)):
        # Before they are put into buckets: an order that is asked for right below a join, Spark takes for useless.
        return _at_places(versions.sortWithinPartitions("_from"), cut).hint("broadcast")
    usual = spark.conf.get("spark.sql.shuffle.partitions")
    parts = max(int(usual or 1), min(_MOST_PARTS, facts.size // _A_PART))
    return _at_places(versions, cut).repartition(parts, "_found_at").hint("shuffle_hash")


def _memory(spark: SparkSession) -> int:
    """Bytes that a worker has, or the driver, where that has less: it makes the table that is sent.

    The driver's are those that Java has. What the settings say of it may have come after Java was started, as in a
    notebook that makes a second session, and then changed nothing.
    """
    java = getattr(spark, "_jvm", None)
    if java is None:  # Spark Connect: it is elsewhere
        driver = _bytes(spark.conf.get("spark.driver.memory", "1g") or "1g")
    else:
        driver = int(java.java.lang.Runtime.getRuntime().maxMemory())
    if (spark.conf.get("spark.master", "local") or "").startswith("local"):
        return driver
    return min(driver, _bytes(spark.conf.get("spark.executor.memory", "1g") or "1g"))


def _bytes(setting: str) -> int:
    """Of memory, as Spark's settings say it: `8g`, `512m`, or a number of MiB."""
    said = re.fullmatch(r"(\d+)([kmgt]?)b?", setting.strip().lower())
    if said is None:
        return 0
    return int(said[1]) * {"k": KIB, "": MIB, "m": MIB, "g": KIB * MIB, "t": MIB * MIB}[said[2]]


def _nothing() -> Column:
    return sf.create_map().cast(METADATA_MAP)


def _versions(changes: DataFrame, facts: _Facts) -> DataFrame:
    """For each producer all that held from a time until the next."""
    in_order = Window.partitionBy("producer").orderBy(*_ORDER)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    value = sf.struct(*VALUE.fieldNames())

    def last(it: Column, said: Column) -> Column:
        return sf.last(sf.when(it | _is_anew(), said), ignorenulls=True).over(so_far)

    if len(facts.keys) <= _MOST_KEYS:
        held = {key: last(sf.col("key") == key, value) for key in facts.keys}
        latest = [sf.struct(sf.lit(key).alias("key"), it.alias("value")) for key, it in held.items()]
    else:
        changes = changes.withColumn("_number", _number_of_key())
        entry = sf.struct("key", value.alias("value"))
        latest = [last(sf.col("_number") == number, entry) for number in range(1, facts.most_keys + 1)]
    return (
        changes.select(
            "producer",
            "time",
            sf.lead("time").over(in_order).alias("_until"),
            sf.array(*latest).alias("_entries"),
        )
        # What was said at the same moment counts from that moment on, all of it.
        .where(sf.col("_until").isNull() | (sf.col("_until") > sf.col("time")))
        .select(
            sf.col("producer").alias("_producer"),
            sf.col("time").alias("_from"),
            "_until",
            sf.map_from_entries(_held()).cast(METADATA_MAP).alias(METADATA),
        )
    )


def _at_places(versions: DataFrame, cut: _Cut) -> DataFrame:
    """In each bucket that they reach into. The maps are made before: beside this, Spark would make one for each."""
    last_moment = sf.col("_until") - sf.make_dt_interval(secs=sf.lit(0.000001))
    producer = sf.col("_producer")
    reaches_to = sf.when(sf.col("_until").isNull(), cut.last(producer)).otherwise(cut.bucket(producer, last_moment))
    buckets = sf.sequence(cut.bucket(producer, sf.col("_from")), reaches_to)
    standing = versions.withColumn("_bucket", sf.explode(buckets))
    return without(standing.withColumn("_found_at", _place(producer, sf.col("_bucket"))), "_bucket")


def _is_anew() -> Column:
    return sf.col("kind") == ANEW


def _number_of_key() -> Column:
    """Among those of its producer."""
    return sf.dense_rank().over(Window.partitionBy("producer").orderBy("key"))


def _most_keys(changes: DataFrame) -> int:
    most = changes.select(_number_of_key().alias("number")).agg(sf.max("number")).first()
    assert most is not None
    return int(most[0])


def _chatty(changes: DataFrame, count: int, producers: int) -> dict[str, int]:
    """Those that say far more than others, with how many changes each has."""
    if count < _WORTH_A_LOOK:
        return {}
    said = changes.groupBy("producer").agg(sf.count(sf.lit(1)).alias("changes"))
    far_more = said.where(sf.col("changes") > _FAR_MORE * count / max(1, producers))
    return {row["producer"]: row["changes"] for row in far_more.orderBy(sf.desc("changes")).head(_MOST_CHATTY)}


def _held() -> Column:
    return sf.expr(f"filter(_entries, it -> it.value.kind NOT IN ('gone', '{ANEW}'))")


def _as_of(messages: DataFrame, versions: DataFrame, cut: _Cut) -> DataFrame:
    """Asked for as the one version that holds, not as a join of rows with rows: what Spark knows to be one at most, it
    need not copy, and a second one would be an error.
    """
    place, time, producer = (sf.col(name).outer() for name in _ASKING)
    holds = (time >= sf.col("_from")) & (sf.col("_until").isNull() | (time < sf.col("_until")))
    # Written so that Spark does not take it for one more key to join by.
    same = sf.coalesce(producer == sf.col("_producer"), sf.lit(False))
    version = versions.where((place == sf.col("_found_at")) & holds & same).select(METADATA).scalar()
    bucket = cut.bucket(sf.col("producer"), sf.col("time"))
    values = (_place(sf.col("producer"), bucket), sf.col("time"), sf.col("producer"))
    # Where readings are chosen by their metadata afterwards, Spark would rather ask for the version below, for the
    # choice, and then once more for what is left. Not beside something that is another thing each time.
    once = {METADATA: sf.coalesce(version, _nothing()), "_once": sf.spark_partition_id()}
    asking = messages.withColumns(dict(zip(_ASKING, values, strict=True)))
    return without(asking.withColumns(once), "_once", *_ASKING)


def _with_own(described: DataFrame, keys: Sequence[str] | None) -> DataFrame:
    """With what each message itself said, on top.

    By functions of arrays: those of maps Spark does not compile, and all columns of each reading would be copied again.
    In SQL: what is said with Python's lambdas is given new names each time, and each batch would be compiled anew.
    """
    asked = sf.lit(None) if keys is None else sf.array(*[sf.lit(key) for key in keys])
    value = ", ".join(f"it.{name} AS {name}" for name in VALUE.fieldNames())
    others = sf.expr("filter(map_entries(metadata), it -> NOT array_contains(changes.key, it.key))")
    new = sf.expr(
        f"transform("
        f"filter(changes, it -> it.kind <> 'gone' AND (_asked IS NULL OR array_contains(_asked, it.key))),"
        f"it -> struct(it.key AS key, struct({value}) AS value))"
    )
    merged = sf.when(sf.size("changes") > 0, sf.map_from_entries(sf.concat(others, new))).otherwise(sf.col(METADATA))
    merging = described.withColumn("_asked", asked.cast("array<string>"))
    return without(merging.withColumn(METADATA, merged.cast(METADATA_MAP)), "_asked")
