"""Silences of many producers: for most of them nothing happens, which a few arrays tell."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from fumarole.core.alarms import CLEARED, RAISED
from fumarole.core.rules import HABIT_PAUSES, LEAST_PAUSES, LEAST_SILENCE, Rule
from fumarole.pipeline.rules import state as states
from fumarole.pipeline.rules.rows import READING, Integers
from fumarole.pipeline.rules.state import NEVER, State, of
from fumarole.pipeline.rules.truths import Truths
from fumarole.pipeline.rules.waves import Booleans, Event, Wave, firsts

_ENDLESS: Final = 2**62
_AT_ONCE: Final = 32_768
"""Rows whose pauses are in memory together."""


class Silences:
    """Of all rules that ask for one."""

    def __init__(self, truths: Truths) -> None:
        self._truths = truths
        self._rules = [(number, rule) for number, rule in enumerate(truths.rules) if rule.silence is not None]
        lengths = [rule.silence.length for _, rule in self._rules if rule.silence is not None]
        self._least = min([LEAST_SILENCE if each is None else each for each in lengths], default=_ENDLESS)
        self._has_habits = any(each is None for each in lengths)

    def at(self, state: State, now: int) -> Iterator[Event]:
        """Those that are too long by now."""
        numbers = np.arange(len(state.names))
        yield from self.of(state, numbers, np.full(len(numbers), now))

    def of(self, state: State, numbers: Integers, now: Integers) -> Iterator[Event]:
        """The same of some producers, each by a time of its own."""
        heard = state["heard"][numbers]
        pause = now - np.maximum(heard, state.listening)
        places = np.flatnonzero((heard != NEVER) & (pause > self._least))
        if not self._rules or not len(places):
            return
        numbers, pause, now = numbers[places], pause[places], now[places]
        habit = state["habit"][numbers] if self._has_habits else np.empty(0)
        forms = state["form"][numbers][:, : self._truths.metadata_words]
        where = self._truths.answers(forms, np.zeros((len(numbers), self._truths.message_words), np.int64))[:, 1]
        for place, rule in self._rules:
            is_idle = state[of("status", rule)][numbers] == states.IDLE
            for each in np.flatnonzero(where[:, place] & is_idle & (pause > _lengths(rule, habit, len(numbers)))):
                yield _raised(0, int(now[each]), rule, int(numbers[each]), state)

    def wave(self, state: State, wave: Wave, answers: Booleans) -> Iterator[Event]:
        """What the rows raise and clear."""
        readings = np.flatnonzero(wave.rows.kind == READING)
        if not len(wave.rows):
            return
        changing = self._changing(state, wave, readings, answers) if self._rules else np.zeros(len(readings), bool)
        self._hear(state, wave, readings[~changing])
        begins = wave.begin()
        ends = np.append(begins[1:], len(wave.rows))
        one_by_one = {int(number) for number in wave.producer[readings[changing]]}
        if self._rules:
            one_by_one |= {number for number in wave.before if state["heard"][number] != NEVER}
        chosen = np.isin(wave.producer[begins], list(one_by_one))
        for begin, end in zip(begins[chosen].tolist(), ends[chosen].tolist(), strict=True):
            yield from self._one_by_one(state, wave, answers, begin, end)

    def _changing(self, state: State, wave: Wave, readings: Integers, answers: Booleans) -> Booleans:
        """Readings of producers for which something may change."""
        producer, at = wave.producer[readings], wave.rows.at[readings]
        if not len(readings):
            return np.zeros(0, bool)
        first = firsts(producer)
        heard = np.where(first, state["heard"][producer], np.append([NEVER], at)[:-1])
        suspect = at < heard
        silence = np.where(heard == NEVER, 0, at - np.maximum(heard, state.listening))
        long = np.flatnonzero(silence > self._least)
        if len(long):
            habit = _habits_before(state, producer, at, heard, long) if self._has_habits else np.empty(0)
            for place, rule in self._rules:
                suspect[long] |= answers[readings[long], 1, place] & (silence[long] > _lengths(rule, habit, len(long)))
        changing = np.zeros(len(state.names), bool)
        changing[producer[suspect]] = True
        for _, rule in self._rules:
            changing |= state[of("status", rule)] == states.RAISED
        changing[list(wave.before)] = True
        found: Booleans = changing[producer]
        return found

    def _hear(self, state: State, wave: Wave, readings: Integers) -> None:
        """Readings that change nothing else. Where there are no silences, their order may be any."""
        if not len(readings):
            return
        producer, at = wave.producer[readings], wave.rows.at[readings]
        first = firsts(producer)
        begins = np.flatnonzero(first)
        last = np.append(begins[1:], len(readings)) - 1
        numbers = producer[begins]
        if self._has_habits:
            heard = np.where(first, state["heard"][producer], np.append([NEVER], at)[:-1])
            pauses = (heard != NEVER) & (heard >= state.listening) & (at > heard)
            _keep_pauses(state, producer[pauses], (at - heard)[pauses])
        state["heard"][numbers] = np.maximum(state["heard"][numbers], np.maximum.reduceat(at, begins))
        state["value"][numbers] = wave.rows.value[readings[last]]

    def _one_by_one(self, state: State, wave: Wave, answers: Booleans, begin: int, end: int) -> Iterator[Event]:
        """As the definition says it. Numbers of Python: calls of numpy for one row would take ten times as long."""
        number = int(wave.producer[begin])
        where = self._where_before(wave, answers, number, begin)
        pauses = _Pauses(state, number) if self._has_habits else None
        for row in range(begin, end):
            place, at = int(wave.rows.place[row]), int(wave.rows.at[row])
            yield from self._check(state, number, where, place, at, row - 1, pauses)
            where = answers[row, 1]
            if wave.rows.kind[row] == READING:
                value = float(wave.rows.value[row])
                yield from self._clear(state, number, None, place, at, value, row)
                heard = int(state["heard"][number])
                if pauses is not None and heard != NEVER and heard >= state.listening and at > heard:
                    pauses.keep(at - heard)
                state["heard"][number], state["value"][number] = max(heard, at), value
            else:
                yield from self._clear(state, number, where, place, at, float(state["value"][number]), row)
                yield from self._check(state, number, where, place, at, row, pauses)
        if pauses is not None:
            pauses.write()

    def _where_before(self, wave: Wave, answers: Booleans, number: int, begin: int) -> Booleans:
        if number not in wave.before:
            own: Booleans = answers[begin, 1]
            return own
        form = np.array([self._truths.form(msgspec.json.decode(wave.before[number]))], np.int64)
        nothing = np.zeros((1, self._truths.message_words), np.int64)
        found: Booleans = self._truths.answers(form.reshape(1, -1), nothing)[0, 1]
        return found

    def _check(
        self, state: State, number: int, where: Booleans, place: int, now: int, row: int, pauses: _Pauses | None
    ) -> Iterator[Event]:
        heard = int(state["heard"][number])
        pause = now - max(heard, state.listening)
        if heard == NEVER or pause <= self._least:
            return
        habit = np.array([math.nan if pauses is None else pauses.habit()])
        for each, rule in self._rules:
            status = state[of("status", rule)]
            if status[number] != states.IDLE or not where[each]:
                continue
            if pause > _lengths(rule, habit, 1)[0]:
                yield _raised(place, now, rule, number, state, row)

    def _clear(
        self, state: State, number: int, where: Booleans | None, place: int, at: int, value: float, row: int
    ) -> Iterator[Event]:
        """Ends those for which `where` does not hold; None: all."""
        for each, rule in self._rules:
            status = state[of("status", rule)]
            if status[number] == states.RAISED and (where is None or not where[each]):
                status[number] = states.IDLE
                since = int(state[of("since", rule)][number])
                again = int(state[of("again", rule)][number])
                yield Event(place, at, rule, number, CLEARED, since, at, value, again, row)


class _Pauses:
    """Those of one producer, while its rows are looked at one by one."""

    def __init__(self, state: State, number: int) -> None:
        self._state, self._number = state, number
        self._last: list[int] = state["pauses"][number].tolist()
        self._count = int(state["paused"][number])

    def keep(self, pause: int) -> None:
        self._last[self._count % HABIT_PAUSES] = pause
        self._count += 1

    def habit(self) -> float:
        """As `state.habits` has it."""
        held = min(self._count, HABIT_PAUSES)
        if held < LEAST_PAUSES:
            return math.nan
        in_order = sorted(self._last[:held])
        return (in_order[(held - 1) // 2] + in_order[held // 2]) / 2

    def write(self) -> None:
        self._state["pauses"][self._number], self._state["paused"][self._number] = self._last, self._count
        self._state["habit"][self._number] = self.habit()


def _lengths(rule: Rule, habit: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """How long it may be silent, for so many producers, or one of these habits."""
    assert rule.silence is not None
    if rule.silence.factor is None:
        return np.full(count, rule.silence.length, np.float64)
    return np.where(np.isnan(habit), _ENDLESS, np.maximum(LEAST_SILENCE, rule.silence.factor * habit))


def _habits_before(
    state: State, producer: Integers, at: Integers, heard: Integers, chosen: Integers
) -> NDArray[np.float64]:
    """The habit of the producer before each of the chosen rows. Rows of a producer stand together, in order.

    The pauses that are known of each producer stand in one row of numbers, oldest first, each followed by the pauses of
    this wave. So the pauses that count for a row are the last ones before its own.
    """
    of_chosen = np.zeros(len(state.names), bool)
    of_chosen[producer[chosen]] = True
    rows = np.flatnonzero(of_chosen[producer])
    numbers, pause = producer[rows], at[rows] - heard[rows]
    counts = (heard[rows] != NEVER) & (heard[rows] >= state.listening) & (pause > 0)
    begins = np.flatnonzero(firsts(numbers))
    lengths = np.diff(np.append(begins, len(rows)))
    owner = np.repeat(np.arange(len(begins)), lengths)
    before = np.cumsum(counts) - counts
    rank = before - before[begins][owner]
    blocks = np.append([0], np.cumsum(np.add.reduceat(counts.astype(np.int64), begins) + HABIT_PAUSES))
    line = np.empty(blocks[-1], np.int64)
    held, places = state["paused"][numbers[begins]], np.arange(HABIT_PAUSES)
    oldest_first = (held[:, None] + places) % HABIT_PAUSES
    line[blocks[:-1, None] + places] = state["pauses"][numbers[begins][:, None], oldest_first]
    at_line = blocks[owner] + rank
    line[at_line[counts] + HABIT_PAUSES] = pause[counts]
    windows = sliding_window_view(line, HABIT_PAUSES)
    found = np.empty(len(chosen))
    wanted = np.searchsorted(rows, chosen)
    for begin in range(0, len(chosen), _AT_ONCE):
        part = wanted[begin : begin + _AT_ONCE]
        newest_first = windows[at_line[part]][:, ::-1]
        found[begin : begin + _AT_ONCE] = states.habits(newest_first, held[owner[part]] + rank[part])
    return found


def _raised(place: int, now: int, rule: Rule, number: int, state: State, row: int | None = None) -> Event:
    since, value = int(state["heard"][number]), float(state["value"][number])
    again = state.begin(rule, number, since)
    return Event(place, now, rule, number, RAISED, since, None, value, again, row)


def _keep_pauses(state: State, numbers: Integers, pauses: Integers) -> None:
    """The last ones of each producer, round and round. Those of one producer stand together, in order."""
    if not len(numbers):
        return
    first = firsts(numbers)
    begins = np.flatnonzero(first)
    counts = np.diff(np.append(begins, len(numbers)))
    rank = np.arange(len(numbers)) - np.repeat(begins, counts)
    last = rank >= np.repeat(counts, counts) - HABIT_PAUSES
    places = (state["paused"][numbers] + rank) % HABIT_PAUSES
    state["pauses"][numbers[last], places[last]] = pauses[last]
    changed = numbers[begins]
    state["paused"][changed] += counts
    state["habit"][changed] = states.habits(state["pauses"][changed], state["paused"][changed])
