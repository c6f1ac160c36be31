"""State of a stream by shard: producers are dealt out to a few groups by a hash, and a group's state is one value.

A state for each producer would cost Spark a call for each of them in each batch. And Spark 4.3 makes a Python object of
each row that goes to `transformWithStateInPandas`, several microseconds each. So the rows of a group are packed before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
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
                data = pa.array([as_stream(others.filter(pc.equal(keys, each)))], pa.binary())
                yield pa.RecordBatch.from_arrays([pa.array([each], pa.int32()), data], [key, PACKED])

    return rows.mapInArrow(pack, f"{key} int, {PACKED} binary")


def as_stream(rows: pa.RecordBatch | pa.Table) -> bytes:
    """For `unpacked`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    made: bytes = sink.getvalue().to_pybytes()
    return made


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


# Spark's hash of texts: XXH64 with the seed 42.

_PRIMES: Final = (
    *(np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)),
    *(np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)),
)
_SEED: Final = np.uint64(42)
_Words = NDArray[np.uint64]


def text_hashes(texts: pa.Array) -> NDArray[np.int64]:
    """Spark's `xxhash64` of texts, those of each length together. None of them is null."""
    texts = texts.cast(pa.large_binary())
    found = np.zeros(len(texts), np.uint64)
    if not len(texts):
        return found.view(np.int64)
    _, offsets, data = texts.buffers()
    begins = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    letters = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    lengths = np.diff(begins)
    for length in np.unique(lengths).tolist():
        places = np.flatnonzero(lengths == length)
        found[places] = _xxh64(letters[begins[places][:, None] + np.arange(length)])
    return found.view(np.int64)


def _xxh64(texts: NDArray[np.uint8]) -> _Words:
    """Of texts of one length: a row for each."""
    count, length = texts.shape
    first, second, third, fourth, fifth = _PRIMES
    stripes, eights = length - length % 32, length - length % 8
    with np.errstate(over="ignore"):
        if stripes:
            lanes = [np.full(count, start) for start in (_SEED + first + second, _SEED + second, _SEED, _SEED - first)]
            for at in range(0, stripes, 32):
                words = _as_words(texts[:, at : at + 32])
                lanes = [_turned(lane + words[:, n] * second, 31) * first for n, lane in enumerate(lanes)]
            found = np.zeros(count, np.uint64)
            for lane, by in zip(lanes, (1, 7, 12, 18), strict=True):
                found = found + _turned(lane, by)
            for lane in lanes:
                found = (found ^ _turned(lane * second, 31) * first) * first + fourth
        else:
            found = np.full(count, _SEED + fifth)
        found = found + np.uint64(length)
        for at in range(stripes, eights, 8):
            word = _as_words(texts[:, at : at + 8])[:, 0]
            found = _turned(found ^ _turned(word * second, 31) * first, 27) * first + fourth
        fours = length - length % 4
        if fours > eights:
            word = np.ascontiguousarray(texts[:, eights:fours]).view("<u4")[:, 0].astype(np.uint64)
            found = _turned(found ^ word * first, 23) * second + third
        for column in texts[:, fours:].T.astype(np.uint64):
            found = _turned(found ^ column * fifth, 11) * first
        found = (found ^ found >> np.uint64(33)) * second
        found = (found ^ found >> np.uint64(29)) * third
    hashes: _Words = found ^ found >> np.uint64(32)
    return hashes


def _as_words(texts: NDArray[np.uint8]) -> _Words:
    return np.ascontiguousarray(texts).view("<u8")


def _turned(words: _Words, by: int) -> _Words:
    return words << np.uint64(by) | words >> np.uint64(64 - by)
