"""What holds for the producers of live messages: the column `metadata`, as `enrich` makes it of an archive.

The broker tells the listener the metadata of all producers when it begins, and again after each loss of the connection.
From then on each message brings what is new (M3, M5). So each message is described when it is received, in order, and a
message that Spark asks for again has the same description.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fumarole.core.publication import FORGOTTEN
from fumarole.core.query.tree import Value
from fumarole.pipeline.archive.schema import ANEW
from fumarole.pipeline.rows import recorded_keys, typed

METADATA: Final = "metadata"
_VALUE: Final = pa.struct(
    [("kind", pa.string()), ("text", pa.string()), ("number", pa.float64()), ("truth", pa.bool_())]
)
COLUMN: Final = pa.map_(pa.string(), _VALUE)
_Entries = dict[str, dict[str, Any]]
"""A value with its kind, under each key."""


class Describing:
    """`learn` what the broker knows, then `described` rows in the order in which they came."""

    def __init__(self) -> None:
        self._held: dict[str, _Entries] = {}

    def learn(self, producers: Iterable[tuple[str, Mapping[str, Value]]]) -> None:
        """All that is known of all producers. What was known of others is void."""
        self._held = {name: dict(map(_entry, typed(recorded_keys(metadata)))) for name, metadata in producers}

    def knows_all(self, rows: pa.Table) -> bool:
        """Is each producer of these rows known, or introduces itself by its first reading there?"""
        unknown = [
            name for name in pc.unique(rows["producer"]).to_pylist() if name is not None and name not in self._held
        ]
        if not unknown:
            return True
        told = rows.filter(pc.is_in(rows["producer"], pa.array(unknown)))
        first: dict[str, bool] = {}
        for name, changes in zip(told["producer"].to_pylist(), pc.is_valid(told["changes"]).to_pylist(), strict=True):
            first.setdefault(name, changes)
        return all(first.values())

    def described(self, rows: pa.Table) -> pa.Table:
        """The same rows with the column `metadata`: what held when each came, its own news included."""
        coded = pc.dictionary_encode(rows["producer"].combine_chunks())
        codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        names = coded.dictionary.to_pylist()
        versions: list[_Entries] = [{}, *[self._held.setdefault(name, {}) for name in names]]
        # Version 0 is nothing, 1 and so on are what held for each producer before these rows.
        order = np.argsort(codes, kind="stable")
        found = codes[order] + 1
        ends = np.searchsorted(codes[order], np.arange(len(names)), side="right")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        forgotten = pc.equal(rows["topic"], FORGOTTEN).to_numpy()
        has_news = pc.is_valid(rows["changes"]).to_numpy() | forgotten
        for row in np.flatnonzero(has_news & (codes >= 0)).tolist():
            name = names[codes[row]]
            news = [] if forgotten[row] else rows["changes"][row].as_py()
            self._held[name] = _changed({} if forgotten[row] else self._held[name], news)
            found[place[row] : ends[codes[row]]] = len(versions)
            versions.append(self._held[name])
        for name in {names[codes[row]] for row in np.flatnonzero(forgotten & (codes >= 0)).tolist()}:
            if not self._held[name]:
                del self._held[name]
        distinct = pa.array([list(each.items()) for each in versions], COLUMN)
        by_row = np.empty(len(order), np.int64)
        by_row[order] = found
        return rows.append_column(METADATA, distinct.take(pa.array(by_row)))


def _entry(change: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return change["key"], {name: change[name] for name in _VALUE.names}


def _changed(held: _Entries, news: Iterable[Mapping[str, Any]]) -> _Entries:
    made = dict(held)
    for each in news:
        if each["kind"] == ANEW:
            made.clear()
        elif each["kind"] == "gone":
            made.pop(each["key"], None)
        else:
            made.update([_entry(each)])
    return made
