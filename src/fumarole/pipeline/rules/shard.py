"""The rules for one shard of the producers: rows in the order in which they were heard go in, alarms come out.

It gives what `core.alarms` defines, whatever the batches are in which the rows come, and looks one by one only at rows
that may change something. Of all others it is known from a few arrays that they do not:

    conditions  a rule that is idle for a producer stays so without a row that is true; one that is raised stays so
                without a row that ends it
    silences    nothing happens to a producer that is not silent and makes no pause longer than the shortest silence

Rows are dealt with in waves. In a wave a producer is forgotten at its end or not at all, and gaps lie between waves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from fumarole.core.alarms import CLEARED, RAISED, Alarm
from fumarole.core.query.tree import Value
from fumarole.core.rules import LATENESS, Rules
from fumarole.pipeline.rules import state as states
from fumarole.pipeline.rules.conditions import Conditions
from fumarole.pipeline.rules.rollups import Closed, Rollups
from fumarole.pipeline.rules.rows import COMPLETE, FORGOTTEN, GAP, READING, TICK, Integers, Rows, merged
from fumarole.pipeline.rules.silences import Silences
from fumarole.pipeline.rules.state import NEVER, State, of
from fumarole.pipeline.rules.truths import Truths
from fumarole.pipeline.rules.waves import Event, Wave, firsts

_ENCODER: Final = msgspec.json.Encoder()


class Counts(NamedTuple):
    """What a shard has to say of itself."""

    now: int | None
    """Up to when it knows all; None: not known yet."""
    producers: int
    late: int
    muted: int
    open: list[int]
    """Of each rule."""


class Shard:
    """`take` rows; between them the state may go through `as_bytes`."""

    def __init__(self, rules: Rules, shards: int = 1, data: bytes | None = None) -> None:
        self._truths = Truths(rules.declared)
        self._alarms = rules.alarms
        self._shards = shards
        wanted = states.kinds(self._truths)
        self.state = State(wanted) if data is None else State.from_bytes(data, wanted)
        self._conditions = Conditions(self._truths)
        self._silences = Silences(self._truths)
        rollups = [(number, rule) for number, rule in enumerate(rules.declared) if rule.rollup is not None]
        self._rollups = Rollups(rollups, self.state.rollups)
        self.closed: list[Closed] = []
        """Windows of rollups that were closed: this shard's part of each."""
        self._late = self._muted = 0
        tests = repr(self._truths.of_metadata)
        if self.state.tests != tests:
            self.state.tests = tests
            for number, metadata in enumerate(self.state.metadata):
                self._form(number, msgspec.json.decode(metadata))

    @property
    def words(self) -> int:
        """How many whole numbers a row's tests are."""
        return self._truths.message_words

    def as_bytes(self) -> bytes:
        self.state.rollups = self._rollups.as_bytes()
        return self.state.as_bytes()

    def take(self, rows: Rows) -> list[Alarm]:
        """What they raise and clear, in order."""
        found = [self._ended(each) for each in self.state.ended]
        self.state.ended.clear()
        rows = rows.take(np.argsort(rows.place, kind="stable"))
        if len(rows):
            rows.numbers(self.state)
        for part in _between_barriers(rows):
            found += self._part(part)
        return found

    def expire(self, now: int) -> list[Alarm]:
        """Silences that are too long by now, and windows that are over, where no row says so."""
        self.state.now = max(self.state.now, now)
        self.closed += self._rollups.close(self.state.now)
        return list(self._let_through(self._silences.at(self.state, self.state.now)))

    def counts(self) -> Counts:
        """Since it was made."""
        opened = [
            int(((self.state[of("status", rule)] == states.RAISED) & ~self.state[of("muted", rule)]).sum())
            for rule in self._alarms
        ]
        now = None if self.state.now == NEVER else self.state.now
        return Counts(now, len(self.state.names), self._late, self._muted, opened)

    def _ended(self, each: states.Ended) -> Alarm:
        number = self.state.index.get(each.producer)
        metadata = {} if number is None else msgspec.json.decode(self.state.metadata[number])
        until = max(each.since, self.state.now)
        return Alarm(each.rule, each.producer, CLEARED, each.since, until, None, metadata, each.again)

    def _part(self, rows: Rows) -> Iterator[Alarm]:
        """Rows of which only the last may be a barrier."""
        own = rows.take(np.flatnonzero(rows.kind <= FORGOTTEN))
        for wave in _waves(own):
            yield from self._wave(own.take(wave))
        ticks = rows.at[rows.kind == TICK]
        if len(ticks):
            yield from self.expire(int(ticks.max()))
        last = len(rows) - 1
        if last >= 0 and rows.kind[last] == GAP:
            yield from self._let_through(self._silences.at(self.state, int(rows.time[last])))
            self.state.listening = max(self.state.listening, int(rows.at[last]))
        elif last >= 0 and rows.kind[last] == COMPLETE:
            gone = np.flatnonzero(self.state["mentioned"] < rows.time[last])
            yield from self._let_through(self._leaving(gone, np.full(len(gone), rows.at[last])))
            self.state.forget(gone.tolist())

    def _wave(self, rows: Rows) -> Iterator[Alarm]:
        producer = rows.numbers(self.state)
        order = np.lexsort((rows.place, producer))
        rows, producer = rows.take(order), producer[order]
        leaving = rows.kind == FORGOTTEN
        gone, gone_at = producer[leaving], rows.at[leaving]
        wave = self._described(rows.take(np.flatnonzero(~leaving)), producer[~leaving])
        answers = self._truths.answers(wave.form[:, : self._truths.metadata_words], wave.rows.tests)
        events = [*self._silences.wave(self.state, wave, answers)]
        events += self._conditions.wave(self.state, wave, answers, self._metadata)
        self._late += self._rollups.wave(wave, answers, self._metadata)
        yield from self._let_through(sorted(events, key=lambda event: event.place), wave)
        if len(gone):
            silent = list(self._silences.of(self.state, gone, gone_at))
            yield from self._let_through([*silent, *self._leaving(gone, gone_at)])
            self.state.forget(gone.tolist())

    def _described(self, rows: Rows, producer: Integers) -> Wave:
        """With the metadata that holds, and whether each is late."""
        first = firsts(producer)
        form = self.state["form"][producer]
        wave = Wave(rows, producer, first, form, {}, {}, np.ones(len(rows), bool), np.zeros(len(rows), np.int64))
        begins = wave.begin()
        ends = np.append(begins, len(rows))[1:]
        places = np.flatnonzero(rows.news.is_valid().to_numpy(zero_copy_only=False))
        texts = rows.news.take(pa.array(places)).to_pylist()
        known: dict[tuple[bytes, str], bytes] = {}
        for row, news in zip(places.tolist(), texts, strict=True):
            number = int(producer[row])
            held = self.state.metadata[number]
            if (encoded := known.get((held, news))) is None:
                encoded = known[held, news] = _ENCODER.encode(merged(held, news))
            if encoded == held and rows.kind[row] == READING:
                continue  # it says again what holds
            wave.before.setdefault(number, held)
            metadata = msgspec.json.decode(encoded)
            self.state.metadata[number] = wave.said[row] = encoded
            end = ends[np.searchsorted(begins, row, side="right") - 1]
            form[row:end] = self._form(number, metadata)
        self.state["mentioned"][producer[begins]] = rows.at[ends - 1]
        self._be_on_time(wave)
        return wave

    def _form(self, number: int, metadata: dict[str, Value]) -> Integers:
        form = np.zeros(self.state["form"].shape[1], np.int64)
        words = self._truths.form(metadata)
        form[: len(words)] = words
        self.state["form"][number] = form
        return form

    def _be_on_time(self, wave: Wave) -> None:
        """Which readings are late, and whose clock went back."""
        readings = np.flatnonzero(wave.rows.kind == READING)
        producer, time, at = wave.producer[readings], wave.rows.time[readings], wave.rows.at[readings]
        newest, newest_at = self.state["newest"], self.state["newest_at"]
        first = firsts(producer)
        before = np.where(first, newest[producer], np.append([NEVER], time)[:-1])
        backward = np.unique(producer[time < before])
        known = {number: (int(newest[number]), int(newest_at[number])) for number in backward.tolist()}
        begins = np.flatnonzero(first)
        ends = np.append(begins, len(readings))[1:]
        newest[producer[begins]], newest_at[producer[begins]] = time[ends - 1], at[ends - 1]
        for begin, end in np.column_stack([begins, ends])[np.isin(producer[begins], backward)].tolist():
            number, jumps = int(producer[begin]), 0
            latest, latest_at = known[number]
            for each in range(begin, end):
                row = readings[each]
                if time[each] < latest and at[each] - latest_at <= LATENESS:
                    wave.on_time[row] = False
                else:
                    jumps += time[each] < latest
                    latest, latest_at = int(time[each]), int(at[each])
                wave.jumps[row] = jumps
            newest[number], newest_at[number] = latest, latest_at
        self._late += int((~wave.on_time).sum())

    def _metadata(self, wave: Wave, number: int, row: int) -> dict[str, Value]:
        """That of a producer as of this row."""
        found = wave.before.get(number, self.state.metadata[number])
        if number in wave.before:
            while row >= 0 and wave.producer[row] == number:
                if row in wave.said:
                    found = wave.said[row]
                    break
                row -= 1
        metadata: dict[str, Value] = msgspec.json.decode(found)
        return metadata

    def _leaving(self, numbers: Integers, at: Integers) -> Iterator[Event]:
        """The end of all alarms of producers that are forgotten."""
        for number, until in zip(numbers.tolist(), at.tolist(), strict=True):
            for rule in self._alarms:
                if self.state[of("status", rule)][number] == states.RAISED:
                    since, value = int(self.state[of("since", rule)][number]), float(self.state["value"][number])
                    again = int(self.state[of("again", rule)][number])
                    yield Event(0, until, rule, number, CLEARED, since, until, value, again)

    def _let_through(self, events: Iterable[Event], wave: Wave | None = None) -> Iterator[Alarm]:
        """As alarms, but for those of a rule that raises too many in a second."""
        for event in events:
            muted = self.state[of("muted", event.rule)]
            if event.state == RAISED and self._is_too_many(event):
                muted[event.producer] = True
            if muted[event.producer]:
                self._muted += event.state == RAISED
                muted[event.producer] = event.state == RAISED
                continue
            if wave is None or event.row is None:
                metadata = msgspec.json.decode(self.state.metadata[event.producer])
            else:
                metadata = self._metadata(wave, event.producer, event.row)
            value = float(event.value) if np.isfinite(event.value) else None
            name = self.state.names[event.producer]
            yield Alarm(event.rule.name, name, event.state, event.since, event.until, value, metadata, event.again)

    def _is_too_many(self, event: Event) -> bool:
        second, count = event.at // 1_000_000, 0
        if (known := self.state.second.get(event.rule.name)) is not None and known[0] == second:
            count = known[1]
        self.state.second[event.rule.name] = [second, count + 1]
        return count >= -(-event.rule.limit // self._shards)


def _between_barriers(rows: Rows) -> Iterator[Rows]:
    barriers = np.flatnonzero((rows.kind == GAP) | (rows.kind == COMPLETE))
    begin = 0
    for barrier in [*barriers.tolist(), len(rows) - 1]:
        if begin <= barrier:
            yield rows.take(np.arange(begin, barrier + 1))
        begin = barrier + 1


def _waves(rows: Rows) -> Iterator[Integers]:
    """Which rows come together: those of a producer up to where it is forgotten, in the first wave, and so on."""
    leaving = np.flatnonzero(rows.kind == FORGOTTEN)
    if not len(leaving):
        yield np.arange(len(rows))
        return
    names = rows.producer.to_pylist()
    count: defaultdict[str, int] = defaultdict(int)
    wave = np.zeros(len(rows), np.int64)
    for row, name in enumerate(names):
        wave[row] = count[name]
        count[name] += rows.kind[row] == FORGOTTEN
    for number in range(int(wave.max()) + 1):
        yield np.flatnonzero(wave == number)
