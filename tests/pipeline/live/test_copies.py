"""The lines for Spark that the console offers under "copy as", run as they stand."""

from __future__ import annotations

import asyncio
import time

import pytest
from pyspark.sql import SparkSession

import fumarole
from fumarole.sessions.http.copies import copies
from tests.integration.running import RunningBroker
from tests.pipeline.live.test_live import PATIENCE


async def publish(url: str) -> None:
    """A reading that both forms are to bring."""
    async with fumarole.connect(url) as client:
        await client.producer({"Kind": "so2"}, "copied.one").publish(1.5)
        await client.flush()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("asked", [("", "copied.>"), ("Kind = 'so2'", "")], ids=["pattern", "query"])
def test_spark(live_spark: SparkSession, broker: RunningBroker, asked: tuple[str, str]) -> None:
    where, topic = asked
    made = copies(where=where, topic=topic, host="127.0.0.1", doors={"nats": broker.port})
    (lines,) = [each.lines for each in made if each.form == "spark"]
    before = {query.id for query in live_spark.streams.active}
    exec(compile(lines, "copied", "exec"), {"spark": live_spark})
    (query,) = [query for query in live_spark.streams.active if query.id not in before]
    try:
        deadline = time.monotonic() + PATIENCE
        while not any(each["numInputRows"] for each in query.recentProgress):
            asyncio.run(publish(broker.url))
            assert query.exception() is None
            assert time.monotonic() < deadline, query.status
            time.sleep(0.2)
    finally:
        query.stop()
