"""Live rows as shards take them, made where the source reads them: a few values for Spark, not a row for each reading.

Spark would make a row of its own of each reading, hand it to Python again, and test it by generated code that the JVM
does not compile when there are many rules. Here tests of messages are columns of numpy. What `rules.plan` makes by
Spark's columns is the same: the shard of each producer, and two bits for each test.

A test of the topic or of the producer is worked out once for each of them, by its definition; one of the value by
comparing a column of doubles, which is exact below 2⁵³. Values beyond are tested one by one. Fields of JSON payloads
are not tested here: `Packing.of` gives None for rules with such tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fumarole.core.publication import FORGOTTEN as FORGOTTEN_TOPIC
from fumarole.core.query.holds import COMPARISONS, Truth, value_holds
from fumarole.core.query.message import payload_number
from fumarole.core.query.parse import parse
from fumarole.core.query.tree import (
    Between,
    Compare,
    Constant,
    Field,
    Has,
    In,
    IsNull,
    Kind,
    Operator,
    Test,
    Value,
    show,
)
from fumarole.core.rules import Rules
from fumarole.core.topic import Pattern, matches, parse_pattern, split
from fumarole.pipeline.patterns import grammar_of
from fumarole.pipeline.rules.plan import EVENTS, SHARD, more_columns
from fumarole.pipeline.rules.rows import COMPLETE, FORGOTTEN, GAP, READING, Integers
from fumarole.pipeline.rules.truths import FALSE, TESTS_IN_A_WORD, TRUE, UNKNOWN, Truths
from fumarole.pipeline.sharding import PACKED, as_stream, text_hashes

SCHEMA: Final = f"{SHARD} int, {PACKED} binary"
_ARROW: Final = pa.schema([(SHARD, pa.int32()), (PACKED, pa.binary())])
_CODES: Final[dict[Truth, int]] = {None: UNKNOWN, False: FALSE, True: TRUE}
_SAFE: Final = 2.0**53
Codes = NDArray[np.int64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Packing:
    """What the source has to know of rules."""

    keys: tuple[int, ...]
    """Of the shards."""
    patterns: tuple[str, ...]
    tests: tuple[str, ...]
    more: tuple[str, ...]
    """Columns that go along as they are."""

    @classmethod
    def of(cls, rules: Rules, keys: Sequence[int]) -> Packing | None:
        """None where a rule tests a field of JSON payloads."""
        truths = Truths(rules.declared)
        if any(isinstance(test.key, Field) and test.key.path for test in truths.of_message):
            return None
        tests = tuple(show(test) for test in truths.of_message)
        return cls(tuple(keys), tuple(truths.topics), tests, tuple(more_columns(rules)))

    @classmethod
    def from_text(cls, text: str) -> Packing:
        """What `as_text` gave."""
        return msgspec.json.decode(text, type=cls)

    def as_text(self) -> str:
        return msgspec.json.encode(self).decode()

    def packed(self, rows: pa.Table) -> pa.RecordBatch:
        """Rows of the live source with `clock`, in a stream of bytes for each shard."""
        has_producer = rows["producer"].is_valid()
        rows = rows.filter(pc.or_(has_producer, rows["event"].is_valid())).combine_chunks()
        shards = self._shards(rows["producer"].combine_chunks())
        columns = self._columns(rows)
        keys, data = [], []
        for number, key in enumerate(self.keys):
            own = np.flatnonzero((shards == number) | (shards < 0))
            if len(own):
                keys.append(key)
                data.append(as_stream(columns.take(pa.array(own))))
        return pa.RecordBatch.from_arrays([pa.array(keys, pa.int32()), pa.array(data, pa.binary())], schema=_ARROW)

    def _shards(self, producers: pa.Array) -> Integers:
        """The place of each row's shard among the keys; -1: all of them."""
        coded = producers.dictionary_encode()
        own = np.append(np.mod(text_hashes(coded.dictionary), len(self.keys)), -1)
        return own[_places(coded)]

    def _columns(self, rows: pa.Table) -> pa.Table:
        """Those of `rules.rows`."""
        kind = _kinds(rows)
        since = pa.array((kind == GAP) | (kind == COMPLETE))
        time = pc.if_else(since, rows["event_time"], rows["time"])
        columns = {
            "kind": pa.array(kind),
            "producer": rows["producer"],
            "at": rows["recorded"].cast(pa.int64()),
            "time": time.cast(pa.int64()),
            "place": rows["offset"],
            "value": rows["value"],
            "news": _news(rows["changes"].combine_chunks()),
        }
        codes = list(self._codes(rows))
        for word, begin in enumerate(range(0, len(codes), TESTS_IN_A_WORD)):
            part = codes[begin : begin + TESTS_IN_A_WORD]
            columns[f"test{word}"] = pa.array(sum((code << (2 * n) for n, code in enumerate(part)), _of(rows, UNKNOWN)))
        return pa.table({**columns, **{name: rows[name] for name in self.more}})

    def _codes(self, rows: pa.Table) -> Iterator[Codes]:
        for pattern in self.patterns:
            wanted = parse_pattern(pattern, grammar_of(pattern))
            yield _of_each(rows["topic"], partial(_is_on, wanted))
        for text in self.tests:
            yield codes_of(cast("Test", parse(text)), rows)


