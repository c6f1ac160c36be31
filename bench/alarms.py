"""The live job beside what is wanted of it: how soon an alarm is heard, and how many readings ten rules take.

Soon: 10,000 producers give 20,000 readings a second, of which ten go over a threshold. Each of these has a value of
its own, which the alarm has as well; the time is from its publish until a NATS consumer has the alarm. The job is warm.
Many: rates are tried one after the other, each higher than the one before, until the job loses readings or is not done
with them soon after the last was published (`bench.search`).
Growth: what a shard takes for a reading of each producer, beside the same with a tenth of the producers.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import fumarole as client
from bench.effort import Effort
from bench.figures import Figure, against
from bench.pipeline import spark_in
from bench.recorder import CHUNK, publish
from bench.search import highest
from bench.servers import CannotMeasureError, Server, fumarole, settle
from fumarole.core.rules import parse
from fumarole.pipeline.jobs.watching import Watch, WatchingJob, check, settings
from fumarole.pipeline.rules.rows import Rows
from fumarole.pipeline.rules.shard import Shard

CLAIM = "Alarms"
PRODUCERS = 10_000
RATE = 20_000
SECONDS = 40
WARM_SECONDS = 15
WANTED_P50, WANTED_P95 = 0.6, 1.5
WANTED_RATE = 150_000
RATES = (50_000, 75_000, 100_000, 125_000, 150_000, 200_000, 250_000, 300_000)
MANY_SECONDS = 15
LEAST_SECONDS = 5
"""In a quick run too: a batch takes about half a second, which must be little beside it."""
LATE = 0.2
"""Of the time in which readings are published: a job that is done later does not keep up."""
GROWTH_PRODUCERS = 100_000
CLOCK_ROWS = 100
"""More than the clock of the live source brings in a second."""
PATIENCE = 180.0
HOT: dict[str, Any] = {"name": "hot", "where": "Kind = 'so2' AND $value >= 1000", "clear": "$value < 1000"}
TEN: list[dict[str, Any]] = [
    HOT,
    {"name": "silent", "silence": "30 s"},
    {"name": "habit", "silence": "20 x habit"},
    {"name": "steep", "rate": 1e9},
    *[
        {"name": f"over-{limit}", "where": f"Kind = 'so2' AND $value > {limit}", "for": "5 s"}
        for limit in range(900, 906)
    ],
]


def measure(effort: Effort) -> Iterator[Figure]:
    effort.tell("starting Spark")
    with tempfile.TemporaryDirectory(dir="build") as folder, spark_in(folder) as spark, fumarole() as server:
        for key, value in settings(2).items():
            spark.conf.set(key, value)
        effort.tell(f"{PRODUCERS:,} producers, {RATE:,} readings a second")
        times = _latencies(spark, server, Path(folder) / "soon", effort.share(SECONDS))
        effort.tell("ten rules")
        rate = _readings(spark, server, Path(folder) / "many", effort)
    effort.tell(f"{GROWTH_PRODUCERS:,} producers in one shard")
    many, few = _seconds_of(GROWTH_PRODUCERS, effort.rounds), _seconds_of(GROWTH_PRODUCERS // 10, effort.rounds)
    p50, p95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
    yield against("wanted", CLAIM, "from publish to alarm, p50", p50, WANTED_P50, "s", at_most=1.0)
    yield against("wanted", CLAIM, "from publish to alarm, p95", p95, WANTED_P95, "s", at_most=1.0)
    yield against(
        "wanted", CLAIM, "readings with ten rules: the highest rate without loss", rate, WANTED_RATE, "/s", at_least=1.0
    )
    tenth = f"ten times {GROWTH_PRODUCERS // 10:,}"
    yield against(
        tenth, CLAIM, f"a reading of each of {GROWTH_PRODUCERS:,} producers", many, 10 * few, "s", at_most=1.2
    )


@contextmanager
def _watching(spark: SparkSession, server: Server, folder: Path, rules: list[dict[str, Any]]) -> Iterator[WatchingJob]:
    tables = [{"publish": "alarms.{rule}", **rule} for rule in rules]
    watch = Watch(parse(tables), f"nats://127.0.0.1:{server.port}", folder)
    check(watch)
    job = WatchingJob(spark, watch)
    with job.started():
        _wait(job, lambda: job.progress.batches > 2)
        yield job


def _wait(job: WatchingJob, holds: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        job.look()
        if time.monotonic() > deadline:
            raise CannotMeasureError(f"the live job does not get on: {job.progress}")
        time.sleep(0.02)


def _frame(producer: int, text: str, said: str = "") -> bytes:
    name = f"6f1c0a52-6d0f-4c8e-9a5e-3b1f{producer:08x}"
    metadata = f"Metadata: {said}\r\n" if said else ""
    headers = f"NATS/1.0\r\nProducer: {name}\r\n{metadata}\r\n".encode()
    return b"HPUB volcanoes.%d %d %d\r\n%s%s\r\n" % (
        producer % 100,
        len(headers),
        len(headers) + len(text),
        headers,
        text.encode(),
    )


def _introductions() -> list[bytes]:
    """Each producer's first reading, with its metadata."""
    said = json.dumps({"Kind": "so2", "Region": "italy"})
    frames = [_frame(producer, "1.0", said) for producer in range(PRODUCERS)]
    return [b"".join(frames[begin : begin + CHUNK]) for begin in range(0, PRODUCERS, CHUNK)]


