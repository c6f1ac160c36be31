"""Rollups by rules, whatever the shards and batches are, are those of a few lines of Python."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.alarms import Event, Forgotten, Reading, Said, Tick
from fumarole.core.rules import Rules, parse
from fumarole.pipeline.rules.messages import part_rows, whole_windows
from fumarole.pipeline.rules.rollups import GRACE, Closed, figures, merged
from fumarole.pipeline.rules.shard import Shard
from tests.pipeline.rules.histories import BEGIN, SECOND, histories, rows_of

RULES = parse(
    [
        {"name": "all", "rollup": "10 s", "by": ["Kind"], "publish": "rollups.{Kind}"},
        {"name": "some", "rollup": "4 s", "by": ["producer", "topic[2]"], "where": "Level = 1", "publish": "rollups"},
    ]
)
Window = tuple[str, int, tuple[Any, ...]]


def by_hand(events: list[Event]) -> dict[Window, dict[str, Any]]:
    metadata: dict[str, dict[str, Any]] = defaultdict(dict)
    values: dict[Window, list[float | None]] = defaultdict(list)
    for event in events:
        if isinstance(event, Said | Reading):
            known = {} if isinstance(event, Said) and event.anew else metadata[event.producer]
            metadata[event.producer] = {**known, **event.news}
        if isinstance(event, Forgotten):
            metadata.pop(event.producer, None)
        if not isinstance(event, Reading):
            continue
        own = metadata[event.producer]
        word = event.topic.split(".")[1] if "." in event.topic else None
        for name, length, by, wanted in (
            ("all", 10 * SECOND, (own.get("Kind"),), True),
            ("some", 4 * SECOND, (event.producer, word), own.get("Level") == 1),
        ):
            start = event.time // length * length
            if wanted and event.at < start + length + GRACE:
                values[name, start, by].append(event.value)
    return {key: of_values(each) for key, each in values.items()}


def of_values(every: list[float | None]) -> dict[str, Any]:
    numbers = [value for value in every if value is not None]
    return {
        "count": len(every),
        "numbers": len(numbers),
        "min": min(numbers, default=None),
        "max": max(numbers, default=None),
        "mean": statistics.fmean(numbers) if numbers else None,
        "stddev": statistics.stdev(numbers) if len(numbers) > 1 else None,
    }


@given(histories(), st.lists(st.integers(1, 12), max_size=4))
def test_rollups(events: list[Event], lengths: list[int]) -> None:
    heard: list[Event] = [event for event in events if isinstance(event, Reading | Said | Forgotten)]
    heard.append(Tick(BEGIN + 100_000 * SECOND))
    halves: list[list[Event]] = [[], []]
    for event in heard:
        for number, half in enumerate(halves):
            if not isinstance(event, Reading | Said | Forgotten) or (event.producer < "b") is bool(number):
                half.append(event)
    closed = merged([each for half in halves for each in closed_of(RULES, half, lengths)])
    found = {(each.rule.name, each.start, tuple(each.by.values())): each for each in closed}
    expected = by_hand(heard)
    assert found.keys() == expected.keys()
    for key, window in found.items():
        said = figures(window)
        for name, value in expected[key].items():
            assert said[name] == value or math.isclose(said[name], value, abs_tol=1e-9), (key, name)


def closed_of(rules: Rules, events: list[Event], lengths: list[int]) -> list[Closed]:
    found: list[Closed] = []
    data, begin = None, 0
    for length in [*lengths, len(events)]:
        shard = Shard(rules, data=data)
        shard.take(rows_of(rules, events[begin : begin + length], begin))
        found += shard.closed
        data, begin = shard.as_bytes(), begin + length
    return found


def test_what_is_published() -> None:
    reading = Reading("p", BEGIN, BEGIN, "a", b"3", 3.0, {"Kind": "gas"})
    other = Reading("q", BEGIN + SECOND, BEGIN, "a", b"5", 5.0, {"Kind": "gas"})
    end = Tick(BEGIN + 60 * SECOND)
    parts = [each for event in (reading, other) for each in closed_of(RULES, [event, end], [])]
    whole = whole_windows(part_rows(parts), RULES.rollups).to_pylist()
    assert [(row["topic"], row["state"]) for row in whole] == [("rollups.gas", "rollup")]
    assert whole[0]["payload"] == (
        '{"rule":"all","start":"2026-01-01T00:00:00.000000Z","end":"2026-01-01T00:00:10.000000Z","Kind":"gas",'
        '"count":2,"numbers":2,"min":3.0,"max":5.0,"mean":4.0,"stddev":1.4142135623730951}'
    )
