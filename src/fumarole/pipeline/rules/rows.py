"""Rows as a shard takes them: what was heard of its producers, and the two kinds of news that are for all shards.

kind      reading, said (news without a reading), forgotten; tick, gap, complete: see `core.alarms`
producer  null for the last three
at        when it was heard, microseconds
time      the sensor's time; of a gap and of `complete`: since when
place     in the order in which things were heard
value     of a reading
news      what it said that is new about its producer, in JSON: a list of key, kind, text, number, truth
tests     a list of whole numbers: see `truths`
topic, payload, bytes: only where a rule is a function in Python
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fumarole.core.query.tree import Value
from fumarole.pipeline.archive.schema import ANEW
from fumarole.pipeline.rows import value_of

READING, SAID, FORGOTTEN, TICK, GAP, COMPLETE = range(6)
Integers = NDArray[np.int64]


class News(msgspec.Struct):
    """One change of metadata."""

    key: str
    kind: str
    text: str | None = None
    number: float | None = None
    truth: bool | None = None


_NEWS: Final = msgspec.json.Decoder(list[News])


@dataclass(slots=True)
class Rows:
    """Some rows, as arrays."""

    kind: Integers
    producer: pa.Array
    at: Integers
    time: Integers
    place: Integers
    value: NDArray[np.float64]
    news: pa.Array
    tests: Integers
    """A row for each row, a column for each word."""
    more: pa.Table

    def __len__(self) -> int:
        return len(self.kind)

    @classmethod
    def of(cls, table: pa.Table, words: int) -> Rows:
        """Of a table with the columns above; tests are in columns `test0`, `test1`, …"""
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        tests = [_integers(columns[f"test{number}"]) for number in range(words)]
        return cls(
            _integers(columns["kind"]),
            columns["producer"].cast(pa.string()),  # where all are null, pandas has lost the type
            _integers(columns["at"]),
            _integers(columns["time"]),
            _integers(columns["place"]),
            columns["value"].to_numpy(zero_copy_only=False).astype(np.float64),
            columns["news"],
            np.column_stack(tests) if tests else np.zeros((table.num_rows, 0), np.int64),
            table.select([name for name in ("topic", "payload") if name in columns]),
        )

    def take(self, places: Integers) -> Rows:
        """These of them, in this order."""
        return Rows(
            *(self.kind[places], self.producer.take(pa.array(places)), self.at[places], self.time[places]),
            *(self.place[places], self.value[places], self.news.take(pa.array(places)), self.tests[places]),
            self.more.take(pa.array(places)),
        )

    def numbers(self, known: Any) -> Integers:
        """The producers' rows in a state, which makes them where there are none; -1 where no producer is named."""
        coded = pc.dictionary_encode(self.producer)
        own = known.numbers(coded.dictionary.to_pylist())
        places = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        found = np.full(len(places), -1, np.int64)
        there = places >= 0
        found[there] = own[places[there]]
        return found


def _integers(column: pa.Array) -> Integers:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False), np.int64)


def merged(metadata: bytes, news: str) -> dict[str, Value]:
    """Metadata after some news, the first of which may be that all before holds no longer."""
    held: dict[str, Value] = msgspec.json.decode(metadata)
    for each in _NEWS.decode(news):
        if each.kind == ANEW:
            held = {}
            continue
        value = value_of({"kind": each.kind, "text": each.text, "number": each.number, "truth": each.truth})
        if value is None:
            held.pop(each.key, None)
        else:
            held[each.key] = value
    return held
