"""Heartbeats: is a peer still there, and how old are its messages?

Each node sends each other a beat every fifth of a second, on a connection that carries nothing else, and gets it back
as an echo. A beat has the time of the sender's own clock. So the age of the latest echo is the one number that counts:
both nodes have heard each other not longer ago than that. A hung process, a cut line in either direction and a machine
without power look the same, and are noticed alike.

    age of the echo      0 … 0.7 s    well
                       0.7 … 1.8 s    in doubt: groups choose members elsewhere, everything else goes on
                            1.8 s     gone: its consumers are forgotten, its connections cut (C4)

A node that was itself stopped sees old echoes everywhere. So each tick looks first at how late it comes: what the node
has slept through is forgiven to all peers, and a node that has slept for longer than an eviction takes assumes that it
was evicted.

The clocks of two machines have nothing to do with each other, but both go on while a process is stopped. The least
difference seen lately between a beat's time and its arrival is taken for no delay at all; what arrives with a larger
difference is late by the rest.
"""

from typing import NamedTuple

WINDOW = 30.0
"""Seconds for which the least difference counts: clocks drift apart."""


class Timing(NamedTuple):
    """Seconds."""

    silence: float = 2.0
    """After so much of it a node is gone, everything included."""
    oldest: float = 4.0
    """What is older is not delivered any more; with the delays of noticing, nothing is after five (C4)."""

    @property
    def beat(self) -> float:
        return self.silence / 10

    @property
    def doubt(self) -> float:
        return self.silence * 0.35

    @property
    def eviction(self) -> float:
        return self.silence * 0.9


USUAL = Timing()


class Pulse:
    """The heartbeats to one peer, and the age of the last one that came back."""

    def __init__(self, now: float) -> None:
        self._echoed = now
        self.round_trip = 0.0

    def echo(self, time: float, now: float) -> None:
        """A heartbeat of this time has come back. One of the future is ignored."""
        if self._echoed < time <= now:
            self._echoed = time
        if 0.0 <= now - time < WINDOW:
            self.round_trip = now - time

    def silence(self, now: float) -> float:
        return now - self._echoed

    def forgive(self, seconds: float) -> None:
        """This node itself stood still for so long."""
        self._echoed += seconds


class Lateness:
    """How late what a peer says arrives."""

    def __init__(self) -> None:
        self._least = float("inf")
        self._former = float("inf")
        self._since = 0.0

    def beat(self, time: float, now: float) -> None:
        """A beat of this time of the peer's clock has come."""
        if now - self._since > WINDOW:
            self._former, self._least, self._since = self._least, float("inf"), now
        self._least = min(self._least, now - time)

    def of(self, time: float, now: float) -> float:
        """How long ago was this time of the peer's clock? Before the first beat nothing is late."""
        least = min(self._least, self._former)
        return max(0.0, now - time - least) if least != float("inf") else 0.0
