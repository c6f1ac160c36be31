"""Conditions of many producers: thresholds, rates, scores. Only rows that may change something are looked at."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from fumarole.core.alarms import CLEARED, RAISED
from fumarole.core.query.tree import Value
from fumarole.core.rules import LEAST_WINDOW, Rule
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.rules import state as states
from fumarole.pipeline.rules.rows import READING, Integers
from fumarole.pipeline.rules.state import NEVER, State, of
from fumarole.pipeline.rules.truths import Truths
from fumarole.pipeline.rules.waves import Booleans, Event, Wave, firsts

Metadata = Callable[[Wave, int, int], dict[str, Value]]
_AT_ONCE = 32_768
"""Rows whose windows are in memory together."""


class Conditions:
    """Of all rules that are no silence."""

    def __init__(self, truths: Truths) -> None:
        self._rules = [
            (number, rule) for number, rule in enumerate(truths.rules) if rule.silence is None and not rule.rollup
        ]

    def wave(self, state: State, wave: Wave, answers: Booleans, metadata: Metadata) -> Iterator[Event]:
        """What the rows raise and clear."""
        counts = wave.on_time & (wave.rows.kind == READING)
        for number, rule in self._rules:
            asked, where, clear = answers[:, 0, number], answers[:, 1, number], answers[:, 2, number]
            places = np.flatnonzero(counts & asked)
            true = where[places]
            if rule.rate is not None:
                true = true & _rates(rule, state, wave, places)
            if rule.zscore is not None:
                true = true & _scores(rule, state, wave, places)
            if rule.python is not None:
                true = _function_holds(rule, wave, places, true, metadata)
            ends = ~true if rule.clear is None else clear[places]
            yield from _changes(rule, state, wave, places, true, ends)


def _changes(rule: Rule, state: State, wave: Wave, places: Integers, true: Booleans, ends: Booleans) -> Iterator[Event]:
    """Raised and cleared, for the rows at these places, of which some are true, and some end it."""
    status = state[of("status", rule)]
    producer = wave.producer[places]
    now = status[producer]
    may_change = np.where(now == states.IDLE, true, (now == states.PENDING) | ends)
    looked_at = np.zeros(len(status), bool)
    looked_at[producer[may_change]] = True
    jumped = wave.producer[wave.jumps > 0]
    looked_at[jumped] = True
    chosen = np.flatnonzero(looked_at[producer])
    since, again = state[of("since", rule)], state[of("again", rule)]
    epoch: dict[int, int] = {}
    values = zip(
        places[chosen].tolist(), producer[chosen].tolist(), true[chosen].tolist(), ends[chosen].tolist(), strict=True
    )
    for row, number, is_true, is_end in values:
        time, jumps = int(wave.rows.time[row]), int(wave.jumps[row])
        if epoch.get(number, 0) != jumps and status[number] == states.PENDING:
            status[number] = states.IDLE  # its clock went back
        epoch[number] = jumps
        if status[number] == states.RAISED:
            if is_end:
                status[number] = states.IDLE
                yield _event(wave, row, rule, CLEARED, int(since[number]), time, int(again[number]))
        elif not is_true:
            status[number] = states.IDLE
        else:
            if status[number] == states.IDLE:
                status[number], since[number] = states.PENDING, time
            if time - since[number] >= rule.hold:
                begun = int(since[number])
                yield _event(wave, row, rule, RAISED, begun, None, state.begin(rule, number, begun))
    for number, jumps in _last_jumps(wave):
        if epoch.get(number, 0) != jumps and status[number] == states.PENDING:
            status[number] = states.IDLE


def _event(wave: Wave, row: int, rule: Rule, state: str, since: int, until: int | None, again: int) -> Event:
    place, at = int(wave.rows.place[row]), int(wave.rows.at[row])
    return Event(place, at, rule, int(wave.producer[row]), state, since, until, float(wave.rows.value[row]), again, row)


def _last_jumps(wave: Wave) -> Iterator[tuple[int, int]]:
    """Producers whose clock went back, and how often."""
    found: dict[int, int] = {}
    for row in np.flatnonzero(wave.jumps > 0):
        number = int(wave.producer[row])
        found[number] = max(found.get(number, 0), int(wave.jumps[row]))
    yield from found.items()


def _finite(wave: Wave, places: Integers) -> tuple[Booleans, Integers, Booleans]:
    """Which of these rows have a number; their producers; and which of those rows are the first of one."""
    numbers = np.isfinite(wave.rows.value[places])
    producer = wave.producer[places[numbers]]
    first = firsts(producer)
    return numbers, producer, first


def _rates(rule: Rule, state: State, wave: Wave, places: Integers) -> Booleans:
    """Does the change since the reading before go beyond the bound?"""
    assert rule.rate is not None
    found = np.zeros(len(places), bool)
    numbers, producer, first = _finite(wave, places)
    last_time, last_value = state[of("last_time", rule)], state[of("last_value", rule)]
    if len(producer):
        rows = places[numbers]
        time, value, jumps = wave.rows.time[rows], wave.rows.value[rows], wave.jumps[rows]
        before = np.where(first, last_time[producer], np.append([NEVER], time)[:-1])
        value_before = np.where(first, last_value[producer], np.append([0.0], value)[:-1])
        jumps_before = np.where(first, 0, np.append([0], jumps)[:-1])
        known = (before != NEVER) & (time > before) & (jumps == jumps_before)
        elapsed = np.where(known, time - before, 1) / 1e6
        change = (value - value_before) / elapsed
        bound, direction = rule.rate.bound, rule.rate.direction
        beyond = change > bound if direction == ">" else change < bound if direction == "<" else np.abs(change) > bound
        found[numbers] = known & beyond
        last = np.append(np.flatnonzero(first)[1:], len(producer)) - 1
        last_time[producer[last]], last_value[producer[last]] = time[last], value[last]
        done = dict(zip(producer[last].tolist(), jumps[last].tolist(), strict=True))
    else:
        done = {}
    for number, count in _last_jumps(wave):
        if done.get(number, 0) != count:
            last_time[number] = NEVER
    return found


def _scores(rule: Rule, state: State, wave: Wave, places: Integers) -> Booleans:
    """Is the value far from those before it? See `core.alarms`.

    The windows of all producers stand in one row of numbers, each followed by the producer's new values. So the window
    of each value is what stands before it.
    """
    assert rule.zscore is not None
    found = np.zeros(len(places), bool)
    numbers, producer, first = _finite(wave, places)
    if not len(producer):
        return found
    windows, counts = state[of("window", rule)], state[of("count", rule)]
    begins = np.flatnonzero(first)
    lengths = np.diff(np.append(begins, len(producer)))
    owners, width = producer[begins], rule.window
    rank = np.arange(len(producer)) - np.repeat(begins, lengths)
    blocks = np.concatenate([[0], np.cumsum(lengths + width)])
    line = np.empty(blocks[-1])
    at = np.repeat(blocks[:-1], lengths) + rank
    line[at + width] = wave.rows.value[places[numbers]]
    line[blocks[:-1, None] + np.arange(width)] = windows[owners]
    before = sliding_window_view(line, width)
    far = np.zeros(len(producer), bool)
    for begin in range(0, len(producer), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        known = counts[producer[part]] + rank[part]
        far[part] = _are_far(rule.zscore, before[at[part]], np.minimum(known, width), line[at[part] + width])
    found[numbers] = far
    windows[owners] = before[blocks[1:] - width]
    counts[owners] += lengths
    return found


def _are_far(bound: float, window: NDArray[np.float64], count: Integers, value: NDArray[np.float64]) -> Booleans:
    origin = window[:, -1]
    from_origin = np.nan_to_num(window - origin[:, None], nan=0.0)
    total, squares = from_origin.sum(axis=1), np.square(from_origin).sum(axis=1)
    spread = count * squares - total * total
    with np.errstate(invalid="ignore"):
        far = np.square(count * (value - origin) - total) > bound * bound * spread
    found: Booleans = (count >= LEAST_WINDOW) & (spread > 0) & far
    return found


# Functions in Python.


@cache
def function(name: str) -> Callable[[pa.Table], Any]:
    """`module:function`, found as Python finds modules, and in the folder of the process. Raises PipelineError."""
    module, _, own = name.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        found: Callable[[pa.Table], Any] = getattr(import_module(module), own)
    except (ImportError, AttributeError) as error:
        raise PipelineError(f"python = {name!r}: {error}") from None
    return found


def _function_holds(rule: Rule, wave: Wave, places: Integers, where: Booleans, metadata: Metadata) -> Booleans:
    """What the function says of the readings for which `where` is true."""
    assert rule.python is not None
    found = np.zeros(len(places), bool)
    rows = places[where]
    if not len(rows):
        return found
    taken = wave.rows.take(rows)
    said = [msgspec.json.encode(metadata(wave, int(wave.producer[row]), int(row))).decode() for row in rows.tolist()]
    table = pa.table(
        {
            "producer": taken.producer,
            "time": pa.array(taken.time).cast(pa.timestamp("us", tz="UTC")),
            "value": pa.array(taken.value, from_pandas=True),
            "topic": taken.more["topic"],
            "payload": taken.more["payload"],
            "metadata": pa.array(said),
        }
    )
    answer = function(rule.python)(table)
    truths = np.asarray(answer).astype(bool) if not isinstance(answer, pa.Array | pa.ChunkedArray) else None
    if truths is None:
        truths = np.asarray(answer.fill_null(False).to_numpy(zero_copy_only=False), bool)
    if truths.shape != (len(rows),):
        raise PipelineError(f"python = {rule.python!r}: {len(rows)} readings were given, {truths.shape} answers came")
    found[where] = truths
    return found
