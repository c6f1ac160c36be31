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
PLACES = {
    "atka": (52.33, -174.14),
    "kahoolawe": (20.55, -156.61),
    "kilauea": (19.42, -155.29),
    "meru": (-3.25, 36.75),
    "kilimanjaro": (-3.07, 37.35),
    "etna": (37.75, 14.99),
    "stromboli": (38.79, 15.21),
    "hekla": (63.98, -19.67),
    "katla": (63.63, -19.05),
    "sakurajima": (31.58, 130.66),
    "aso": (32.88, 131.1),
}
"""Latitude and longitude of each volcano."""
PULL, NOISE = 0.02, 0.35
ERUPTION_CHANCE = 0.0004
HEAT = (60.0, 240.0)
COOLING = 0.985
ALARM, RELIEF = 40.0, 5.0
"""Degrees above the calm value at which a sensor reports an eruption, and at which it reports the end."""
ERUPTING, QUIET = "erupting", "quiet"


@dataclass(slots=True)
class Sensor:
    """One thermometer. `chance` is the only source of surprise."""

    topic: str
    calm: float
    chance: random.Random
    _drift: float = field(default=0.0, init=False)
    _heat: float = field(default=0.0, init=False)
    _erupting: bool = field(default=False, init=False)

    def metadata(self) -> dict[str, Value]:
        """What it says of itself."""
        _, region, *station = self.topic.split(".")
        latitude, longitude = PLACES[station[0]]
        return {
            "Region": region,
            "Station": "/".join(station),
            "Kind": "temperature",
            "Unit": "°C",
            "Status": ERUPTING if self._erupting else QUIET,
            "lat": latitude,
            "lon": longitude,
        }

    def read(self) -> float:
        """The next temperature."""
        self._drift += self.chance.gauss(0, NOISE) - PULL * self._drift
        self._heat *= COOLING
        if self.chance.random() < ERUPTION_CHANCE:
            self._heat += self.chance.uniform(*HEAT)
        return round(self.calm + self._drift + self._heat, 1)

    def change(self) -> dict[str, Value]:
        """The metadata that the last reading changed: the beginning of an eruption, or its end."""
        if self._heat < RELIEF if self._erupting else self._heat > ALARM:
            self._erupting = not self._erupting
            return {"Status": ERUPTING if self._erupting else QUIET}
        return {}


def sensors(chance: random.Random) -> list[Sensor]:
    """One for each topic."""
    return [Sensor(topic, calm, chance) for topic, calm in CALM.items()]


def alarming(topic: str, temperature: float) -> bool:
    """Is it erupting?"""
    return temperature - CALM.get(topic, temperature) > ALARM
