"""`format("fumarole")` for Spark: reading live messages, and publishing rows.

Spark makes a reader several times: beside the driver, where it lives as long as the query, and in every task, for the
sake of `read` alone. So nothing is begun when one is made, but when the driver first asks how much there is.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from fumarole.core.payloads import Payloads
from fumarole.pipeline.capturing import Wanted
from fumarole.pipeline.declared import payloads
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.live.buffer import Buffer, Part, read
from fumarole.pipeline.live.clock import EVENT_ROWS
from fumarole.pipeline.live.listener import Listener
from fumarole.pipeline.live.publishing import publish
from fumarole.pipeline.rules import packing
from fumarole.pipeline.shipping import ship

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "time timestamp, topic string, producer string, value double, payload binary, "
    "headers map<string, array<string>>, "
    "changes array<struct<key: string, kind: string, text: string, number: double, truth: boolean>>, "
    "event_time timestamp, recorded timestamp, wrong_clock boolean"
)
WITH_CLOCK = f"{SCHEMA}, offset long, event string"
"""With the option `clock`: also the place of each row in the order, and rows that are no messages. Of these `event` is

    tick      all that was heard up to `time` has come
    gap       from `event_time` until `time` nothing was listened to
    known     what the broker knows of a producer, in `changes`; its first change is that this is all
    complete  the broker knows no other producers than those heard of, or known, since `event_time`
"""
_CLOCK_ROWS = pa.schema([*EVENT_ROWS, ("offset", pa.int64())])
DESCRIBED = f"{SCHEMA}, metadata map<string, struct<kind: string, text: string, number: double, truth: boolean>>"
"""With the option `metadata`: what held for the producer when the message came, as `enrich` gives it."""
DEFAULT_SERVERS = "nats://127.0.0.1:4222"
READ_OPTIONS = {
    "servers",
    "topic",
    "where",
    "group",
    "buffer",
    "bufferbytes",
    "maxrowspertrigger",
    "partitions",
    "listen",
    "payloads",
    "clock",
    "metadata",
    "packing",
}
WRITE_OPTIONS = {"servers", "topic", "marks", "refusals"}
LIVE_ONLY = (
    'format("fumarole") reads live messages: use spark.readStream. What was recorded is read by '
    "pipeline.archive(spark, path)"
)
SPARK_OPTIONS = frozenset({"path", "checkpointlocation", "queryname"})
"""What Spark is told about a query that writes, it hands on to the sink as well."""


def register(spark: SparkSession) -> None:
    """Lets a Spark session know `format("fumarole")`, on a Spark Connect server as well.

    The package goes along to where Python runs elsewhere: workers of a cluster, and Connect servers. What it needs
    (pyarrow, msgspec) has to be installed there; for a live source on a Connect server the package too.
    """
    ship(spark)
    spark.dataSource.register(FumaroleSource)


def live_metadata(spark: SparkSession, **options: str | float) -> DataFrame:
    """Live messages with the `metadata` of their producers, as `enrich` gives it, without an archive.

    Options are those of `format("fumarole")`: `servers`, `topic`, `where` and so on.
    """
    register(spark)
    reader = spark.readStream.format("fumarole").option("metadata", "true")
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


@dataclass(frozen=True)
class ReadOptions:
    """What a live query was given."""

    servers: str
    wanted: Wanted
    buffer: Path
    buffer_bytes: int
    max_rows: int | None
    partitions: int
    listen: float
    payloads: Payloads
    clock: bool = False
    metadata: bool = False
    packing: packing.Packing | None = None
    """The live job's own: rows come as shards take them."""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> ReadOptions:
        """Raises PipelineError for an option that is not known or not a number."""
        options = _known(given, READ_OPTIONS)
        servers = options.get("servers", DEFAULT_SERVERS)
        wanted = Wanted(options.get("topic", ">"), options.get("where", ""), options.get("group", ""))
        packed = packing.Packing.from_text(options["packing"]) if "packing" in options else None
        clock, metadata = _is_set(options, "clock") or packed is not None, _is_set(options, "metadata")
        if clock and metadata:
            raise PipelineError(
                "the options clock and metadata exclude each other: with clock, metadata is in `changes`"
            )
        return cls(
            servers,
            wanted,
            Path(options["buffer"]) if "buffer" in options else _default_buffer(servers, wanted, metadata),
            _count(options, "bufferbytes", 1 << 30),
            _count(options, "maxrowspertrigger", 1) if "maxrowspertrigger" in options else None,
            _count(options, "partitions", 4),
            _seconds(options, "listen", 2.0),
            payloads(options.get("payloads")),
            clock,
            metadata,
            packed,
        )


