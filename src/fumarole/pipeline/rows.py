"""What was captured as Arrow tables: messages as they are, and what readings brought, a row for each changed key."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fumarole.client.capture import Columns, Texts
from fumarole.core.query.tree import Value
from fumarole.core.values import ONLINE
from fumarole.pipeline.archive.schema import ANEW, CHANGE, CHANGES, HEADERS, IDENTITY, MESSAGES, TIME

MESSAGE_ROWS = pa.schema([field for field in MESSAGES if field.name not in IDENTITY])
"""A message before it is recorded."""
CHANGE_ROWS = pa.schema([field for field in CHANGES if field.name not in IDENTITY])
_NOTHING = {"text": None, "number": None, "truth": None}
_FLAT = msgspec.json.Decoder(dict[str, str | bool | int | float | None])
"""Of metadata as it should be. It refuses what `metadata_of` leaves out."""
_KIND_NAMES = ["text", "number", "truth", "gone"]
_KINDS = {str: 0, float: 1, int: 1, bool: 2, type(None): 3}


def message_table(columns: Columns) -> pa.Table:
    """Messages. Nothing is copied: the columns are laid out as Arrow wants them."""
    rows = columns.rows
    names = _texts(columns.header_names, pa.string())
    lists = pa.Array.from_buffers(
        HEADERS.item_type,
        len(names),
        [None, pa.py_buffer(columns.header_text_offsets)],
        children=[_texts(columns.header_texts, pa.string())],
    )
    entries = pa.StructArray.from_arrays([names, lists], fields=[HEADERS.key_field, HEADERS.item_field])
    has_headers, header_offsets = pa.py_buffer(columns.has_headers), pa.py_buffer(columns.header_offsets)
    arrays = [
        pa.Array.from_buffers(TIME, rows, [None, pa.py_buffer(columns.times)]),
        _texts(columns.topics, pa.string()),
        _texts(columns.producers, pa.string(), columns.has_producer),
        pa.Array.from_buffers(pa.float64(), rows, [pa.py_buffer(columns.has_value), pa.py_buffer(columns.values)]),
        _texts(columns.payloads, pa.binary()),
        pa.Array.from_buffers(HEADERS, rows, [has_headers, header_offsets], children=[entries]),
        _changes_column(columns),
        pa.nulls(rows, TIME),
    ]
    return pa.table(arrays, MESSAGE_ROWS)


def change_table(messages: pa.Table) -> pa.Table:
    """What the readings among these messages said that is new about their producers, in order."""
    lists = messages["changes"].combine_chunks()
    rows = pc.list_parent_indices(lists)
    return pa.table(
        [messages["time"].take(rows), messages["producer"].take(rows), *lists.flatten().flatten()], CHANGE_ROWS
    )


def told_of(columns: Columns) -> list[str]:
    """The producers of the readings among them that said something new."""
    rows = pa.array(np.frombuffer(columns.metadata_rows, np.int32))
    names: list[str] = _texts(columns.producers, pa.string()).take(rows).unique().to_pylist()
    return names


def count_of(columns: Columns, topic: str) -> int:
    """How many messages among them are on this topic."""
    if topic.encode() not in columns.topics.data:  # mostly, and seen at once
        return 0
    found: int = pc.sum(pc.equal(_texts(columns.topics, pa.string()), topic)).as_py()
    return found


def snapshot_table(producers: Iterable[tuple[str, Mapping[str, Value]]], time: int) -> pa.Table:
    """All that is known of producers, as changes at a time."""
    rows = [row for producer, metadata in producers for row in snapshot_of(producer, time, metadata)]
    return pa.Table.from_pylist(rows, CHANGE_ROWS)


def snapshot_of(producer: str, time: int, metadata: Mapping[str, Value]) -> Iterator[dict[str, Any]]:
    """All that is known of a producer, and that it is all: what was said before holds no longer."""
    yield {"time": time, "producer": producer, "key": "", "kind": ANEW, **_NOTHING}
    yield from changes_of(producer, time, metadata)


def recorded_keys(metadata: Mapping[str, Value]) -> dict[str, Value]:
    """Without `_online`: only the live broker knows it, and an archive must say the same as a live stream."""
    return {key: value for key, value in metadata.items() if key != ONLINE}


def changes_of(producer: str, time: int, metadata: Mapping[str, Value | None]) -> Iterator[dict[str, Any]]:
    """A row for each key."""
    for change in typed(metadata):
        yield {"time": time, "producer": producer, **change}


def typed(metadata: Mapping[str, Value | None]) -> Iterator[dict[str, Any]]:
    """Each key with its kind, and the value in the column of that kind."""
    for key, value in metadata.items():
        if value is None:
            yield {"key": key, "kind": "gone", **_NOTHING}
        elif isinstance(value, str):
            yield {"key": key, "kind": "text", **_NOTHING, "text": value}
        elif isinstance(value, bool):
            yield {"key": key, "kind": "truth", **_NOTHING, "truth": value}
        else:
            yield {"key": key, "kind": "number", **_NOTHING, "text": _digits(value), "number": _double(value)}


def held(changes: Iterable[Mapping[str, Any]]) -> dict[str, Value]:
    """What holds after these changes of one producer, in their order."""
    known: dict[str, Value | None] = {}
    for change in changes:
        if change["kind"] == ANEW:
            known.clear()
        else:
            known[change["key"]] = value_of(change)
    return {key: value for key, value in known.items() if value is not None}


def value_of(change: Mapping[str, Any]) -> Value | None:
    """What `typed` was given for a key; None: it is gone."""
    kind = change["kind"]
    if kind == "number" and change["text"] is not None:
        return int(change["text"])
    value: Value | None = None if kind == "gone" else change[kind]
    return value


def _digits(value: float) -> str | None:
    """Of a whole number that no double is, such as 2⁵³ + 1: queries compare exactly (M10)."""
    return None if _double(value) == value else str(value)


def _double(value: float) -> float:
    """An integer may be larger than any double."""
    try:
        return float(value)
    except OverflowError:
        return sys.float_info.max if value > 0 else -sys.float_info.max


def metadata_of(text: str) -> dict[str, Value | None]:
    """The metadata of a reading. Our broker refuses what is none; of another, it says nothing."""
    try:
        said = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    if not isinstance(said, dict):
        return {}
    return {key: value for key, value in said.items() if value is None or isinstance(value, str | bool | int | float)}


def _changes_column(columns: Columns) -> pa.Array:
    """Of each message. Many say the same: each text is read once, and no row by itself."""
    if not columns.metadata_rows:
        return pa.nulls(columns.rows, pa.list_(CHANGE))
    coded = _texts(columns.metadata, pa.string()).dictionary_encode()
    which = np.full(columns.rows, -1, np.int32)
    which[np.frombuffer(columns.metadata_rows, np.int32)] = coded.indices.to_numpy()
    return changes_said(coded.dictionary.to_pylist()).take(pa.array(which, mask=which < 0))


def changes_said(texts: list[str]) -> pa.ListArray:
    """What `typed(metadata_of(text))` is of each text; null where that is nothing. All at once, a column at a time."""
    said = _all_said(texts)
    counts = np.fromiter(map(len, said), np.int32, len(said))
    keys = list(chain.from_iterable(said))
    listed = list(chain.from_iterable(map(dict.values, said)))
    kinds = np.fromiter(map(_KINDS.__getitem__, map(type, listed)), np.int8, len(keys))
    values = np.array(listed, object)
    is_number, is_truth = kinds == _KINDS[float], kinds == _KINDS[bool]
    digits, doubles = _numbers(values[is_number].tolist())
    texts_said = values.copy()
    texts_said[kinds != _KINDS[str]] = None
    texts_said[is_number] = digits
    changes = [
        pa.array(keys, pa.string()),
        pa.array(_KIND_NAMES).take(pa.array(kinds)),
        pa.array(texts_said, pa.string()),
        _spread(doubles, is_number),
        _spread(values[is_truth].astype(bool), is_truth),
    ]
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    items = pa.StructArray.from_arrays(changes, fields=list(CHANGE))
    return pa.ListArray.from_arrays(offsets, items, mask=pa.array(counts == 0))


def _all_said(texts: list[str]) -> list[dict[str, Value | None]]:
    try:
        return list(map(_FLAT.decode, texts))
    except (msgspec.DecodeError, RecursionError):  # one of them is odd
        return list(map(metadata_of, texts))


def _numbers(numbers: list[int | float]) -> tuple[list[str | None], npt.NDArray[np.float64]]:
    """Of each number what `_digits` and `_double` are."""
    try:
        doubles = np.array(list(map(float, numbers)), np.float64)
    except OverflowError:
        doubles = np.array(list(map(_double, numbers)), np.float64)
    if np.all(np.abs(doubles) < 2**53):  # a double can be each of these whole numbers
        return [None] * len(numbers), doubles
    return list(map(_digits, numbers)), doubles


def _spread(values: npt.NDArray[Any], there: npt.NDArray[np.bool_]) -> pa.Array:
    """The values in the places where there are some; elsewhere null."""
    spread = np.zeros(len(there), values.dtype)
    spread[there] = values
    return pa.array(spread, mask=~there)


def _texts(texts: Texts, kind: pa.DataType, there: bytes | None = None) -> pa.Array:
    rows = len(texts.offsets) // 4 - 1
    validity = None if there is None else pa.py_buffer(there)
    return pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(texts.offsets), pa.py_buffer(texts.data)])
