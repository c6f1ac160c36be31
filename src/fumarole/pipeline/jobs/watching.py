"""The live job: rules over live messages, what they say published, and how it goes told (P13).

    CHECKPOINT/job.json     the rules whose state is in the checkpoint, and how many shards there are
    CHECKPOINT/buffer       the replay buffer
    CHECKPOINT/alarms       Spark's checkpoint

One query: live rows with a clock, shards, messages. An alarm is published, and is retained on `open.RULE.PRODUCER` as
long as it lasts. A query that fails, since the broker is away, is begun again from its checkpoint: it does the last
batch again, and what it publishes twice has the same identity.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from fumarole.core.alarms import CLEARED, RAISED
from fumarole.core.rules import Rules
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.jobs.delivering import Delivery
from fumarole.pipeline.jobs.failures import FAILURES, in_short
from fumarole.pipeline.live.source import register
from fumarole.pipeline.rules.packing import Packing
from fumarole.pipeline.sharding import ROCKSDB, STORE, partitions, shard_keys
from fumarole.pipeline.transforms.alarms import of_shards, watched

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader

SETTINGS: Final = {
    STORE: ROCKSDB,
    # Only what changed goes into the checkpoint, not all of the store.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.minBatchesToRetain": "10",
    # Where files are local, Spark's usual manager begins a process of the system for each look at a file: `readlink`,
    # and `chmod` for each that is written. That was most of the time of a small batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # The clock of the source is time enough.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # A shard's rows come to Python all at once.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
}
"""What the job asks of a session."""
FOR_FEW_ROWS: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Where rows come packed, Spark has a few of them in a batch: code for them takes longer to make than to run."""
SHARDS: Final = "spark.sql.shuffle.partitions"
SHARDS_A_CORE: Final = 1
OPEN: Final = "open"
ROWS_AT_ONCE: Final = 200_000
JOB: Final = "job.json"
LOOK_SECONDS: Final = 0.25
PAUSES: Final = (0.5, 1.0, 2.0, 5.0)
"""Seconds before a query that failed is begun again: the first time, the second, and so on."""
MOST_FAILURES: Final = 20
"""Without a batch between them."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What is watched, and where what comes of it goes."""

    rules: Rules
    servers: str
    checkpoint: Path
    topic: str = ">"
    where: str = ""
    payloads: Path | None = None
    open_root: str = OPEN
    adopt: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the live source."""


@dataclass(slots=True)
class Progress:
    """How it goes, as of the last batch."""

    batches: int = 0
    rows: int = 0
    rate: float = 0.0
    seconds: float = 0.0
    lag: float | None = None
    """Seconds from when something was heard until what it says was published."""
    producers: int = 0
    state_bytes: int = 0
    open: dict[str, int] = field(default_factory=dict)
    raised: int = 0
    cleared: int = 0
    muted: int = 0
    late: int = 0
    heard_until: datetime | None = None
    failures: int = 0
    """Since the last batch."""
    restarts: int = 0


def check(watch: Watch) -> str:
    """Makes the checkpoint this job's. Says what becomes of its state where rules have changed.

    Raises PipelineError.
    """
    now = _Job.of(watch.rules)
    said = ""
    before = _read_job(watch.checkpoint)
    if before is not None and (before.rules, before.rollups) != (now.rules, now.rollups):
        asked, known = {**now.rules, **now.rollups}, {**before.rules, **before.rollups}
        kept = [name for name in asked if known.get(name) == asked[name]]
        new = [name for name in asked if known.get(name) != asked[name]]
        gone = [name for name in before.rules if now.rules.get(name) != before.rules[name]]
        dropped = [name for name in before.rollups if now.rollups.get(name) != before.rollups[name]]
        said = (
            f"state kept: {', '.join(kept) or 'none'}; begins anew: {', '.join(new) or 'none'}; "
            f"open alarms ended: {', '.join(gone) or 'none'}"
        )
        said += f"; open windows dropped: {', '.join(dropped)}" if dropped else ""
        if not watch.adopt:
            raise PipelineError(
                f"the rules are not those of the checkpoint {watch.checkpoint}; --adopt goes on ({said})"
            )
    _write_job(watch.checkpoint, replace(now, shards=None if before is None else before.shards))
    return said


def shards_of(watch: Watch, default: int) -> int:
    """The number of shards that the checkpoint began with. A new one begins with `default`.

    A producer's shard depends on their number: with another number it would lose its state.
    """
    job = _read_job(watch.checkpoint) or _Job.of(watch.rules)
    if job.shards is None:
        _write_job(watch.checkpoint, replace(job, shards=default))
    return default if job.shards is None else job.shards


@dataclass(frozen=True, slots=True)
class _Job:
    """What a checkpoint belongs to."""

    rules: dict[str, str]
    """Those that raise alarms, with their digests."""
    rollups: dict[str, str]
    shards: int | None = None

    @classmethod
    def of(cls, rules: Rules) -> _Job:
        alarms, rollups = ({rule.name: rule.digest for rule in some} for some in (rules.alarms, rules.rollups))
        return cls(alarms, rollups)


def _read_job(checkpoint: Path) -> _Job | None:
    """Raises PipelineError."""
    file = checkpoint / JOB
    try:
        said = json.loads(file.read_text())
        rollups = dict(said.get("rollups", {}))
        return _Job(dict(said["rules"]), rollups, None if said["shards"] is None else int(said["shards"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise PipelineError(f"{file} is not what this job has written; begin with another --checkpoint") from None


def _write_job(checkpoint: Path, job: _Job) -> None:
    checkpoint.mkdir(parents=True, exist_ok=True)
    aside = (checkpoint / JOB).with_suffix(".part")
    aside.write_text(json.dumps(asdict(job)))
    aside.replace(checkpoint / JOB)


def counted(rows: DataFrame, rules: Rules) -> DataFrame:
    """Rows of `watched`, of which each batch says what the shards have counted."""
    names: list[Column] = []
    for number, rule in enumerate(rules.alarms):
        names.append(sf.sum(sf.get("open", sf.lit(number))).alias(f"open_{rule.name}"))
    return rows.observe(
        "rules",
        sf.unix_micros(sf.max("now")).alias("now"),
        *[sf.sum(name).alias(name) for name in ("producers", "late", "muted", "bytes")],
        *[sf.count_if(sf.col("state") == state).alias(state) for state in (RAISED, CLEARED)],
        *names,
    )


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """A session with these settings, which is as it was afterwards: it may be the caller's own."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