class FumaroleSource(DataSource):
    """Live messages as rows, rows as messages."""

    @classmethod
    def name(cls) -> str:
        return "fumarole"

    def schema(self) -> str:
        if "packing" in self.options:
            return packing.SCHEMA
        if _is_set(self.options, "metadata"):
            return DESCRIBED
        return WITH_CLOCK if _is_set(self.options, "clock") else SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        raise PipelineError(LIVE_ONLY)

    def streamReader(self, schema: StructType) -> LiveReader:  # noqa: N802 (Spark's name)
        return LiveReader(ReadOptions.of(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:  # noqa: ARG002
        return BatchWriter(_known(self.options, WRITE_OPTIONS, SPARK_OPTIONS), os.urandom(8).hex())

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: ARG002, N802
        return StreamWriter(_known(self.options, WRITE_OPTIONS, SPARK_OPTIONS))


@dataclass
class Rows(InputPartition):
    """What one task reads."""

    parts: list[Part]


class LiveReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are `{"offset": rows}`, with that one key: Spark compares them as text."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._buffer: Buffer | None = None
        self._listener: Listener | None = None
        self._target: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"offset": self._opened().first}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        rows = self._options.max_rows
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def latestOffset(self, start: dict[str, int] | None = None, limit: ReadLimit | None = None) -> dict[str, int]:  # noqa: N802
        buffer = self._opened()
        if self._listener is not None:
            self._listener.check()
        begin = buffer.first if start is None else start["offset"]
        buffer.check(begin)
        buffer.done(begin)  # Spark plans a batch when the one before is in its log
        end = buffer.end if self._target is None else self._target
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        return {"offset": max(begin, end)}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"offset": self._opened().end}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is available is what waits in the buffer, and what comes while it listens for a moment."""
        buffer = self._opened()
        time.sleep(self._options.listen)
        if self._listener is not None:
            self._listener.stop()
            self._listener.check()
        self._target = buffer.end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        parts = self._opened().parts(start["offset"], end["offset"])
        rows = -(-(end["offset"] - start["offset"]) // self._options.partitions)
        groups: list[list[Part]] = []
        room = 0
        for part in parts:
            begin, left = part.begin, part.rows
            while left:
                if not room:
                    groups.append([])
                    room = max(rows, 1)
                taken = min(left, room)
                groups[-1].append(Part(part.path, begin, taken, part.offset + begin - part.begin))
                begin, left, room = begin + taken, left - taken, room - taken
        return [Rows(group) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Rows)
        own = self._options.packing
        if own is None:
            yield from _rows(partition.parts, to_arrow_schema(self._schema, timezone="UTC"))
        elif rows := list(_rows(partition.parts, _CLOCK_ROWS)):
            yield own.packed(pa.Table.from_batches(rows))

    def commit(self, end: dict[str, int]) -> None:
        self._opened().trim(end["offset"])

    def stop(self) -> None:
        if self._listener is not None:
            self._listener.stop()
        if self._buffer is not None:
            self._buffer.close()

    def _opened(self) -> Buffer:
        """The buffer; the first time, listening begins."""
        if self._buffer is None:
            options = self._options
            buffer = Buffer(options.buffer)
            buffer.open()
            self._buffer = buffer
            self._listener = Listener(
                *(options.servers, options.wanted, buffer, options.buffer_bytes),
                *(options.payloads, options.clock, options.metadata),
            )
            self._listener.start()
        return self._buffer


def _rows(parts: list[Part], wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    for part in parts:
        offset = part.offset
        for batch in read([part]):
            yield _completed(batch, wanted, offset).cast(wanted)
            offset += batch.num_rows


def _completed(batch: pa.RecordBatch, wanted: pa.Schema, offset: int) -> pa.RecordBatch:
    """With the rows' places in the order. A buffer of an older version may have rows without the newest columns."""
    if "offset" in wanted.names:
        places = pa.array(np.arange(offset, offset + batch.num_rows))
        batch = batch.append_column("offset", places)
    for field in wanted:
        if field.name not in batch.schema.names:
            batch = batch.append_column(field.name, pa.nulls(batch.num_rows, field.type))
    return batch.select(wanted.names)


class BatchWriter(DataSourceArrowWriter):
    """`df.write.format("fumarole")`. `job` is the same for every try of every task of one write."""

    def __init__(self, options: Mapping[str, str], job: str) -> None:
        self._options = options
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        publish(iterator, self._options.get("servers", DEFAULT_SERVERS), self._options, self._job)
        return WriterCommitMessage()


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("fumarole")`. A batch that is tried again has the same marks."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        # `write` is not told which batch it writes; the task knows.
        query = context.getLocalProperty("sql.streaming.queryId") or ""
        batch = context.getLocalProperty("streaming.sql.batchId") or ""
        publish(iterator, self._options.get("servers", DEFAULT_SERVERS), self._options, f"{query}-{batch}")
        return WriterCommitMessage()

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """Everything was published already."""

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """What was published cannot be taken back; it will come again, with the same marks."""


def _known(given: Mapping[str, str], known: set[str], others: frozenset[str] = frozenset()) -> dict[str, str]:
    """The options by their names in small letters. `others` may be among them, and are passed over."""
    options = {key.lower(): value for key, value in given.items()}
    unknown = sorted(options.keys() - known - others)
    if unknown:
        raise PipelineError(f"fumarole has no option {unknown[0]!r}; it has {', '.join(sorted(known))}")
    return options


def _is_set(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "false").lower() == "true"


def _count(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, str(default))
    if not re.fullmatch("[0-9]{1,18}", text) or int(text) == 0:
        raise PipelineError(f"the option {name} is a whole number above 0, not {text!r}")
    return int(text)


def _seconds(options: Mapping[str, str], name: str, default: float) -> float:
    text = options.get(name, str(default))
    value = math.nan
    with contextlib.suppress(ValueError):
        value = float(text)
    if not 0 < value < math.inf:
        raise PipelineError(f"the option {name} is a number of seconds above 0, not {text!r}")
    return value


def _default_buffer(servers: str, wanted: Wanted, has_metadata: bool) -> Path:
    """The same for the same question, so that a query that is started again finds its rows."""
    question = repr((servers, wanted, *(["metadata"] if has_metadata else [])))
    name = hashlib.sha256(question.encode()).hexdigest()[:16]
    # Not in a folder of all buffers: another user could own that folder, and replace this one at any time.
    return Path(tempfile.gettempdir()) / f"fumarole-live-{os.getuid()}-{name}"
