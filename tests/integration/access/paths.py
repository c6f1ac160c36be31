"""What the matrix of permissions knows of ways: their form, and what each is a way through."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.integration.access.desks import AccessNode, Stage

Hears = Callable[[Stage, AccessNode, str, int], set[str]]
"""What the user with this token hears, or does, at this node; the number is that of the cell."""


class Path(NamedTuple):
    """One way on which something reaches a user, or comes from one."""

    name: str
    covers: tuple[str, ...]
    """The parts of doors that it goes through: `tests/integration/access/test_matrix.py` lists all there are."""
    hears: Hears
    everything: frozenset[str]
    """What a user without rules hears; those with rules hear the part that begins with `open`."""


TOPICS = frozenset({"secret", "open"})
PRODUCERS = frozenset({"secret id", "secret topic", "open id", "open topic"})
PATHS: list[Path] = []


def path(*covers: str, everything: frozenset[str] = TOPICS) -> Callable[[Hears], Hears]:
    """Puts a way into the matrix."""

    def put(hears: Hears) -> Hears:
        PATHS.append(Path(hears.__name__, covers, hears, everything))
        return hears

    return put


def put(name: str, covers: tuple[str, ...], hears: Hears, everything: frozenset[str] = TOPICS) -> None:
    """The same, for ways that are made from one another."""
    PATHS.append(Path(name, covers, hears, everything))
