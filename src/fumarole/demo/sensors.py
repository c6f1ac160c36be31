"""Simulated sensors on volcanoes: temperatures that drift around a calm value, and now and then an eruption."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from fumarole.core.query.tree import Value

CALM = {
    "volcanoes.usa.atka": 21.0,
    "volcanoes.usa.kahoolawe.north": 27.0,
    "volcanoes.usa.kilauea.summit": 84.0,
    "volcanoes.tanzania.meru": 18.0,
    "volcanoes.tanzania.kilimanjaro.east": -4.0,
    "volcanoes.tanzania.kilimanjaro.west": -6.0,
    "volcanoes.italy.etna.south": 61.0,
    "volcanoes.italy.stromboli": 72.0,
    "volcanoes.iceland.hekla": 9.0,
    "volcanoes.iceland.katla.east": 3.0,
    "volcanoes.japan.sakurajima": 48.0,
    "volcanoes.japan.aso.crater": 55.0,
}
"""Topics, and degrees on an ordinary day."""
PULL, NOISE = 0.02, 0.35
ERUPTION_CHANCE = 0.0004
HEAT = (60.0, 240.0)
COOLING = 0.985
ALARM = 40.0
"""Degrees above the calm value that are more than weather."""


@dataclass(slots=True)
class Sensor:
    """One thermometer. `chance` is the only source of surprise."""

    topic: str
    calm: float
    chance: random.Random
    _drift: float = field(default=0.0, init=False)
    _heat: float = field(default=0.0, init=False)

    def metadata(self) -> dict[str, Value]:
        """What it says of itself."""
        _, region, *station = self.topic.split(".")
        return {"Region": region, "Station": "/".join(station), "Kind": "temperature", "Unit": "°C"}

    def read(self) -> float:
        """The next temperature."""
        self._drift += self.chance.gauss(0, NOISE) - PULL * self._drift
        self._heat *= COOLING
        if self.chance.random() < ERUPTION_CHANCE:
            self._heat += self.chance.uniform(*HEAT)
        return round(self.calm + self._drift + self._heat, 1)


def sensors(chance: random.Random) -> list[Sensor]:
    """One for each topic."""
    return [Sensor(topic, calm, chance) for topic, calm in CALM.items()]


def alarming(topic: str, temperature: float) -> bool:
    """Is it erupting?"""
    return temperature - CALM.get(topic, temperature) > ALARM
