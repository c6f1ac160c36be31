"""Declared payloads in Arrow tables, as a recorder and the live source have them (P6, P7), held to the definition."""

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fumarole.core.decoding import decode
from fumarole.core.payloads import Payloads, parse
from fumarole.pipeline.declared import by_event_time, declare, payloads
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.rows import MESSAGE_ROWS

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DECLARED = parse(
    [
        {
            "topic": "w.*",
            "format": "json",
            "fields": {"t": "double"},
            "value": "t",
            "time": {"path": "ts", "unit": "s"},
        },
        {"topic": "x.>", "format": "csv", "fields": {"a": "text"}, "behind": "1 minute"},
    ]
)


def rows(messages: Sequence[tuple[str, bytes, list[tuple[str, list[str]]] | None]]) -> pa.Table:
    made = [
        {"time": NOON, "topic": topic, "payload": payload, "headers": headers, "value": 7.0}
        for topic, payload, headers in messages
    ]
    return pa.Table.from_pylist(made, MESSAGE_ROWS)


def weather(**said: Any) -> bytes:
    return json.dumps(said).encode()


def test_value_and_time() -> None:
    at = NOON.timestamp()
    table = rows(
        [
            ("w.a", weather(t=1.5, ts=at - 60), None),
            ("w.a", b"broken", None),
            ("w.b", weather(t=2), [("Time", ["2026-03-01T11:00:00Z"])]),
            ("other", b"3", [("Time", ["2026-03-01T10:00:00Z", "x"]), ("Unit", ["K"])]),
            ("other", b"3", [("Time", ["soon"])]),
            ("x.y", b"cell", None),
        ]
    )
    found = declare(table, DECLARED)
    assert found.unfit == 1
    assert found.rows["value"].to_pylist() == [1.5, None, 2.0, 7.0, 7.0, 7.0]
    hours = [NOON - timedelta(minutes=1), None, NOON - timedelta(hours=1), NOON - timedelta(hours=2), None, None]
    assert found.rows["event_time"].to_pylist() == hours
    assert found.rows.schema == MESSAGE_ROWS


def test_random_messages() -> None:
    chance = random.Random(3)
    given = [
        (
            chance.choice(["w.a", "w.b", "x.y.z", "other", "w"]),
            chance.choice([weather(t=chance.random()), b"x", b"{}"]),
            None,
        )
        for _ in range(500)
    ]
    found = declare(rows(given), DECLARED)
    expected, unfit = [], 0
    for topic, payload, _ in given:
        declared = DECLARED.of(topic)
        said = None if declared is None else decode(payload, declared)
        unfit += said is not None and not said.fits
        expected.append(7.0 if declared is None or said is None or declared.value is None else said.value)
    assert (found.rows["value"].to_pylist(), found.unfit) == (expected, unfit)


def test_nothing_declared_is_nothing_done() -> None:
    table = rows([("a", b"1", [("Unit", ["K"])])])
    assert declare(table, Payloads()) == (table, 0)
    assert declare(table.slice(0, 0), DECLARED).rows.num_rows == 0


@pytest.mark.parametrize("topics", [["other"], ["x.y"], ["x.y", "other"]])
def test_no_message_is_on_a_declared_topic(topics: list[str]) -> None:
    """Of none of the declarations, or not of each of them."""
    table = rows([(topic, b"cell", None) for topic in topics])
    assert declare(table, DECLARED) == (table, 0)
    assert by_event_time(table, DECLARED)["time"].to_pylist() == [NOON] * len(topics)


def test_live_messages_go_by_their_own_times() -> None:
    """P7: a clock that is wrong by more than the declaration allows is flagged, not believed."""
    at = NOON.timestamp()
    given = [(topic, weather(t=1, ts=at + off), [("Time", [str(at + off)])]) for topic, off in
             (("w.a", -3600), ("w.a", 61), ("x.a", -59), ("x.a", -61), ("other", -32 * 86_400))]  # fmt: skip
    found = by_event_time(rows([*given, ("other", b"", None)]), DECLARED)
    assert found["recorded"].to_pylist() == [NOON] * 6
    assert found["wrong_clock"].to_pylist() == [False, True, False, True, True, False]
    assert [(NOON - time).total_seconds() for time in found["time"].to_pylist()] == [3600, 0, 59, 0, 0, 0]


def test_declarations_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "payloads.toml"
    file.write_text('[[payloads]]\ntopic = "a"\nformat = "float32"\n[doors]\nnats = []\n')
    assert payloads(file).of("a") is not None
    assert payloads(None) == Payloads()
    file.write_text('[[payloads]]\ntopic = "a"\nformat = "flot"\n')
    with pytest.raises(PipelineError, match=r"payloads.toml: payloads\[0\].format: found 'flot'"):
        payloads(file)
    file.write_text("[[payloads")
    with pytest.raises(PipelineError, match="is no TOML"):
        payloads(file)
    with pytest.raises(PipelineError, match="cannot be read: No such file"):
        payloads(tmp_path / "none.toml")
