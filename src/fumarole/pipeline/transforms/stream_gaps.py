"""Silences of a stream, by the time of its rows and its watermark.

A reading counts when the watermark has passed it: then no earlier one can come. A stream does not know the pauses that
are still to come, so a habit is the median of the last HABIT_PAUSES pauses before, as for a rule. Before LEAST_PAUSES
there is none.

    append   a silence, when its end counts
    update   also one that goes on, once: when the watermark is longer past the last reading than the silence may be.
             `until` is null then, and `seconds` are up to the watermark

The watermark stands still while no row comes at all. Rules see such silences: `pipeline.alarms`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from fumarole.core.publication import FORGOTTEN
from fumarole.core.rules import HABIT_PAUSES, LEAST_PAUSES
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.sharding import partitions, shard_keys, use_state
from fumarole.pipeline.times import microseconds

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql.streaming.stateful_processor import TimerValues

MODES: Final = ("append", "update")
_TIME: Final = pa.timestamp("us", tz="UTC")
Silence = tuple[str, int, int | None, int, float]
"""Whose, since, until, how long it is, and the habit, in microseconds."""


class Known(msgspec.Struct, array_like=True):
    """What is remembered of one producer, or topic."""

    last: int | None = None
    pauses: list[int] = []
    waiting: list[int] = []
    """Times that the watermark has not passed."""
    told: bool = False
    """Was it said that its silence goes on?"""

    def pass_by(
        self, watermark: int, factor: float, least: int, tells_open: bool
    ) -> Iterator[tuple[int, int | None, int, float]]:
        """The silences that are known by now: since, until, length, habit."""
        for time in sorted(time for time in self.waiting if time <= watermark):
            if self.last is not None and time > self.last:
                pause, habit = time - self.last, self.habit
                if habit is not None and pause > max(factor * habit, least):
                    yield self.last, time, pause, habit
                self.pauses = [*self.pauses, pause][-HABIT_PAUSES:]
                self.told = False
            self.last = time if self.last is None else max(self.last, time)
        self.waiting = [time for time in self.waiting if time > watermark]
        habit = self.habit
        if not tells_open or self.told or self.last is None or habit is None:
            return
        if watermark - self.last > max(factor * habit, least):
            self.told = True
            yield self.last, None, watermark - self.last, habit

    @property
    def habit(self) -> float | None:
        return median(self.pauses) if len(self.pauses) >= LEAST_PAUSES else None


_STATE: Final = msgspec.msgpack.Decoder(dict[str, Known])


def stream_gaps(messages: DataFrame, factor: float, least: timedelta, by: str, mode: str) -> DataFrame:
    """For each silence: whose, since, until, seconds, habit. Raises PipelineError."""
    if mode not in MODES:
        raise PipelineError(f"silences of a stream are written in the mode {' or '.join(MODES)}, not {mode!r}")
    spark = messages.sparkSession
    use_state(spark)
    keys = shard_keys(partitions(spark))
    shard = sf.get(sf.array(*map(sf.lit, keys)), sf.pmod(sf.xxhash64(by), sf.lit(len(keys))).cast("int"))
    own = messages.where(sf.col(by).isNotNull()).select(
        *(shard.alias("shard"), sf.col(by).alias("name"), "time", sf.unix_micros("time").alias("at")),
        (sf.col("topic") == FORGOTTEN).alias("forgotten"),
    )
    listening = Listening(factor, microseconds(least), by, mode == "update")
    schema = f"{by} string, since timestamp, until timestamp, seconds double, habit double"
    return own.groupBy("shard").transformWithStateInPandas(listening, schema, mode, "eventTime")


class Listening(StatefulProcessor):
    """One shard."""

    def __init__(self, factor: float, least: int, by: str, tells_open: bool) -> None:
        self._factor = factor
        self._least = least
        self._by = by
        self._tells_open = tells_open

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("shard", "data binary")

    def handleInputRows(  # noqa: N802 (Spark's name)
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        known = self._known()
        for part in rows:
            for name, at, forgotten in zip(part["name"], part["at"].tolist(), part["forgotten"], strict=True):
                if forgotten:
                    known.pop(name, None)
                else:
                    known.setdefault(name, Known()).waiting.append(at)
        if not any(True for _ in self._handle.listTimers()):
            self._handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 1)
        yield self._passed(known, timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        self._handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 1)
        yield self._passed(self._known(), timerValues)

    def close(self) -> None:
        pass

    def _known(self) -> dict[str, Known]:
        known = self._state.get() if self._state.exists() else None
        return {} if known is None else _STATE.decode(bytes(known[0]))

    def _passed(self, known: dict[str, Known], values: TimerValues) -> pd.DataFrame:
        watermark = values.getCurrentWatermarkInMs()
        found = [
            (name, *silence)
            for name, each in known.items()
            for silence in each.pass_by(watermark * 1_000, self._factor, self._least, self._tells_open)
        ]
        self._state.update((msgspec.msgpack.encode(known),))
        return self._table(found).to_pandas()

    def _table(self, found: list[Silence]) -> pa.Table:
        columns = list(zip(*found, strict=True)) if found else [()] * 5
        return pa.table(
            {
                self._by: pa.array(columns[0], pa.string()),
                "since": pa.array(columns[1], _TIME),
                "until": pa.array(columns[2], _TIME),
                "seconds": pa.array([each / 1e6 for each in columns[3]], pa.float64()),
                "habit": pa.array([each / 1e6 for each in columns[4]], pa.float64()),
            }
        )
