"""The one oracle of every bad-input test.

Whatever a client does: the process is the same one afterwards; a canary on the same node lost nothing; the event loop
never stood still for long; memory, file descriptors and tasks are back to where they were after close; the log has at
most a few lines, without secrets, and little of what the attacker sent.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.integration.canary import Canary
from tests.integration.running import RunningBroker

MIB = 1024 * 1024
STANDSTILL = 0.1
"""Seconds of its own work that the loop may spend without looking up."""
MEMORY_MARGIN = 32 * MIB
"""What an allocator keeps for the next time."""
LOG_LINES = 3
OWN_FILES = 3
"""File descriptors that a broker may open for itself meanwhile."""
SHOWN = 128
"""Bytes of the attacker's data that a log line may have."""
SETTLE_SECONDS = 15.0
"""A closed session's last words may take 5 s to leave, and the machine may be busy."""


class Target:
    """A broker that is watched while a client misbehaves."""

    def __init__(self, broker: RunningBroker, canary: Canary) -> None:
        self.broker = broker
        self.canary = canary
        self.secrets: list[str] = []
        """What must not be in the log."""
        self.sent: list[str] = []
        """What was sent, where the log might repeat it."""
        self.standstill = STANDSTILL
        self.memory_margin = MEMORY_MARGIN
        self.longest = 0.0
        self.stood_still = 0.0

    @property
    def port(self) -> int:
        return self.broker.port

    def settle(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Looks inside until it holds; there is no event for what a broker has finished doing."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            seen = self.broker.observe()
            self.stood_still = max(self.stood_still, seen["stood_still"])
            if holds(seen) or time.monotonic() > deadline:
                return seen
            time.sleep(0.02)


@contextmanager
def watched(broker: RunningBroker, canary: Canary) -> Iterator[Target]:
    """Within, anything may be done to the broker, and all of it must have been closed at the end."""
    target = Target(broker, canary)
    canary.listen()
    before = broker.observe()
    descriptors, memory, logged = broker.descriptors(), broker.memory(), len(broker.log)
    yield target
    assert broker.is_running(), f"the broker is gone\n{broker.tail()}"
    after = target.settle(
        lambda seen: (
            seen["connections"] == before["connections"]
            and seen["consumers"] == before["consumers"]
            and seen["queries"] == before["queries"]
            and seen["tasks"] <= before["tasks"]
            and broker.descriptors() <= descriptors + OWN_FILES
        )
    )
    song = canary.listen()
    target.longest = song.longest
    assert (song.received, song.in_order) == (song.published, True), song
    for what in ("connections", "consumers", "queries"):
        assert after[what] == before[what], what
    assert after["tasks"] <= before["tasks"]  # fewer, where something of an earlier test was still ending
    assert (open_files := broker.descriptors()) <= descriptors + OWN_FILES, f"{open_files}, before {descriptors}"
    assert target.stood_still <= target.standstill, f"the loop stood still for {target.stood_still:.3f} s"
    check_memory(broker, memory + target.memory_margin)
    check_log(broker.log[logged:], target.secrets, target.sent)


def check_memory(broker: RunningBroker, most: int) -> None:
    """Back to where it was; the system may need a moment to take it."""
    deadline = time.monotonic() + 4.0
    while broker.memory() > most and time.monotonic() < deadline:
        time.sleep(0.05)
    assert broker.memory() <= most, f"{broker.memory() / MIB:.0f} MiB, at most {most / MIB:.0f} were expected"


def check_log(lines: list[str], secrets: list[str], sent: list[str]) -> None:
    """Few lines, no tracebacks, nothing secret, little of what was sent."""
    text = "\n".join(lines)
    assert len(lines) <= LOG_LINES, text[:4000]
    assert "Traceback" not in text, text
    for secret in secrets:
        assert secret not in text
    for attack in sent:
        for at in range(0, len(attack) - SHOWN, SHOWN // 2):
            assert not re.search(re.escape(attack[at : at + SHOWN + 1]), text), "more than a glimpse of what was sent"
