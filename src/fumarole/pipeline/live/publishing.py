"""What a task of the sink does: its rows become messages, a batch at a time."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fumarole.client import Client, ClosedError, DisconnectedError, FlushTimeoutError, RefusedError, connect
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.frames import chunks, frames, slices, unfit

log = logging.getLogger("fumarole.pipeline")

FLUSH_SECONDS = 60.0
REFUSED = "_PIPELINE.refused"
"""Where it is said what the broker refused, where that is not to end the job."""
CARRIED = ("producer", "headers", "changes")
"""Columns that go along as they are, where rows have them."""

_UNHEARD = "the broker may not have heard all rows of this task, which is to be tried again"
_BYTES_OR_TEXT = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)


def publish(batches: Iterator[pa.RecordBatch], servers: str, options: Mapping[str, str], job: str) -> int:
    """Publishes all rows, and returns when the broker has heard them. How many there were.

    Each has a mark made of the job, the task and its number, unless the option `marks` is false. Raises PipelineError
    where the connection was lost: Spark tries the task again, and all of its rows come again, with the same marks.
    """
    return asyncio.run(_publish(batches, servers, options, job))


async def _publish(batches: Iterator[pa.RecordBatch], servers: str, options: Mapping[str, str], job: str) -> int:
    first = await asyncio.to_thread(_first, batches)
    if first is None:
        return 0  # most batches of a live job have no alarm: they need no connection
    batches = chain([first], batches)
    # What a lost connection had taken is gone, and the next one could not tell: so there is no next one.
    async with connect(servers, name="fumarole spark sink", echo=False, reconnect=False, presence=False) as client:
        try:
            return await _publish_all(client, batches, options, job)
        except (ClosedError, DisconnectedError, FlushTimeoutError) as error:
            raise PipelineError(f"{_UNHEARD}: {error}") from error


def _first(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    """The first one with rows."""
    return next((batch for batch in batches if batch.num_rows), None)


async def _publish_all(client: Client, batches: Iterator[pa.RecordBatch], options: Mapping[str, str], job: str) -> int:
    prefix = f"{job}-{_partition()}-"
    marked = options.get("marks", "true").lower() != "false"
    count = left_out = 0
    # Spark may take its time for a batch. The loop must not wait with it: the broker asks for signs of life.
    while (batch := await asyncio.to_thread(next, batches, None)) is not None:
        rows = message_rows(pa.Table.from_batches([batch]), options.get("topic"))
        for part in slices(rows):
            marks = _marks(prefix, count, part.num_rows) if marked else None
            count += part.num_rows
            await client.publish_frames(chunks(frames(part, client.max_payload, marks)))
            left_out += unfit(part)
    if left_out:
        log.warning("headers left out: %d; a name with a space, or a line break, cannot be sent", left_out)
    try:
        await client.flush(FLUSH_SECONDS)
    except RefusedError as error:
        if options.get("refusals", "fail").lower() != "publish":
            raise
        log.warning("refused by the broker: %s", error)
        await client.publish(REFUSED, json.dumps({"refused": str(error)}))
        await client.flush(FLUSH_SECONDS)
    return count


def message_rows(rows: pa.Table, topic: str | None) -> pa.Table:
    """The columns of a message: `topic` (or the option), `payload` or else `value` as text, and what else is there."""
    names = set(rows.column_names)
    columns = {name: rows[name] for name in CARRIED if name in names}
    if "headers" in names:
        kind = rows.schema.field("headers").type
        if not (pa.types.is_map(kind) and pa.types.is_list(kind.item_type)):
            raise PipelineError(f"the column `headers` is a map from names to lists of texts, not {kind}")
    if "topic" in names:
        columns["topic"] = rows["topic"]
    elif topic is not None:
        columns["topic"] = pa.repeat(pa.scalar(topic), rows.num_rows)
    else:
        raise PipelineError("rows to publish have a column `topic`, or all go to the one of the option `topic`")
    if "payload" in names:
        columns["payload"] = rows["payload"]
        kind = rows.schema.field("payload").type
        if not any(is_one(kind) for is_one in _BYTES_OR_TEXT):
            raise PipelineError(f"the column `payload` is bytes or text, not {kind}; a number may be in `value`")
    elif "value" in names:
        columns["payload"] = rows["value"].cast(pa.string())
    else:
        raise PipelineError("rows to publish have a column `payload`, bytes or text, or a column `value`")
    return pa.table(columns)


def _marks(prefix: str, begin: int, count: int) -> pa.Array:
    numbers = pa.array(np.arange(begin, begin + count)).cast(pa.string())
    return pc.binary_join_element_wise(pa.scalar(prefix), numbers, pa.scalar(""))


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