def codes_of(test: Test, rows: pa.Table) -> Codes:
    """What a test of the message says of each row, as a code of `truths`."""
    assert isinstance(test.key, Field)
    match test.key.name:
        case "value":
            return _of_value(test, rows)
        case "size":
            return _of_each(pc.binary_length(rows["payload"]), lambda size: _holds(test, size))
        case name:
            return _of_each(rows[name], lambda text: _holds(test, text))


def _is_on(pattern: Pattern, topic: Value | None) -> Truth:
    return None if topic is None else matches(pattern, split(str(topic)))


def _holds(test: Test, value: Value | None) -> Truth:
    match test:
        case Has():
            return value is not None
        case IsNull():
            return value is None
    return None if value is None else value_holds(test, value)


def _of_each(column: pa.ChunkedArray, truth: Callable[[Value | None], Truth]) -> Codes:
    """What it says of each distinct value of a column, nulls included."""
    coded = column.combine_chunks().dictionary_encode()
    answers = [_CODES[truth(value)] for value in (*coded.dictionary.to_pylist(), None)]
    return np.array(answers, np.int64)[_places(coded)]


def _places(coded: pa.DictionaryArray) -> Integers:
    """The place of each row's value in the dictionary; of null -1."""
    return np.asarray(pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False), np.int64)


def _of(rows: pa.Table, code: int) -> Codes:
    return np.full(rows.num_rows, code, np.int64)


def _of_value(test: Test, rows: pa.Table) -> Codes:
    """A column has doubles: of those that may not be exact, the payload is looked at."""
    column = rows["value"].combine_chunks()
    values = column.to_numpy(zero_copy_only=False)
    there = column.is_valid().to_numpy(zero_copy_only=False)
    codes = np.where(there, _by_column(test, values), _CODES[_holds(test, None)])
    for row in np.flatnonzero(there & ~(np.abs(values) < _SAFE)).tolist():
        payload = rows["payload"][row].as_py()
        exact = None if payload is None else payload_number(payload)
        value = float(values[row])
        codes[row] = _CODES[_holds(test, exact if type(exact) is int and float(exact) == value else value)]
    return codes


def _by_column(test: Test, values: NDArray[np.float64]) -> Codes:
    """Of numbers below 2⁵³. A constant beyond stays beyond when it becomes a double."""
    match test:
        case Compare(_, operator, constant) if constant.kind is Kind.NUMBER:
            truths: Booleans = _compared(values, operator, constant)
        case In(_, constants) if all(constant.kind is Kind.NUMBER for constant in constants):
            truths = np.zeros(len(values), bool)
            for constant in constants:
                truths |= _compared(values, "=", constant)
        case Between(_, low, high) if low.kind is high.kind is Kind.NUMBER:
            truths = _compared(values, ">=", low) & _compared(values, "<=", high)
        case _:  # every number gives the same answer, or there are constants of several kinds
            distinct, places = np.unique(values, return_inverse=True)
            return np.array([_CODES[_holds(test, float(value))] for value in distinct], np.int64)[places]
    return np.where(truths, TRUE, FALSE)


def _compared(values: NDArray[np.float64], operator: Operator, constant: Constant) -> Booleans:
    return np.asarray(COMPARISONS[operator](values, float(constant.value)), np.bool_)


def _kinds(rows: pa.Table) -> Integers:
    kinds = np.where(pc.fill_null(pc.equal(rows["topic"], FORGOTTEN_TOPIC), False), FORGOTTEN, READING).astype(np.int64)
    if rows["event"].null_count < rows.num_rows:
        events = pc.fill_null(rows["event"], "").to_numpy()
        for name, kind in EVENTS.items():
            kinds[events == name] = kind
    return kinds


def _news(changes: pa.Array) -> pa.Array:
    """JSON of those that there are."""
    lengths = pc.fill_null(pc.list_value_length(changes), 0).to_numpy(zero_copy_only=False)
    places = np.flatnonzero(lengths > 0)
    texts = [msgspec.json.encode(each).decode() for each in changes.take(pa.array(places)).to_pylist()]
    which = np.full(len(changes), -1, np.int64)
    which[places] = np.arange(len(places))
    return pa.array(texts, pa.string()).take(pa.array(which, mask=which < 0))
