"""Spark's live source and sink beside what is wanted of them: rows a second through a broker on the same machine.

The source: messages are published at a steady rate, and a query counts them (`noop` is where its rows go). Rates are
tried one after the other, each higher than the one before, until one loses messages (`bench.search`). The time is from
the first message until the last one was in a finished batch; all must be there. The sink: a table is published,
from the beginning of the job until the broker has heard every row.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from itertools import count, cycle, islice
from pathlib import Path

from pyspark.sql import SparkSession

from bench.effort import Effort
from bench.figures import Figure, against
from bench.pipeline import spark_in
from bench.recorder import CHUNK, chunks, publish
from bench.search import highest
from bench.servers import CannotMeasureError, Server, fumarole
from fumarole import pipeline

CLAIM = "Live Spark"
WANTED_SOURCE = 350_000
RATES = (150_000, 250_000, 350_000, 425_000, 500_000, 600_000)
SECONDS = 15
WANTED_SINK = 100_000
SINK_ROWS = 3_000_000
QUIET = 20.0
"""Seconds without a batch: what has not come by then was lost."""


def measure(effort: Effort) -> Iterator[Figure]:
    effort.tell("starting Spark")
    with tempfile.TemporaryDirectory(dir="build") as folder, spark_in(folder) as spark, fumarole() as server:
        pipeline.register(spark)
        if _source(spark, server, Path(folder) / "warm", 20 * CHUNK, RATES[0]) is None:
            raise CannotMeasureError("the source lost messages of a few; is the machine busy with something else?")
        numbers = count()

        def attempt(rate: float) -> float | None:
            messages = effort.share(int(rate * SECONDS)) // CHUNK * CHUNK
            effort.tell(f"source: {messages:,} rows, {rate:,.0f}/s")
            return _source(spark, server, Path(folder) / f"source-{next(numbers)}", messages, rate)

        source = highest(RATES, attempt)
        if source is None:
            raise CannotMeasureError("the source lost messages at every rate; is the machine busy?")
        _sink(spark, server, 10_000)
        rows = effort.share(SINK_ROWS)
        effort.tell(f"sink: {rows:,} rows")
        sink = max(_sink(spark, server, rows) for _ in range(min(effort.rounds, 2)))
    yield against(
        "wanted", CLAIM, "source, rows: the highest rate without loss", source, WANTED_SOURCE, "/s", at_least=1.0
    )
    yield against("wanted", CLAIM, "sink, rows published", sink, WANTED_SINK, "/s", at_least=1.0)


def _source(spark: SparkSession, server: Server, folder: Path, messages: int, rate: float) -> float | None:
    """Rows a second; None: some were lost."""
    reader = spark.readStream.format("fumarole").option("servers", f"nats://127.0.0.1:{server.port}")
    rows = reader.option("buffer", str(folder / "buffer")).option("partitions", 2).load()
    writing = rows.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    query = writing.trigger(processingTime="1 second").start()
    ready = chunks()
    done = 0
    counted: set[int] = set()
    try:
        while not (folder / "buffer" / "lock").exists():
            time.sleep(0.1)
        time.sleep(2.0)
        with server.connect() as connection:
            began = time.monotonic()
            publish(connection, islice(cycle(ready), messages // CHUNK), rate)
            came = time.monotonic()
            while done < messages:
                if (error := query.exception()) is not None:
                    raise CannotMeasureError(f"{messages:,} were published, {done:,} came; {error}")
                if time.monotonic() - came > QUIET:
                    return None
                time.sleep(0.02)
                for progress in query.recentProgress:
                    if progress["batchId"] not in counted and progress["numInputRows"]:
                        counted.add(progress["batchId"])
                        done += progress["numInputRows"]
                        came = time.monotonic()
            return messages / (time.monotonic() - began)
    finally:
        query.stop()


def _sink(spark: SparkSession, server: Server, rows: int) -> float:
    """Rows a second."""
    table = spark.range(0, rows, numPartitions=2).selectExpr(
        "concat('volcanoes.region', id % 10, '.sensor', id % 1000) topic", "cast(20 + id % 100 / 10 as string) payload"
    )
    began = time.monotonic()
    table.write.format("fumarole").option("servers", f"nats://127.0.0.1:{server.port}").mode("append").save()
    return rows / (time.monotonic() - began)
