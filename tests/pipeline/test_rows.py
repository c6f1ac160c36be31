"""Captured columns as Arrow tables: what a person would have made of each message by hand."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fumarole.client.capture import gather
from fumarole.pipeline.archive.schema import CHANGE
from fumarole.pipeline.rows import (
    change_table,
    changes_said,
    held,
    message_table,
    metadata_of,
    snapshot_table,
    told_of,
    typed,
)
from tests.random_examples import examples

ONE = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
NOW = datetime(2026, 11, 15, 12, 30, 0, 123456, tzinfo=UTC)
MICROSECONDS = int(NOW.timestamp() * 1_000_000)

names = st.sampled_from(["Unit", "Trace", "Ü"])
texts = st.sampled_from(["", "a", "ü", "a: b"])
values = st.one_of(
    st.none(), texts, st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False, allow_infinity=False)
)
messages = st.lists(
    st.tuples(
        st.sampled_from(["", "a", "a.b", "ä"]),
        st.sampled_from([b"", b"21.5", b"\xff\x00", b"-3e2"]),
        st.sampled_from([None, ONE]),
        st.none() | st.dictionaries(st.sampled_from(["Room", "k"]), values, max_size=2),
        st.lists(st.tuples(names, texts), max_size=3),
    ),
    max_size=20,
)


def typed_change(key: str, value: object) -> dict[str, Any]:
    kind = {type(None): "gone", str: "text", bool: "truth"}.get(type(value), "number")
    return {"key": key, "kind": kind, **{each: value if each == kind else None for each in ("text", "number", "truth")}}


@given(messages)
def test_rows_are_the_messages(
    given_messages: list[tuple[str, bytes, str | None, dict[str, Any] | None, list[tuple[str, str]]]],
) -> None:
    columns = gather(
        (
            (topic, payload, [*others, *([("Producer", producer.upper())] if producer else []), *([("Metadata", json.dumps(said))] if producer and said is not None else [])])
            for topic, payload, producer, said, others in given_messages
        ),
        MICROSECONDS,
    )  # fmt: skip
    table = message_table(columns)
    table.validate(full=True)
    expected, changes = [], []
    time = NOW
    for number, (topic, payload, producer, said, others) in enumerate(given_messages):
        if number and producer and said is not None:
            time += timedelta.resolution  # what is new holds from here on, and not for those before it
        by_name: dict[str, list[str]] = {}
        for name, text in others:
            by_name.setdefault(name, []).append(text.strip())
        brought = [typed_change(key, value) for key, value in (said or {}).items()] if producer else []
        value = {b"21.5": 21.5, b"-3e2": -300.0}.get(payload)
        expected.append(
            {"time": time, "topic": topic, "producer": producer, "value": value, "payload": payload,
             "headers": list(by_name.items()) or None, "changes": brought or None, "event_time": None}
        )  # fmt: skip
        changes += [{"time": time, "producer": producer, **each} for each in brought]
    assert table.to_pylist() == expected
    assert change_table(table).to_pylist() == changes
    assert told_of(columns) == [ONE] * any(producer and said is not None for _, _, producer, said, _ in given_messages)


@pytest.mark.parametrize(
    ("value", "kind", "kept"),
    [
        pytest.param("x", "text", "x", id="text"),
        pytest.param(True, "truth", True, id="truth"),
        pytest.param(3, "number", 3.0, id="integer"),
        pytest.param(10**400, "number", 1.7976931348623157e308, id="larger than any double"),
        pytest.param(None, "gone", None, id="gone"),
    ],
)
def test_kinds(value: Any, kind: str, kept: object) -> None:
    (change,) = typed({"k": value})
    assert change["kind"] == kind
    assert kept is None or change[kind] == kept


def test_a_snapshot_is_changes_of_one_moment() -> None:
    table = snapshot_table([(ONE, {"Room": "410", "Floor": 4}), ("other", {})], MICROSECONDS)
    assert [(row["time"], row["producer"], row["key"], row["kind"]) for row in table.to_pylist()] == [
        (NOW, ONE, "", "anew"),
        (NOW, ONE, "Room", "text"),
        (NOW, ONE, "Floor", "number"),
        (NOW, "other", "", "anew"),
    ]


def test_what_changes_come_to() -> None:
    before = typed({"Room": "410", "Status": "broken", "": "a key like any other"})
    known = snapshot_table([(ONE, {"Room": "411", "Serial": 2**53 + 1})], MICROSECONDS).to_pylist()
    assert held([*before, *known, *typed({"Room": None, "Warm": False})]) == {"Serial": 2**53 + 1, "Warm": False}


@pytest.mark.parametrize("said", ["{", "[1]", '{"a": [1]}', '"x"'])
def test_metadata_that_is_none_says_nothing(said: str) -> None:
    columns = gather([("a", b"1", [("Producer", ONE), ("Metadata", said)])], MICROSECONDS)
    assert message_table(columns)["changes"].to_pylist() == [None]
    assert change_table(message_table(columns)).num_rows == 0


odd_values = st.one_of(
    values.map(json.dumps),
    st.integers().map(str),
    st.floats().map(repr),
    st.text(max_size=3).map(json.dumps),
    st.sampled_from(
        ["null", "-0", "-0.0", "1e2", "1e400", "1e-400", "NaN", "01", "1" + "0" * 400, "9007199254740993", '"\\ud800"',
         "18446744073709551616", "-9223372036854775809", "[1]", '{"a": 1}', "truth", " 1 ", '"ü"', '"\x00"']
    ),
)  # fmt: skip
odd_keys = st.sampled_from(['"Room"', '"k"', '"k"', '"ü"', '""', '"_online"', "k", "1"])
objects = st.lists(st.builds("{}:{}".format, odd_keys, odd_values), max_size=4).map(
    lambda each: f"{{{','.join(each)}}}"
)
sound = st.dictionaries(st.sampled_from(["Room", "k"]), values | st.integers(), max_size=3).map(json.dumps)


@examples(500)
@given(st.lists(sound, max_size=8), st.lists(objects | odd_values | st.text(max_size=4), max_size=4), st.randoms())
@example(['{"k": 9007199254740993}', '{"k": -9007199254740992, "Room": 0.5}'], [], random.Random(1))
@example(['{"k": 1}', '{"k": -1' + "0" * 400 + "}"], [], random.Random(1))
@example(['{"k": true, "Room": null}', '{"k": "x", "_online": false}'], ['{"k": 1, "Room": [1]}'], random.Random(1))
def test_all_texts_at_once_are_as_each_by_itself(good: list[str], odd: list[str], chance: random.Random) -> None:
    texts = [*good, *odd]
    chance.shuffle(texts)
    at_once = changes_said(texts)
    at_once.validate(full=True)
    assert at_once.equals(pa.array([list(typed(metadata_of(text))) or None for text in texts], pa.list_(CHANGE)))


def test_texts_too_deep_say_nothing() -> None:
    assert changes_said(["[" * 100_000, '{"k": 1}']).to_pylist() == [None, [typed_change("k", 1.0)]]
