"""Alarms as rows: what they say, the message they are, and what a shard counts.

    {"rule": "so2-high", "producer": "6f1c…", "state": "raised", "since": "2026-03-01T12:00:00.000000Z",
     "value": 81.5, "metadata": {"Kind": "so2", "Region": "italy"}}

`cleared` also has `until`, and an alarm that began no later than one before it `again`. A row without a rule has the
shard's counts, for `observe`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from fumarole.core.alarms import Alarm
from fumarole.core.rules import Rule, topic_of
from fumarole.pipeline.rules.rollups import Closed, Part, figures, merged
from fumarole.pipeline.rules.rollups import identity as rollup_identity
from fumarole.pipeline.rules.shard import Counts

SCHEMA: Final = (
    "rule string, producer string, state string, since timestamp, until timestamp, value double, metadata string, "
    "topic string, payload string, identity string, now timestamp, producers long, late long, muted long, "
    "open array<long>, bytes long"
)
_TIME: Final = pa.timestamp("us", tz="UTC")
ARROW: Final = pa.schema(
    [
        *[pa.field(name, pa.string()) for name in ("rule", "producer", "state")],
        pa.field("since", _TIME),
        pa.field("until", _TIME),
        pa.field("value", pa.float64()),
        *[pa.field(name, pa.string()) for name in ("metadata", "topic", "payload", "identity")],
        pa.field("now", _TIME),
        *[pa.field(name, pa.int64()) for name in ("producers", "late", "muted")],
        pa.field("open", pa.list_(pa.int64())),
        pa.field("bytes", pa.int64()),
    ]
)
PART: Final = "part"
ROLLUP: Final = "rollup"
GAP_TOPIC: Final = "_PIPELINE.gap"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING: Final = dict.fromkeys(ARROW.names)


def alarm_rows(alarms: Iterable[Alarm], rules: Iterable[Rule], counts: Counts | None = None, size: int = 0) -> pa.Table:
    """A row for each, and one for the counts."""
    templates = {rule.name: rule.publish for rule in rules}
    made: list[dict[str, Any]] = [_row(alarm, templates) for alarm in alarms]
    if counts is not None:
        made.append({**_NOTHING, **counts._asdict(), "bytes": size})
    return pa.Table.from_pylist(made, ARROW)


def part_rows(closed: Iterable[Closed]) -> pa.Table:
    """Parts of windows, for `whole_windows`."""
    made = [
        {
            **_NOTHING,
            "rule": each.rule.name,
            "state": PART,
            "payload": json.dumps([each.start, each.by, astuple(each.part)]),
        }
        for each in closed
    ]
    return pa.Table.from_pylist(made, ARROW)


def whole_windows(rows: pa.Table, rules: Iterable[Rule]) -> pa.Table:
    """The same rows, with the parts of each window put together to one that is published."""
    is_part = pc.fill_null(pc.equal(rows["state"], PART), False)
    named = {rule.name: rule for rule in rules}
    parts = rows.filter(is_part)
    closed = []
    for name, text in zip(parts["rule"].to_pylist(), parts["payload"].to_pylist(), strict=True):
        start, by, numbers = json.loads(text)
        closed.append(Closed(named[name], start, by, Part(*numbers)))
    made = []
    for each in merged(closed):
        assert each.rule.rollup is not None
        times = {"start": moment_text(each.start), "end": moment_text(each.start + each.rule.rollup)}
        topic = topic_of(each.rule.publish, {**each.by, "rule": each.rule.name})
        payload = msgspec.json.encode({"rule": each.rule.name, **times, **figures(each)}).decode()
        own = {"rule": each.rule.name, "state": ROLLUP, "since": each.start, "topic": topic, "payload": payload}
        made.append({**_NOTHING, **own, "identity": rollup_identity(each)})
    return pa.concat_tables([rows.filter(pc.invert(is_part)), pa.Table.from_pylist(made, ARROW)])


def gap_rows(since: Sequence[int], until: Sequence[int]) -> pa.Table:
    """That nothing was listened to, for each: a message on `_PIPELINE.gap`."""
    said = [{"since": moment_text(begin), "until": moment_text(end)} for begin, end in zip(since, until, strict=True)]
    made = [{**_NOTHING, "topic": GAP_TOPIC, "payload": msgspec.json.encode(each).decode()} for each in said]
    return pa.Table.from_pylist(made, ARROW)


def _row(alarm: Alarm, templates: dict[str, str]) -> dict[str, Any]:
    said: dict[str, Any] = {"rule": alarm.rule, "producer": alarm.producer, "state": alarm.state}
    said["since"] = moment_text(alarm.since)
    if alarm.until is not None:
        said["until"] = moment_text(alarm.until)
    said |= {"value": alarm.value, "metadata": alarm.metadata}
    if alarm.again:
        said["again"] = alarm.again
    # The topic of a rule that was removed is unknown.
    template = templates.get(alarm.rule, "alarms.{rule}")
    own = {**alarm.metadata, "rule": alarm.rule, "producer": alarm.producer}
    return {
        **_NOTHING,
        "rule": alarm.rule,
        "producer": alarm.producer,
        "state": alarm.state,
        "since": alarm.since,
        "until": alarm.until,
        "value": alarm.value,
        "metadata": msgspec.json.encode(alarm.metadata).decode(),
        "topic": topic_of(template, own),
        "payload": msgspec.json.encode(said).decode(),
        "identity": alarm.identity,
    }


def moment_text(microseconds: int) -> str:
    """`2026-03-01T12:00:00.000000Z`."""
    return (_EPOCH + timedelta(microseconds=microseconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
