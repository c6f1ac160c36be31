"""Metadata that ended while a recorder ran or none did, as Spark reads it from the archive (P1, P3)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import fumarole
from fumarole import pipeline
from fumarole.pipeline.replay import known_at
from tests.integration.running import RunningBroker
from tests.pipeline.recordings import Recording, said_by

Record = Callable[..., Recording]


@pytest.mark.parametrize("topic", [">", "g.*"])
async def test_a_forgotten_producer_has_no_metadata_from_then_on(
    broker: RunningBroker, record: Record, tmp_path: Path, spark: SparkSession, topic: str
) -> None:
    """Told to the archive also where the topic on which the broker says so is not recorded."""
    async with fumarole.connect(broker.url) as client:
        known = client.producer({"Room": "1"})
        await known.publish(0)
        await client.flush()
        recording = record(broker.url, tmp_path, "--topic", topic)
        # What was known before has been asked for: from here on it is only told what is new.
        recording.wait_until(lambda: recording.confirmed and said_by(tmp_path, known.id))
        producer = client.producer({"Room": "410", "Floor": 4}, topic="g.a")
        await producer.publish(1)
        await client.flush()
        recording.wait_until(lambda: recording.messages == 1)
        assert await producer.forget()
        recording.wait_until(lambda: len(said_by(tmp_path, producer.id)) == 4)
        await client.publish("g.a", b"2", headers={"Producer": producer.id})
        await client.flush()
        recording.wait_until(lambda: recording.messages >= 2 + (topic == ">"))
    assert recording.stop() == 0
    assert [(row["key"], row["kind"]) for row in said_by(tmp_path, producer.id)] == [
        ("Room", "text"), ("Floor", "number"), ("Room", "gone"), ("Floor", "gone"),
    ]  # fmt: skip
    described = pipeline.enrich(pipeline.archive(spark, tmp_path, topic="g.*"), pipeline.changes(spark, tmp_path))
    found = {row["value"]: sorted(row["metadata"]) for row in described.collect() if row["producer"] == producer.id}
    assert found == {1.0: ["Floor", "Room"], 2.0: []}


async def test_what_was_deleted_while_no_recorder_ran_is_gone(
    broker: RunningBroker, record: Record, tmp_path: Path, spark: SparkSession
) -> None:
    """Whatever was said meanwhile: from the next start on holds what is known then, and nothing else (P3)."""
    async with fumarole.connect(broker.url) as client:
        producer = client.producer({"Room": "410", "Status": "broken"}, topic="d.a")
        recording = record(broker.url, tmp_path, "--topic", "d.*")
        await producer.publish(1)
        await client.flush()
        recording.wait_until(lambda: recording.messages == 1)
        assert recording.stop() == 0
        before = len(said_by(tmp_path, producer.id))
        producer.update(Status=None)
        await producer.publish(2)
        await client.flush()
        again = record(broker.url, tmp_path, "--topic", "d.*")
        again.wait_until(lambda: again.confirmed and len(said_by(tmp_path, producer.id)) > before)
        await producer.publish(3)
        await client.flush()
        again.wait_until(lambda: again.messages == 1)
    assert again.stop() == 0
    described = pipeline.enrich(pipeline.archive(spark, tmp_path), pipeline.changes(spark, tmp_path))
    found = {row["value"]: sorted(row["metadata"]) for row in described.collect()}
    assert found == {1.0: ["Room", "Status"], 3.0: ["Room"]}
    asked = pipeline.archive(spark, tmp_path, where="Status = 'broken'")
    assert [row["value"] for row in asked.collect()] == [1.0]
    assert known_at(tmp_path, "default", datetime.now(UTC))[producer.id] == {"Room": "410"}
