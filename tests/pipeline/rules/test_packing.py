"""Rows that are packed where they are read: tests of messages as the definition answers them, shards as Spark's hash."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.publication import FORGOTTEN, Publication
from fumarole.core.query.holds import holds
from fumarole.core.query.message import Message, payload_number
from fumarole.core.query.parse import parse
from fumarole.core.rules import parse as parse_rules
from fumarole.pipeline.live.clock import EVENT_ROWS
from fumarole.pipeline.rules.packing import Packing, codes_of
from fumarole.pipeline.rules.rows import FORGOTTEN as FORGOTTEN_KIND
from fumarole.pipeline.rules.rows import GAP, READING, SAID, TICK, Rows, merged
from fumarole.pipeline.rules.truths import FALSE, TRUE, UNKNOWN
from fumarole.pipeline.sharding import text_hashes, unpacked

ROWS = pa.schema([*EVENT_ROWS, ("offset", pa.int64())])
CODES = {None: UNKNOWN, False: FALSE, True: TRUE}
NUMBERS = ["0", "-0.0", "5", "5.5", "1e300", "9007199254740991", "9007199254740992", "9007199254740993"]
NUMBERS += ["18446744073709551615", "-9223372036854775808", "9007199254740993.0", "2e19", "0.1"]
QUERIES = [
    *[f"$value {operator} {number}" for operator in ("=", "!=", "<", "<=", ">", ">=") for number in NUMBERS],
    *("$value IN (5, 0.1, 9007199254740993)", "$value IN (5, 'a')", "$value BETWEEN 0 AND 9007199254740992"),
    *("$value IS NULL", "HAS $value", "$value = 'a'", "$value LIKE '5%'", "$value = true", "$value BETWEEN 0 AND 'z'"),
    *("$topic = 'a.b'", "$topic LIKE 'a%'", "$topic > 'a.c'", "$topic = 5", "$producer = 'anna'", "$producer IS NULL"),
    *("HAS $producer", "$producer IN ('bert', 'cleo')", "$size > 3", "$size = 'x'", "$topic MATCHES '^a'"),
]

messages = st.lists(
    st.tuples(
        st.sampled_from(["a.b", "a.c", "d", ""]),
        st.sampled_from(["anna", "bert", "cleo"]),
        st.sampled_from([*NUMBERS, "", "hot", " 5 ", "-5.50"]),
    ),
    min_size=1,
    max_size=30,
)


def row(**given: Any) -> dict[str, Any]:
    return {**dict.fromkeys(ROWS.names), "topic": "", "payload": b"", "time": 0, "recorded": 0, "offset": 0, **given}


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, ROWS)


@pytest.mark.parametrize("query", QUERIES)
@given(said=messages)
def test_a_test_of_a_column_is_the_definition(query: str, said: list[tuple[str, str, str]]) -> None:
    test: Any = parse(query)
    rows, answers = [], []
    for topic, producer, text in said:
        number = payload_number(text.encode())
        value = None if number is None else float(number)
        rows.append(row(topic=topic, producer=producer, payload=text.encode(), value=value))
        reading = type("Reading", (), {"producer": producer, "value": value})()
        answers.append(CODES[holds(test, Message(Publication(topic, text.encode(), reading=reading), {}))])
    assert codes_of(test, table(rows)).tolist() == answers


def test_hashes_of_texts() -> None:
    """XXH64 with the seed 42, as Spark's `xxhash64` gives it: see `transforms.test_alarms`."""
    assert text_hashes(pa.array([], pa.string())).tolist() == []
    texts = pa.array(["b", "a" * 40, "b", "é", "a" * 40])
    found = text_hashes(texts)
    assert found[0] == found[2]
    assert found[1] == found[4]
    assert len(set(found.tolist())) == 3
    assert text_hashes(texts.slice(1, 3)).tolist() == found[1:4].tolist()


def packed(rows: list[dict[str, Any]], *rules: dict[str, Any]) -> dict[int, Rows]:
    named = [{"name": f"rule-{number}", "publish": "x", **rule} for number, rule in enumerate(rules)]
    packing = Packing.of(parse_rules(named), (7, 9))
    assert packing is not None
    batch = Packing.from_text(packing.as_text()).packed(table(rows))
    words = 1 if packing.patterns or packing.tests else 0
    frames = {
        key: [{"rows": [data]}] for key, data in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    }
    return {key: Rows.of(unpacked(frame), words) for key, frame in frames.items()}


def test_what_concerns_all_shards_goes_to_all() -> None:
    found = packed([row(event="tick", time=5, recorded=5)], {"where": "$value > 1"})
    assert {key: (rows.kind.tolist(), rows.at.tolist()) for key, rows in found.items()} == {
        7: ([TICK], [5]),
        9: ([TICK], [5]),
    }


def test_each_producer_has_one_shard() -> None:
    names = [f"producer-{number % 50}" for number in range(200)]
    found = packed([row(producer=name, offset=place) for place, name in enumerate(names)], {"where": "$value > 1"})
    own = {key: rows.producer.to_pylist() for key, rows in found.items()}
    assert not set(own[7]) & set(own[9])
    assert sorted(own[7] + own[9]) == sorted(names)
    assert sorted(np.concatenate([found[7].place, found[9].place]).tolist()) == list(range(200))


def test_kinds_and_times() -> None:
    rows = [
        row(producer="anna", topic="a.b", value=2.0, time=3, recorded=4, offset=10),
        row(producer="anna", topic=FORGOTTEN, time=5, recorded=5, offset=11),
        row(event="gap", event_time=1, time=6, recorded=6, offset=12),
        row(event="known", producer="anna", time=7, recorded=7, offset=13),
        row(topic="a.b", value=2.0, offset=14),
    ]
    seen = {
        key: [*zip(r.kind.tolist(), r.at.tolist(), r.time.tolist(), strict=True)] for key, r in packed(rows).items()
    }
    expected = [(READING, 4, 3), (FORGOTTEN_KIND, 5, 5), (GAP, 6, 1), (SAID, 7, 7)]
    assert sorted(seen.values(), key=len) == [[(GAP, 6, 1)], expected]


def test_news_is_what_a_shard_merges() -> None:
    changes = [
        {"key": "Kind", "kind": "text", "text": "gas", "number": None, "truth": None},
        {"key": "Level", "kind": "number", "text": "9007199254740993", "number": 9007199254740992.0, "truth": None},
    ]
    found = packed([row(producer="anna", changes=changes), row(producer="anna", changes=[], offset=1)])
    (rows,) = found.values()
    news = rows.news.to_pylist()
    assert merged(msgspec.json.encode({"Level": 1}), news[0]) == {"Kind": "gas", "Level": 2**53 + 1}
    assert news[1] is None


def test_fields_of_json_are_left_to_spark() -> None:
    rules = parse_rules([{"name": "hot", "publish": "x", "where": "$.hot > 5"}])
    assert Packing.of(rules, (1,)) is None