def _chunks() -> list[bytes]:
    chance = random.Random(7)
    frames = [_frame(chance.randrange(PRODUCERS), f"{20 + 9 * chance.random():.2f}") for _ in range(100_000)]
    return [b"".join(frames[begin : begin + CHUNK]) for begin in range(0, len(frames), CHUNK)]


class _Listener:
    """When each alarm was heard, by its value."""

    def __init__(self, url: str) -> None:
        self.heard: dict[int, float] = {}
        self._stop, self._ready = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._listen(url)), daemon=True)
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    async def _listen(self, url: str) -> None:
        async with client.connect(url) as own:
            subscription = await own.subscribe("alarms.hot")

            async def take() -> None:
                async for message in subscription:
                    now = time.monotonic()
                    said = json.loads(message.payload)
                    if said["state"] == "raised":
                        self.heard.setdefault(int(said["value"]), now)

            task = asyncio.create_task(take())
            self._ready.set()
            await asyncio.to_thread(self._stop.wait)
            task.cancel()


def _latencies(spark: SparkSession, server: Server, folder: Path, seconds: int) -> list[float]:
    """Seconds from publish to alarm. Those of the beginning do not count: the job is cold."""
    listener = _Listener(f"nats://127.0.0.1:{server.port}")
    published: dict[int, float] = {}
    with _watching(spark, server, folder, [HOT]) as job, server.connect() as connection:
        publish(connection, _introductions(), RATE)
        _wait(job, lambda: job.progress.producers >= PRODUCERS)
        began = time.monotonic()

        for number, chunk in enumerate(cycle(_chunks())):
            due = began + number * CHUNK / RATE
            if (wait := due - time.monotonic()) > 0:
                time.sleep(wait)
            if due - began > seconds + WARM_SECONDS:
                break
            published[1000 + number] = time.monotonic()
            connection.sendall(_frame(number % PRODUCERS, str(1000 + number)) + chunk)
        settle(connection)
        warm = {value: at for value, at in published.items() if at - began > WARM_SECONDS}
        _wait(job, lambda: len(listener.heard.keys() & warm.keys()) >= 0.99 * len(warm))
    listener.stop()
    return [listener.heard[value] - at for value, at in warm.items() if value in listener.heard]


def _readings(spark: SparkSession, server: Server, folder: Path, effort: Effort) -> float:
    """Readings a second, at the highest rate with which the job keeps up."""
    with _watching(spark, server, folder, TEN) as job, server.connect() as connection:
        publish(connection, _introductions(), RATE)
        ready = _chunks()
        publish(connection, islice(cycle(ready), 200_000 // CHUNK), RATE)
        _wait(job, lambda: job.progress.rows >= PRODUCERS + 200_000)

        def attempt(rate: float) -> float | None:
            effort.tell(f"ten rules, {rate:,.0f} readings a second")
            readings = max(effort.share(int(rate * MANY_SECONDS)), int(rate * LEAST_SECONDS)) // CHUNK * CHUNK
            before, began = job.progress.rows, time.monotonic()
            publish(connection, islice(cycle(ready), readings // CHUNK), rate)
            deadline = time.monotonic() + LATE * (time.monotonic() - began)
            while job.progress.rows < before + readings:
                job.look()
                if time.monotonic() > deadline:
                    _wait(job, lambda: _has_settled(job))
                    return None
                time.sleep(0.02)
            return readings / (time.monotonic() - began)

        reached = highest(RATES, attempt)
    if reached is None:
        raise CannotMeasureError("the live job kept up with no rate; is the machine busy with something else?")
    return reached


def _has_settled(job: WatchingJob) -> bool:
    """True when nothing but the rows of the clock has come for a second."""
    before = job.progress.rows
    time.sleep(1.0)
    job.look()
    return job.progress.rows - before < CLOCK_ROWS


def _seconds_of(producers: int, rounds: int) -> float:
    """Seconds in which a warm shard takes a reading of each producer and becomes bytes again, as after each batch."""
    rules = parse([{"publish": "alarms.{rule}", **rule} for rule in TEN])
    shard = Shard(rules)
    names = pa.array([f"6f1c0a52-6d0f-4c8e-9a5e-3b1f{number:08x}" for number in range(producers)])
    place = pa.array(range(producers))
    times = []
    for turn in range(rounds + 2):
        at = pa.array(np.full(producers, (turn + 1) * 1_000_000))
        zeros = pa.array(np.zeros(producers, np.int64))
        columns = {"kind": zeros, "producer": names, "at": at, "time": at, "place": place}
        columns |= {f"test{word}": zeros for word in range(shard.words)}
        value = pa.array(np.full(producers, 20.0 + turn))
        table = pa.table({**columns, "value": value, "news": pa.nulls(producers, pa.string())})
        began = time.process_time()
        shard.take(Rows.of(table, shard.words))
        shard = Shard(rules, data=shard.as_bytes())
        times.append(time.process_time() - began)
    return min(times[1:])  # the first meets every producer for the first time
