"""Rows to publish: which columns they must have, and what is said where they have not."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.live.publishing import message_rows, publish
from tests.integration.running import RunningBroker

HEADERS = pa.map_(pa.string(), pa.list_(pa.string()))


@pytest.mark.parametrize(
    ("columns", "topic", "text"),
    [
        pytest.param({"payload": ["1"]}, None, "have a column `topic`", id="no topic"),
        pytest.param({"topic": ["a"]}, None, "have a column `payload`", id="no payload"),
        pytest.param({"topic": ["a"], "payload": [1.5]}, None, "is bytes or text, not double", id="number"),
        pytest.param(
            {"payload": [b""], "headers": pa.array([[("Unit", "K")]], pa.map_(pa.string(), pa.string()))},
            "a",
            "is a map from names to lists of texts, not map<string, string>",
            id="headers that are not lists",
        ),
        pytest.param({"payload": [b""], "headers": ["x"]}, "a", "not string", id="headers that are no map"),
    ],
)
def test_rows_that_cannot_be_published(columns: dict[str, Any], topic: str | None, text: str) -> None:
    with pytest.raises(PipelineError, match=text):
        message_rows(pa.table(columns), topic)


def test_a_header_that_cannot_be_sent_does_not_stop_a_query(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A query that carries `headers` through would meet the same message after every restart."""
    headers = pa.array([[("My Header", ["x"]), ("Unit", ["K"])], None], HEADERS)
    broker = RunningBroker(tmp_path)
    try:
        batch = pa.record_batch({"topic": ["a", "a"], "payload": [b"1", b"2"], "headers": headers})
        assert publish(iter([batch]), broker.url, {}, "job") == 2
    finally:
        broker.release()
    assert caplog.messages == ["headers left out: 1; a name with a space, or a line break, cannot be sent"]


def test_rows_of_ones_own() -> None:
    rows = message_rows(pa.table({"value": [21.5, None], "colour": ["red", "blue"]}), "a")
    assert rows.to_pylist() == [{"topic": "a", "payload": "21.5"}, {"topic": "a", "payload": None}]
    assert message_rows(pa.table({"topic": ["b"], "payload": ["x"], "value": [1]}), "a").to_pylist() == [
        {"topic": "b", "payload": "x"}
    ]
    carried = pa.table({"topic": ["b"], "payload": [b"x"], "headers": pa.array([[("Unit", ["K"])]], HEADERS)})
    assert message_rows(carried, None).to_pylist() == [{"headers": [("Unit", ["K"])], "topic": "b", "payload": b"x"}]


def test_without_rows_no_broker_is_needed() -> None:
    """Most batches of a live job have no alarm."""
    empty = pa.record_batch({"topic": pa.array([], pa.string()), "payload": pa.array([], pa.binary())})
    assert publish(iter([empty, empty]), "nats://127.0.0.1:1", {}, "job") == 0
    assert publish(iter([]), "nats://127.0.0.1:1", {}, "job") == 0
