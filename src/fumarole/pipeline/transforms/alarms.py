"""Alarms that rules raise over messages: `pipeline.alarms(messages, rules)`, on a stream as on an archive (P13).

The columns are rule, producer, state (`raised` or `cleared`), since, until, value, metadata (JSON), and those of the
message that the alarm is: topic, payload, headers. So `writeStream.format("fumarole")` publishes them.

Producers are dealt out to a few shards, by a hash. A shard is one group of `transformWithState`, and its state one
value: that of all its producers, in columns. In a batch each shard is gone through once, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from fumarole.core.rules import Rules, parse
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.rules import plan
from fumarole.pipeline.rules.messages import ARROW, SCHEMA, alarm_rows, gap_rows, part_rows, whole_windows
from fumarole.pipeline.rules.rows import GAP, SAID, Rows
from fumarole.pipeline.rules.shard import Shard
from fumarole.pipeline.sharding import packed, partitions, shard_keys, unpacked, use_state

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql.streaming.stateful_processor import TimerValues

Deliver = Callable[[pa.Table], None]
"""Takes rows of `rules.messages` before the state of the shard is kept."""
Given = str | PathLike[str] | Rules | list[dict[str, Any]]
"""Rules: a file, tables of the same form, or as read."""
TIMER_MILLISECONDS: Final = 500
"""How often silences are looked for where the frame has no clock of its own."""
IN_A_BATCH: Final = 50_000
"""Rows of history that a shard takes at once."""


def rules_of(given: Given) -> Rules:
    """Rules from a file or tables. Raises DeclarationError, PipelineError."""
    if isinstance(given, Rules):
        return given
    if isinstance(given, list):
        return parse(given)
    import tomllib

    try:
        with Path(given).open("rb") as file:
            tables = tomllib.load(file).get("rules", [])
    except (OSError, ValueError) as error:
        raise PipelineError(f"rules cannot be read from {given}: {error}") from None
    return parse(tables)


def alarms(
    messages: DataFrame, rules: Given, changes: DataFrame | None = None, until: datetime | None = None
) -> DataFrame:
    """What these rules raise and clear over these messages.

    Of an archive, `changes` are those of its producers' metadata, and silences are looked for `until` then. On a stream
    metadata is what the messages bring, and what the live source with `clock` tells.
    """
    declared = Rules(rules_of(rules).alarms)
    if not declared.alarms:
        raise PipelineError("these rules raise no alarms")
    return as_alarms(watched(messages, declared, changes, until))


def as_alarms(rows: DataFrame) -> DataFrame:
    """Those of these rows that are alarms, without what the shards count."""
    return rows.where(sf.col("rule").isNotNull()).select(
        *("rule", "producer", "state", "since", "until", "value", "metadata", "topic", "payload"),
        sf.create_map(sf.lit(plan.ALARM_HEADER), sf.array("identity")).alias("headers"),
    )


def watched(
    messages: DataFrame,
    rules: Rules,
    changes: DataFrame | None = None,
    until: datetime | None = None,
    deliver: Deliver | None = None,
) -> DataFrame:
    """The same as rows of `rules.messages`, with what the shards count; on a stream also with windows of rollups."""
    spark = messages.sparkSession
    if not messages.isStreaming:
        return _of_history(messages, rules, changes, partitions(spark), until)
    keys = shard_keys(partitions(spark))
    has_clock = "event" in messages.columns
    return of_shards(packed(plan.rows(messages, rules, keys), plan.SHARD), rules, keys, has_clock, deliver)


def of_shards(
    rows: DataFrame, rules: Rules, keys: Sequence[int], has_clock: bool = True, deliver: Deliver | None = None
) -> DataFrame:
    """The same of a stream whose rows are packed for these shards."""
    use_state(rows.sparkSession)
    watching = Watching(rules, len(keys), keys[0], not has_clock, None if rules.rollups else deliver)
    said = rows.groupBy(plan.SHARD).transformWithStateInPandas(
        watching, SCHEMA, "append", "none" if has_clock else "processingTime"
    )
    if not rules.rollups:
        return said

    def put_together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = [pa.Table.from_batches([batch]).cast(ARROW) for batch in batches]
        if parts:
            whole = whole_windows(pa.concat_tables(parts), rules.rollups)
            if deliver is not None:
                deliver(whole)
            yield from whole.to_batches()

    return said.repartition(1).mapInArrow(put_together, SCHEMA)


class Watching(StatefulProcessor):
    """One shard of a stream."""

    def __init__(self, rules: Rules, shards: int, first: int, has_timers: bool, deliver: Deliver | None) -> None:
        self._rules = rules
        self._shards = shards
        self._first = first
        """The key of the shard that tells of gaps."""
        self._has_timers = has_timers
        self._deliver = deliver

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("shard", "data binary")

    def handleInputRows(  # noqa: N802 (Spark's name)
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        shard = self._shard()
        if self._has_timers and not any(True for _ in self._handle.listTimers()):
            self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + TIMER_MILLISECONDS)
        taken = Rows.of(unpacked(rows), shard.words)
        found = shard.take(taken)
        gaps = (taken.kind == GAP) & (key[0] == self._first)
        yield self._said(shard, found, gap_rows(taken.time[gaps].tolist(), taken.at[gaps].tolist()))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        now = timerValues.getCurrentProcessingTimeInMs()
        self._handle.registerTimer(now + TIMER_MILLISECONDS)
        shard = self._shard()
        yield self._said(shard, shard.expire(now * 1_000), gap_rows([], []))

    def close(self) -> None:
        pass

    def _shard(self) -> Shard:
        known = self._state.get() if self._state.exists() else None
        return Shard(self._rules, self._shards, None if known is None else bytes(known[0]))

    def _said(self, shard: Shard, found: list[Any], gaps: pa.Table) -> pd.DataFrame:
        data = shard.as_bytes()
        table = alarm_rows(found, self._rules.declared, shard.counts(), len(data))
        table = pa.concat_tables([gaps, table, part_rows(shard.closed)])
        if self._deliver is not None:
            self._deliver(table)
        self._state.update((data,))
        made: pd.DataFrame = table.to_pandas()
        return made


# History.


def _of_history(
    messages: DataFrame, rules: Rules, changes: DataFrame | None, shards: int, until: datetime | None
) -> DataFrame:
    """Each shard in the order in which it was heard. Of the same moment messages come first: they bring their own news,
    and what changes say again does no harm then.
    """
    keys = list(range(shards))
    kept = [name for name in plan.IDENTITY if name in messages.columns]
    rows = plan.rows(messages, rules, keys, kept)
    if changes is not None:
        rows = rows.unionByName(plan.changes_rows(changes, rules, keys), allowMissingColumns=True)
        kept = list(plan.IDENTITY)
    order = [sf.col(plan.SHARD), sf.col("at"), sf.col("kind") == SAID, *map(sf.col, kept)]
    in_order = rows.repartition(shards, plan.SHARD).sortWithinPartitions(*order)
    end = None if until is None else int(until.timestamp() * 1_000_000)

    def gone_through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _gone_through(rules, shards, end, batches)

    return in_order.mapInArrow(gone_through, SCHEMA)


def _gone_through(
    rules: Rules, shards: int, until: int | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What rows of some shards raise and clear, those of each together and in order."""
    current, shard, place = None, Shard(rules, shards), 0
    for table in _tables(batches):
        keys = table[plan.SHARD].to_numpy()
        begins = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), len(keys)]
        for begin, end in pairwise(begins):
            if keys[begin] != current:
                if current is not None:
                    yield from _ended(rules, shard, until)
                current, shard = keys[begin], Shard(rules, shards)
            part = table.slice(begin, end - begin)
            order = pa.array(np.arange(place, place + part.num_rows))
            place += part.num_rows
            part = part.set_column(part.schema.get_field_index("place"), "place", order)
            yield from alarm_rows(shard.take(Rows.of(part, shard.words)), rules.declared).to_batches()
    if current is not None:
        yield from _ended(rules, shard, until)


def _ended(rules: Rules, shard: Shard, until: int | None) -> Iterator[pa.RecordBatch]:
    found = [] if until is None else shard.expire(until)
    yield from alarm_rows(found, rules.declared, shard.counts()).to_batches()


def _tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Many rows at a time."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= IN_A_BATCH:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if sum(each.num_rows for each in waiting):
        yield pa.Table.from_batches(waiting)
