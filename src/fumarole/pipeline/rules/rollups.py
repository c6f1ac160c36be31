"""Rollups by rules: each shard sums up its producers' readings, and the shards' parts of a window are put together.

A window goes by the sensors' time. It is closed when its end is GRACE ago, by the stream's clock. A reading that is
heard later is left out, and counted as late. All shards are told the time in the same batch, so they close a window in
the same batch, and one step over that batch puts their parts together.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from fumarole.core.query.tree import Value
from fumarole.core.rules import Rule
from fumarole.pipeline.rules.rows import READING
from fumarole.pipeline.rules.waves import Booleans, Wave

GRACE: Final = 5_000_000
Key = tuple[str, int, str]
"""The rule with its digest, the window's begin, and the values it is grouped by, in JSON."""


@dataclass(frozen=True, slots=True)
class Part:
    """Figures of some readings, which add up."""

    count: int
    numbers: int
    low: float
    high: float
    mean: float
    spread: float
    """The sum of squared distances from the mean."""

    def __add__(self, other: Part) -> Part:
        if not self.numbers or not other.numbers:
            known = self if self.numbers else other
            return replace(known, count=self.count + other.count)
        numbers = self.numbers + other.numbers
        apart = other.mean - self.mean
        return Part(
            self.count + other.count,
            numbers,
            min(self.low, other.low),
            max(self.high, other.high),
            self.mean + apart * other.numbers / numbers,
            self.spread + other.spread + apart * apart * self.numbers * other.numbers / numbers,
        )


class Closed(NamedTuple):
    """A window, or one shard's part of it."""

    rule: Rule
    start: int
    by: dict[str, Value | None]
    part: Part


class Rollups:
    """The windows of one shard that are open."""

    def __init__(self, rules: Iterable[tuple[int, Rule]], data: bytes | None = None) -> None:
        """Of these rules, each with its place among all. `data` is what `as_bytes` gave."""
        self._rules = [(number, rule, f"{rule.name}:{rule.digest}") for number, rule in rules]
        names = {name for _, _, name in self._rules}
        kept = [] if data is None else msgspec.json.decode(data)
        self._open: dict[Key, Part] = {
            (name, start, by): Part(*figures) for name, start, by, figures in kept if name in names
        }

    def as_bytes(self) -> bytes:
        return msgspec.json.encode([(*key, astuple(part)) for key, part in self._open.items()])

    def wave(self, wave: Wave, answers: Booleans, metadata: Any) -> int:
        """Adds the readings; how many came too late."""
        late = 0
        for number, rule, name in self._rules:
            assert rule.rollup is not None
            chosen = np.flatnonzero((wave.rows.kind == READING) & answers[:, 0, number] & answers[:, 1, number])
            start = wave.rows.time[chosen] // rule.rollup * rule.rollup
            in_time = wave.rows.at[chosen] < start + rule.rollup + GRACE
            late += int((~in_time).sum())
            rows = chosen[in_time]
            if len(rows):
                self._add(name, _frame(rule, wave, rows, start[in_time], metadata))
        return late

    def _add(self, name: str, frame: pd.DataFrame) -> None:
        groups = frame.groupby(["start", "by"], sort=False)
        counts, found = groups.size(), groups["value"].agg(["count", "min", "max", "mean"])
        apart = (frame["value"] - groups["value"].transform("mean")) ** 2
        spread = apart.groupby([frame["start"], frame["by"]], sort=False).sum()
        for key, figures in zip(found.index, found.itertuples(index=False), strict=True):
            low, high, mean = map(float, figures[1:])
            part = Part(int(counts[key]), int(figures[0]), low, high, mean, float(spread[key]))
            if not part.numbers:
                part = Part(part.count, 0, 0.0, 0.0, 0.0, 0.0)
            place = (name, int(key[0]), str(key[1]))
            self._open[place] = self._open[place] + part if place in self._open else part

    def close(self, now: int) -> Iterator[Closed]:
        """Windows whose end is long enough ago."""
        rules = {name: rule for _, rule, name in self._rules}
        for name, start, by in list(self._open):
            rule = rules[name]
            assert rule.rollup is not None
            if start + rule.rollup + GRACE <= now:
                yield Closed(rule, start, json.loads(by), self._open.pop((name, start, by)))


def _frame(rule: Rule, wave: Wave, rows: Any, start: Any, metadata: Any) -> pd.DataFrame:
    """Value, window and group of each row. Of most producers metadata is looked up once."""
    known: dict[int, str] = {}
    groups = []
    topics = wave.rows.more["topic"].take(rows).to_pylist() if _of_topic(rule) else None
    for place, row in enumerate(rows.tolist()):
        number = int(wave.producer[row])
        group = known.get(number)
        if group is None:
            own = metadata(wave, number, row)
            producer = wave.rows.producer[row].as_py() if "producer" in rule.by else None
            topic = None if topics is None else topics[place]
            group = json.dumps({name: _named(name, own, producer, topic) for name in rule.by})
            if number not in wave.before and topics is None:
                known[number] = group
        groups.append(group)
    value = wave.rows.value[rows]
    return pd.DataFrame({"start": start, "by": groups, "value": np.where(np.isfinite(value), value, np.nan)})


def _of_topic(rule: Rule) -> bool:
    return any(name == "topic" or name.startswith("topic[") for name in rule.by)


def needs_topic(rules: Iterable[Rule]) -> bool:
    """Is any of these grouped by the topic, or words of it?"""
    return any(map(_of_topic, rules))


def _named(name: str, metadata: Mapping[str, Value], producer: str | None, topic: str | None) -> Value | None:
    if name == "producer":
        return producer
    if topic is not None and name == "topic":
        return topic
    if topic is not None and name.startswith("topic[") and name[6:-1].isdecimal():
        words = topic.split(".")
        place = int(name[6:-1]) - 1
        return words[place] if 0 <= place < len(words) else None
    return metadata.get(name)


def merged(closed: Iterable[Closed]) -> list[Closed]:
    """Windows of several shards put together."""
    found: dict[tuple[str, int, str], Closed] = {}
    for each in closed:
        key = (each.rule.name, each.start, json.dumps(each.by, sort_keys=True))
        found[key] = each._replace(part=found[key].part + each.part) if key in found else each
    return list(found.values())


def figures(closed: Closed) -> dict[str, Any]:
    """What is published of a window."""
    part = closed.part
    some = part.numbers > 0
    return {
        **closed.by,
        "count": part.count,
        "numbers": part.numbers,
        "min": part.low if some else None,
        "max": part.high if some else None,
        "mean": part.mean if some else None,
        "stddev": math.sqrt(part.spread / (part.numbers - 1)) if part.numbers > 1 else None,
    }


def identity(closed: Closed) -> str:
    """By which a repeat is told: the header `Fumarole-Rollup`."""
    said = json.dumps([closed.rule.name, closed.start, closed.by], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:32]
