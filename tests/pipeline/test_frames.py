"""Rows as publications: what a NATS server parses out of them is what was in the rows."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.client import PayloadTooLargeError
from fumarole.core import headers
from fumarole.core.errors import TopicError
from fumarole.core.limits import MIB, Limits
from fumarole.pipeline import frames as frames_module
from fumarole.pipeline.errors import RowError
from fumarole.pipeline.frames import chunks, frames, slices, unfit
from fumarole.pipeline.rows import MESSAGE_ROWS, typed
from fumarole.protocols import nats
from tests.desk import events_of

OPEN_SCHEMA = pa.schema([field.with_nullable(True) for field in MESSAGE_ROWS])

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\x00"), max_size=6).map(str.strip)
names = st.text(st.sampled_from("ABCabc-_é"), min_size=1, max_size=4)
metadata = st.dictionaries(
    texts,
    st.one_of(st.none(), texts, st.booleans(), st.floats(allow_nan=False, allow_infinity=False)),
    min_size=1,
    max_size=3,
)
rows = st.lists(
    st.fixed_dictionaries(
        {
            "time": st.just(0),
            "topic": st.text(st.sampled_from("abÄ.-_"), max_size=6),
            "producer": st.none() | st.uuids(version=4).map(str),
            "payload": st.binary(max_size=8),
            "headers": st.none() | st.dictionaries(names, st.lists(texts, min_size=1, max_size=3), min_size=1, max_size=3),
            "metadata": st.none() | metadata,
        }
    ),
    max_size=8,
)  # fmt: skip


def table(given_rows: list[dict[str, Any]]) -> pa.Table:
    converted = [
        {
            **{name: value for name, value in row.items() if name != "metadata"},
            "headers": None if row["headers"] is None else list(row["headers"].items()),
            "changes": None if row["metadata"] is None else list(typed(row["metadata"])),
        }
        for row in given_rows
    ]
    return pa.Table.from_pylist(converted, MESSAGE_ROWS)


def parsed(data: bytes) -> list[nats.Publish]:
    protocol = nats.ServerProtocol(Limits())
    events = events_of(protocol, data)
    assert all(isinstance(event, nats.Publish) for event in events), events
    assert protocol.wanted() == 0
    return [event for event in events if isinstance(event, nats.Publish)]


@given(rows, st.integers(0, 3))
def test_a_server_hears_what_was_in_the_rows(given_rows: list[dict[str, Any]], skipped: int) -> None:
    # A slice has an offset in its buffers.
    made = frames(table(given_rows).slice(skipped), MIB)
    heard = parsed(b"".join(data for _, data in chunks(made)))
    expected = given_rows[skipped:]
    assert [event.topic.decode() for event in heard] == [row["topic"] or "$EMPTY" for row in expected]
    assert [event.payload for event in heard] == [row["payload"] for row in expected]
    for event, row in zip(heard, expected, strict=True):
        said = headers.parse(event.headers) if event.headers else []
        pairs = [("Producer", row["producer"])] if row["producer"] else []
        found = dict(said).get("Metadata")
        assert (None if found is None else json.loads(found)) == row["metadata"]
        others = [(name, text) for name, each in (row["headers"] or {}).items() for text in each]
        assert [pair for pair in said if pair[0] != "Metadata"] == pairs + others


def test_frames_without_headers_are_plain_and_chunks_are_whole() -> None:
    big = pa.table({"topic": ["a"] * 500, "payload": [b"x" * 1_000] * 500})
    parts = list(chunks(frames(big, MIB)))
    assert len(parts) > 2
    assert sum(count for count, _ in parts) == 500
    assert all(data.startswith(b"PUB a 1000\r\n") and len(parsed(data)) == count for count, data in parts)
    assert [count for count, _ in chunks(frames(pa.table({"topic": ["a"], "payload": [b"y" * MIB]}), MIB))] == [1]


@given(st.lists(st.integers(0, 300), min_size=1, max_size=60))
def test_slices_are_small_enough(sizes: list[int]) -> None:
    """Wherever the large rows are; only a row that is too large by itself is not."""
    given_rows = pa.table({"payload": [bytes(size) for size in sizes]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames_module, "MOST_AT_ONCE", 200)
        parts = list(slices(given_rows))
    assert pa.concat_tables(parts).equals(given_rows)
    assert all(part.nbytes <= 200 or part.num_rows == 1 for part in parts)


def test_a_row_has_one_mark() -> None:
    """That of a message which was read stays with it, unless the row gets one of its own."""
    pairs = [("Fumarole-Row", ["old-0-7"]), ("Unit", ["K"])]
    given_rows = pa.Table.from_pylist([{"topic": "a", "headers": pairs}] * 2 + [{"topic": "a"}], OPEN_SCHEMA)

    def marked(marks: pa.Array | None) -> list[list[tuple[str, str]]]:
        heard = parsed(b"".join(data for _, data in chunks(frames(given_rows, MIB, marks))))
        return [headers.parse(event.headers) if event.headers else [] for event in heard]

    assert marked(None) == [[("Fumarole-Row", "old-0-7"), ("Unit", "K")]] * 2 + [[]]
    new = [("Fumarole-Row", f"new-0-{row}") for row in range(3)]
    assert marked(pa.array([mark for _, mark in new])) == [[("Unit", "K"), new[0]], [("Unit", "K"), new[1]], [new[2]]]
    assert unfit(given_rows) == 0


UNFIT = [("a b", "c"), ("a", "c\nd"), ("a", "\r\nc: d"), ("", "c"), ("a\n", "c"), ("a", "c\0"), ("a:", "c")]


@given(st.lists(st.none() | st.lists(st.sampled_from([("Unit", "K"), ("Unit", ""), *UNFIT]), max_size=4), max_size=5))
def test_headers_that_cannot_be_sent_are_left_out_and_counted(pairs: list[list[tuple[str, str]] | None]) -> None:
    """A broker passes on what any client made; one such message does not keep an archive from being replayed."""
    made = [
        {"topic": "a", "headers": None if each is None else [(name, [text]) for name, text in each]} for each in pairs
    ]
    given_rows = pa.Table.from_pylist(made, OPEN_SCHEMA)
    heard = parsed(b"".join(data for _, data in chunks(frames(given_rows, MIB))))
    fit = [[pair for pair in each or [] if pair not in UNFIT] for each in pairs]
    assert [headers.parse(event.headers) if event.headers else [] for event in heard] == fit
    assert unfit(given_rows) == sum(len(each or []) for each in pairs) - sum(map(len, fit))


@pytest.mark.parametrize(
    ("row", "error", "text"),
    [
        pytest.param({"topic": "a.*"}, TopicError, "a wildcard", id="wildcard"),
        pytest.param({"topic": "a b"}, TopicError, "white space", id="space"),
        pytest.param({"topic": "a\r\nPUB b 0"}, TopicError, "white space", id="line break in a topic"),
        pytest.param({"topic": None}, RowError, "row 0 has no topic", id="no topic"),
        pytest.param({"topic": "a", "producer": "x\r\ny"}, RowError, "cannot be in a header", id="producer"),
        pytest.param({"topic": "a", "headers": [("a", ["b", None])]}, RowError, "a text is null", id="null"),
        pytest.param({"topic": "a", "payload": b"x" * 101}, PayloadTooLargeError, "101 bytes", id="too large"),
    ],
)
def test_what_cannot_be_published(row: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        frames(pa.Table.from_pylist([row], OPEN_SCHEMA), 100)
