"""What a namespace keeps of its latest messages, and the clocks that this needs: handed to its exchange as one."""

from __future__ import annotations

from dataclasses import dataclass, field

from fumarole.exchange.hybrid_clock import HybridClock
from fumarole.exchange.last_values import LastValues
from fumarole.exchange.payers import Payers
from fumarole.exchange.retained import Retained
from fumarole.exchange.slices import Slices
from fumarole.exchange.timers import Timers


@dataclass(slots=True)
class FreshState:
    """Of one namespace. Clock, timers and slices are the node's."""

    clock: HybridClock = field(default_factory=HybridClock)
    timers: Timers = field(default_factory=Timers)
    slices: Slices = field(default_factory=Slices)
    retained: Retained = field(default_factory=Retained)
    last_values: LastValues | None = None
    """None: the namespace keeps only what is retained."""
    last_payers: Payers = field(default_factory=lambda: Payers("last_bytes"))
