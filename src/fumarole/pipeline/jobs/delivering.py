"""What the live job publishes: alarms, retained ones beside them, windows of rollups, and gaps (P13).

It is published where the rules are worked out, before the state is kept. A sink of Spark's would take a worker, and a
plan of its own, for each batch, most of which have no alarm. A batch that is done again publishes the same again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from fumarole.core.alarms import CLEARED, RAISED
from fumarole.pipeline.live.publishing import publish
from fumarole.pipeline.rules.plan import ALARM_HEADER, ROLLUP_HEADER

_HEADERS: Final = pa.map_(pa.string(), pa.list_(pa.string()))
_MESSAGES: Final = pa.schema([("topic", pa.string()), ("payload", pa.string()), ("headers", _HEADERS)])
_OPTIONS: Final = {"marks": "false", "refusals": "publish"}


@dataclass(frozen=True, slots=True)
class Delivery:
    """Called with rows of `rules.messages`, it publishes those that are messages."""

    servers: str
    open_root: str

    def __call__(self, rows: pa.Table) -> None:
        found = messages(rows, self.open_root)
        if found.num_rows:
            publish(iter(found.to_batches()), self.servers, _OPTIONS, "")


def messages(rows: pa.Table, open_root: str) -> pa.Table:
    """What is published of these rows, in order."""
    wanted = rows.filter(rows["topic"].is_valid()).select(["topic", "payload", "state", "rule", "producer", "identity"])
    return pa.Table.from_pylist([each for row in wanted.to_pylist() for each in _said(row, open_root)], _MESSAGES)


def _said(row: dict[str, Any], open_root: str) -> Iterator[dict[str, Any]]:
    identity = [row["identity"]]
    is_alarm = row["state"] in {RAISED, CLEARED}
    header = ALARM_HEADER if is_alarm else ROLLUP_HEADER
    own = None if row["rule"] is None else [(header, identity)]
    yield {"topic": row["topic"], "payload": row["payload"], "headers": own}
    if is_alarm:
        retained = row["payload"] if row["state"] == RAISED else ""
        topic = ".".join([open_root, row["rule"], row["producer"]])
        yield {"topic": topic, "payload": retained, "headers": [(header, identity), ("Retain", ["1"])]}
