"""Simulated stations on volcanoes that say what they are: instruments that drift, fail, and are mended.

Each instrument is a producer. What it says of itself changes now and then: it fails and is silent for a while, comes
back after repair, and is calibrated when it has drifted too far. How far it has drifted it says in whole steps, as
`Deviation`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from fumarole.core.query.tree import Value
from fumarole.demo.sensors import CALM, Sensor

KINDS = {"temperature": ("°C", 1.0, 0.0), "gas": ("ppm", 4.0, 300.0), "tilt": ("µrad", 0.4, 5.0)}
"""What is measured: its unit, and how it follows from the heat."""
PACE = {"temperature": 4, "gas": 2, "tilt": 1}
"""How often each is read, beside the others."""
FAILURE_CHANCE = 0.012
"""In each second."""
SILENCE = (4.0, 14.0)
DRIFT = 0.03
TOLERANCE = 4.0


@dataclass(slots=True)
class Instrument:
    """One producer. Time comes in as seconds, and `chance` is the only source of surprise."""

    sensor: Sensor
    kind: str
    chance: random.Random
    drifts: bool
    silent_until: float = 0.0
    _drift: float = field(default=0.0, init=False)
    _calibrations: int = field(default=0, init=False)
    _failed: bool = field(default=False, init=False)

    @property
    def topic(self) -> str:
        return f"{self.sensor.topic}.{self.kind}"

    def metadata(self) -> dict[str, Value]:
        """What it says of itself at first."""
        here: dict[str, Value] = {
            "Kind": self.kind,
            "Unit": KINDS[self.kind][0],
            "Status": "ok",
            "Calibrations": 0,
            "Deviation": 0,
            "Outdoors": True,
        }
        return self.sensor.metadata() | here

    def read(self, now: float, since: float) -> tuple[float | None, dict[str, Value | None]]:
        """The next value, None while it is silent, and what is new about it; `since` seconds after the one before."""
        if now < self.silent_until:
            return None, {}
        news: dict[str, Value | None] = {}
        if self._failed:
            self._failed, news = False, {"Status": "repaired"}
        elif self.chance.random() < FAILURE_CHANCE * since:
            self._failed, self.silent_until = True, now + self.chance.uniform(*SILENCE)
            news = {"Status": "failing"}
        if self.drifts:
            before = int(self._drift)
            self._drift += DRIFT * self.chance.uniform(0, 2) * since * 10
            if abs(self._drift) > TOLERANCE:
                self._drift, self._calibrations = 0.0, self._calibrations + 1
                news["Calibrations"] = self._calibrations
            if int(self._drift) != before:
                news["Deviation"] = int(self._drift)
        _, factor, offset = KINDS[self.kind]
        return round(offset + factor * self.sensor.read() + self._drift, 2), news


def instruments(chance: random.Random) -> list[Instrument]:
    """Three for each volcano; every fifth drifts."""
    found = [
        Instrument(Sensor(topic, calm, chance), kind, chance, drifts=False)
        for topic, calm in CALM.items()
        for kind in KINDS
    ]
    for instrument in found[::5]:
        instrument.drifts = True
    return found


def turns(every: list[Instrument], chance: random.Random) -> list[int]:
    """Whose turn it is, one after the other and then again: as often as its pace says, at some stations more often."""
    numbers = [
        number
        for number, instrument in enumerate(every)
        for _ in range(PACE[instrument.kind] * (1 + len(instrument.sensor.topic) % 3))
    ]
    chance.shuffle(numbers)
    return numbers
