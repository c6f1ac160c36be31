"""A wave: rows of a shard's producers, those of each together and in order; and what comes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fumarole.core.rules import Rule
from fumarole.pipeline.rules.rows import Integers, Rows

Booleans = NDArray[np.bool_]


class Event(NamedTuple):
    """Something that begins or ends, before it is known whether there is too much of it."""

    place: int
    at: int
    rule: Rule
    producer: int
    state: str
    since: int
    until: int | None
    value: float
    again: int
    row: int | None = None
    """In the wave, whose metadata it has; -1 or one of another producer: what held at the wave's beginning. None: what
    holds at the wave's end."""


@dataclass(slots=True)
class Wave:
    """Rows, and what holds for each of them."""

    rows: Rows
    producer: Integers
    first: Booleans
    """Is it the first of its producer?"""
    form: Integers
    said: dict[int, bytes]
    """Metadata from a row on, where it changes there."""
    before: dict[int, bytes]
    """And what it was at the beginning, of producers for which it changes."""
    on_time: Booleans
    jumps: Integers
    """How often the producer's clock has gone back in this wave, up to this row."""

    def begin(self) -> Integers:
        """Where each producer's rows begin."""
        return np.flatnonzero(self.first)


def firsts(numbers: Integers) -> Booleans:
    """Which are not the same as the one before."""
    first = np.ones(len(numbers), bool)
    first[1:] = numbers[1:] != numbers[:-1]
    return first
