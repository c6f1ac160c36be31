"""Rows back into messages: a whole table becomes the bytes of its publications in a few steps over columns.

    topic a.b, payload 21.5, producer P   ─▶   HPUB a.b 27 31␍␊NATS/1.0␍␊Producer: P␍␊␍␊21.5␍␊

Each column is joined with the next, for all rows at once, so the frames stand behind each other in one buffer, ready to
be sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fumarole.client.errors import PayloadTooLargeError
from fumarole.client.topics import EMPTY, encode_topic
from fumarole.core.limits import KIB
from fumarole.pipeline.errors import RowError
from fumarole.pipeline.rows import value_of

CHUNK = 128 * KIB
"""Bytes that are sent together: whole frames, always."""
MOST_AT_ONCE = 256 * 1024 * KIB
"""Arrow counts the bytes of a column in 32 bits."""
MARK = "Fumarole-Row"
_NOT_IN_TOPIC = r"[\s\x00-\x20\x7f*>]"
_NOT_IN_NAME = r"[\r\n\x00: ]|^$"
_NOT_IN_LINE = r"[\r\n\x00]"


def frames(rows: pa.Table | pa.RecordBatch, max_payload: int, marks: pa.Array | None = None) -> pa.Array:
    """A publication for each row: `topic`, `payload`; and `producer`, `headers`, `changes` where these columns are.

    With `marks`, the header `Fumarole-Row` has that of the row, by which a consumer knows one that comes again, and no
    other: what a row was marked with where it was read is left out. So are headers that are `unfit`. Raises TopicError
    for a topic that is none, RowError, PayloadTooLargeError.
    """
    topics = _whole(rows, "topic", pa.string())
    _check_topics(topics)
    topics = pc.if_else(pc.equal(pc.binary_length(topics), 0), EMPTY.decode(), topics).cast(pa.binary())
    payloads = pc.fill_null(_whole(rows, "payload", pa.binary()), b"")
    left_out = None if marks is None else MARK
    lines = [line for line in (_producers(rows), _metadata(rows), _others(rows, left_out)) if line is not None]
    if marks is not None:
        lines.append(_join(f"{MARK}: ".encode(), marks.cast(pa.binary()), b"\r\n"))
    if not lines:
        _check_sizes(pc.binary_length(payloads), max_payload)
        return _join(b"PUB ", topics, b" ", _text(pc.binary_length(payloads)), b"\r\n", payloads, b"\r\n")
    blocks = _join(b"NATS/1.0\r\n", *lines, b"\r\n")
    has_block = pc.greater(pc.binary_length(blocks), len(b"NATS/1.0\r\n\r\n"))
    blocks = pc.if_else(has_block, blocks, pa.scalar(b"", pa.binary()))
    total = pc.add(pc.binary_length(blocks), pc.binary_length(payloads))
    _check_sizes(total, max_payload)
    verb = pc.if_else(has_block, pa.scalar(b"HPUB ", pa.binary()), pa.scalar(b"PUB ", pa.binary()))
    headers = pc.if_else(has_block, _join(_text(pc.binary_length(blocks)), b" "), pa.scalar(b"", pa.binary()))
    return _join(verb, topics, b" ", headers, _text(total), b"\r\n", blocks, payloads, b"\r\n")


def unfit(rows: pa.Table | pa.RecordBatch) -> int:
    """How many headers of these rows cannot be sent: a name that is empty or has a space, a line break in either part.

    Captured messages may have some, because a broker passes on what a client made by itself. These must not keep all
    others from being published.
    """
    headers = _headers(rows)
    return 0 if headers is None else pc.sum(_are_unfit(*_pairs(headers))).as_py() or 0


def chunks(made: pa.Array) -> Iterator[tuple[int, bytes]]:
    """Frames to be sent together, and how many they are."""
    _, offsets_buffer, data = made.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[made.offset : made.offset + len(made) + 1]
    view = memoryview(data) if data is not None else memoryview(b"")
    begin = 0
    while begin < len(made):
        end = int(np.searchsorted(offsets, offsets[begin] + CHUNK, side="right")) - 1
        end = min(max(end, begin + 1), len(made))
        yield end - begin, bytes(view[offsets[begin] : offsets[end]])
        begin = end


def slices(rows: pa.Table) -> Iterator[pa.Table]:
    """The same rows in parts whose frames Arrow can count: halves of halves, as large rows may all be at one end."""
    if rows.nbytes <= MOST_AT_ONCE or rows.num_rows == 1:
        yield rows
    else:
        half = rows.num_rows // 2
        yield from slices(rows.slice(0, half))
        yield from slices(rows.slice(half))


def _whole(rows: pa.Table | pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    column = rows[name]
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return whole.cast(kind)


def _join(*parts: Any) -> pa.Array:
    scalars = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*scalars, pa.scalar(b"", pa.binary()))


def _text(numbers: pa.Array) -> pa.Array:
    return numbers.cast(pa.string()).cast(pa.binary())


def _producers(rows: pa.Table | pa.RecordBatch) -> pa.Array | None:
    if "producer" not in rows.schema.names or rows["producer"].null_count == len(rows["producer"]):
        return None
    producers = _whole(rows, "producer", pa.string())
    wrong = pc.indices_nonzero(pc.match_substring_regex(producers, _NOT_IN_LINE))
    if len(wrong):
        raise RowError(f"producer: {producers[wrong[0].as_py()].as_py()!r} cannot be in a header")
    return pc.fill_null(_join(b"Producer: ", producers.cast(pa.binary()), b"\r\n"), b"")


def _metadata(rows: pa.Table | pa.RecordBatch) -> pa.Array | None:
    """Few messages bring any, so these go one by one."""
    if "changes" not in rows.schema.names or rows["changes"].null_count == len(rows["changes"]):
        return None
    column = rows["changes"]
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    lines = [b""] * len(whole)
    for row in pc.indices_nonzero(pc.is_valid(whole)).to_pylist():
        said = {each["key"]: value_of(each) for each in whole[row].as_py()}
        lines[row] = f"Metadata: {json.dumps(said)}\r\n".encode()
    return pa.array(lines, pa.binary())


def _others(rows: pa.Table | pa.RecordBatch, left_out: str | None) -> pa.Array | None:
    headers = _headers(rows)
    if headers is None:
        return None
    names, texts = _pairs(headers)
    if texts.null_count:  # joined with the rest it would make all of its message nothing
        raise RowError("headers: a text is null")
    lines = _join(names.cast(pa.binary()), b": ", texts.cast(pa.binary()), b"\r\n")
    unsent = _are_unfit(names, texts)
    if left_out is not None:
        unsent = pc.or_(unsent, pc.equal(names, left_out))
    lines = pc.if_else(unsent, pa.scalar(b"", pa.binary()), lines)
    lists = headers.items
    ends = pa.array(np.concatenate([[0], np.cumsum(pc.fill_null(pc.list_value_length(lists), 0))]), pa.int32())
    by_row = pa.ListArray.from_arrays(ends.take(headers.offsets), lines)
    return pc.binary_join(by_row, pa.scalar(b"", pa.binary()))


def _headers(rows: pa.Table | pa.RecordBatch) -> pa.MapArray | None:
    if "headers" not in rows.schema.names or rows["headers"].null_count == len(rows["headers"]):
        return None
    column = rows["headers"]
    headers = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pa.concat_arrays([headers])  # without an offset of its own


def _pairs(headers: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """Names and texts, a pair for each line."""
    return headers.keys.take(pc.list_parent_indices(headers.items)), headers.items.flatten()


def _are_unfit(names: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.or_(pc.match_substring_regex(names, _NOT_IN_NAME), pc.match_substring_regex(texts, _NOT_IN_LINE))


def _check_topics(topics: pa.Array) -> None:
    if topics.null_count:
        raise RowError(f"row {pc.indices_nonzero(pc.is_null(topics))[0]} has no topic")
    wrong = pc.indices_nonzero(pc.match_substring_regex(topics, _NOT_IN_TOPIC))
    if len(wrong):
        encode_topic(topics[wrong[0].as_py()].as_py())  # says what is wrong with it


def _check_sizes(sizes: pa.Array, most: int) -> None:
    largest = pc.max(sizes).as_py() or 0
    if largest > most:
        raise PayloadTooLargeError(
            f"a row is {largest:,} bytes with its headers, and the broker takes {most:,} at most"
        )