class WatchingJob:
    """`with WatchingJob(…).started() as job`, then `job.look()` again and again."""

    def __init__(self, spark: SparkSession, watch: Watch) -> None:
        self._spark = spark
        self._watch = watch
        self._seen = -1
        self._query: StreamingQuery | None = None
        self.progress = Progress()
        register(spark)

    @contextmanager
    def started(self) -> Iterator[WatchingJob]:
        shards = shards_of(self._watch, partitions(self._spark))
        packed = {} if Packing.of(self._watch.rules, ()) is None else FOR_FEW_ROWS
        with _set(self._spark, {**SETTINGS, **packed, SHARDS: str(shards)}):
            self._start()
            try:
                yield self
            finally:
                if self._query is not None:
                    self._query.stop()

    def _start(self) -> None:
        watch = self._watch
        reader = self._spark.readStream.format("fumarole").option("servers", watch.servers)
        reader = reader.option("topic", watch.topic).option("buffer", str(watch.checkpoint / "buffer"))
        reader = reader.option("partitions", 1).option("maxRowsPerTrigger", ROWS_AT_ONCE)
        if watch.where:
            reader = reader.option("where", watch.where)
        if watch.payloads is not None:
            reader = reader.option("payloads", str(watch.payloads))
        reader = reader.options(**watch.options)
        writer = counted(self._rows(reader), watch.rules).writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(watch.checkpoint / "alarms"))
        self._query = writer.trigger(processingTime="0 seconds").start()

    def _rows(self, reader: DataStreamReader) -> DataFrame:
        rules, delivery = self._watch.rules, Delivery(self._watch.servers, self._watch.open_root)
        keys = shard_keys(partitions(self._spark))
        packing = Packing.of(rules, keys)
        if packing is None:
            return watched(reader.option("clock", "true").load(), rules, deliver=delivery)
        return of_shards(reader.option("packing", packing.as_text()).load(), rules, keys, deliver=delivery)

    def look(self) -> bool:
        """Is there news? A query that has ended is begun again. Raises PipelineError where that is of no use."""
        query = self._query
        assert query is not None
        if not query.isActive:
            self._failed(query)
            return True
        last = query.lastProgress
        if last is None or last["batchId"] <= self._seen:
            return False
        # All that are known are read one field after the other: mostly the last is the only one that is new.
        news = [last] if last["batchId"] == self._seen + 1 else self._since(query)
        for each in news:
            self._take(each)
        return True

    def _since(self, query: StreamingQuery) -> list[Any]:
        return [each for each in query.recentProgress if each["batchId"] > self._seen]

    def _failed(self, query: StreamingQuery) -> None:
        self.progress.failures += 1
        reason = query.exception()
        text = "it ended by itself" if reason is None else in_short(reason)
        if self.progress.failures > MOST_FAILURES or "begin with a new checkpoint" in text:
            raise PipelineError(text)
        self.progress.restarts += 1
        time.sleep(PAUSES[min(self.progress.failures, len(PAUSES)) - 1])
        try:
            self._start()
        except FAILURES as error:
            raise PipelineError(in_short(error)) from None

    def _take(self, batch: Any) -> None:
        self._seen = batch["batchId"]
        progress = self.progress
        progress.batches += 1
        progress.failures = 0
        rows = sum(rows_of(each) for each in batch["sources"])
        progress.rows += rows
        progress.seconds = batch["durationMs"].get("triggerExecution", 0) / 1e3
        progress.rate = rows / progress.seconds if progress.seconds else 0.0
        observed = batch["observedMetrics"].get("rules")
        # Over Spark Connect what is null is not there.
        counted: dict[str, Any] = {} if observed is None else observed.asDict()
        if counted.get("producers") is None:
            return
        progress.producers, progress.state_bytes = counted["producers"], counted["bytes"]
        for name in ("raised", "cleared", "muted", "late"):
            setattr(progress, name, getattr(progress, name) + (counted.get(name) or 0))
        progress.open = {rule.name: counted.get(f"open_{rule.name}") or 0 for rule in self._watch.rules.alarms}
        if counted.get("now") is not None:
            progress.heard_until = datetime.fromtimestamp(counted["now"] / 1e6, UTC)
            ended = datetime.fromisoformat(batch["timestamp"]).timestamp() + progress.seconds
            progress.lag = max(0.0, ended - progress.heard_until.timestamp())


def rows_of(source: Any) -> int:
    """How many rows of the live source a batch had. Spark sees packed ones only, but each row has an offset.

    The first batch of all begins with no offset. Over Spark Connect an offset is not in JSON, but as Python shows it.
    """
    ends = [re.search("[0-9]+", str(source[name])) for name in ("startOffset", "endOffset")]
    begin, end = (None if found is None else int(found[0]) for found in ends)
    return source["numInputRows"] or 0 if begin is None or end is None else end - begin


def run(job: WatchingJob, tell: Callable[[Progress], None], wait: Callable[[float], bool], every: float = 1.0) -> None:
    """Until it is told to stop: `wait` waits, and says whether it was."""
    told = 0.0
    with job.started():
        while not wait(LOOK_SECONDS):
            if job.look() and time.monotonic() - told >= every:
                told = time.monotonic()
                tell(job.progress)


def settings(cores: int) -> dict[str, str]:
    """Of a session of its own, on a machine or a cluster with so many cores."""
    return {**SETTINGS, SHARDS: str(max(1, SHARDS_A_CORE * cores))}
