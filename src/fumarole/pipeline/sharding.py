"""State of a stream by shard: producers are dealt out to a few groups by a hash, and a group's state is one value.

A state for each producer would cost Spark a call for each of them in each batch. And Spark 4.3 makes a Python object of
each row that goes to `transformWithStateInPandas`, several microseconds each. So the rows of a group are packed before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

STORE: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PACKED: Final = "rows"
_WORD: Final = 0xFFFFFFFF


def use_state(spark: SparkSession) -> None:
    """`transformWithState` needs this store. A Declarative Pipeline sets it in its own file, and cannot do so here."""
    if spark.conf.get(STORE, None) != ROCKSDB:
        spark.conf.set(STORE, ROCKSDB)


def partitions(spark: SparkSession) -> int:
    """Of a shuffle: that many shards there are, one in each."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def packed(rows: DataFrame, key: str) -> DataFrame:
    """The rows of each group in a few values: the key, an INT, and the rows without it as an Arrow stream."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys = batch.column(key)
            others = batch.select([name for name in batch.schema.names if name != key])
            for each in pc.unique(keys).to_pylist():
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, others.schema) as writer:
                    writer.write_batch(others.filter(pc.equal(keys, each)))
                data = pa.array([sink.getvalue().to_pybytes()], pa.binary())
                yield pa.RecordBatch.from_arrays([pa.array([each], pa.int32()), data], [key, PACKED])

    return rows.mapInArrow(pack, f"{key} int, {PACKED} binary")


def unpacked(frames: Iterable[pd.DataFrame]) -> pa.Table:
    """The rows of one group."""
    return pa.concat_tables([pa.ipc.open_stream(data).read_all() for frame in frames for data in frame[PACKED]])


def shard_keys(count: int) -> list[int]:
    """A key for each shard, so that each comes into another of so many parts of a shuffle."""
    keys: dict[int, int] = {}
    key = 0
    while len(keys) < count:
        keys.setdefault(spark_hash(key) % count, key)
        key += 1
    return [keys[part] for part in sorted(keys)]


def spark_hash(number: int) -> int:
    """Spark's `hash` of an INT: Murmur3 with the seed 42. Worked out here, so that no job of Spark is needed for it."""
    mixed = number * 0xCC9E2D51 & _WORD
    mixed = _rotated(mixed, 15) * 0x1B873593 & _WORD
    mixed = (_rotated(42 ^ mixed, 13) * 5 + 0xE6546B64) & _WORD ^ 4
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _WORD
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _WORD
    mixed ^= mixed >> 16
    return mixed - (mixed >> 31 << 32)


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & _WORD
