"""The classes that exchanges are made of: plain Python, or compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fumarole.core.index import Index
from fumarole.core.query.message import Reads
from fumarole.exchange.conflation import Held
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.counters import Counters
from fumarole.exchange.groups import Group
from fumarole.exchange.last_values import LastValues
from fumarole.exchange.outbox import Outbox
from fumarole.exchange.pieces import Cuts, Pieces
from fumarole.exchange.plans import Plan, Plans


def _never(_consumer: Consumer, _outlet: Any, _topic: str, _payload: bytes) -> bool:
    return False


def _never_reads(_paths: tuple[tuple[str, ...], ...]) -> Reads | None:
    return None


@dataclass(frozen=True, slots=True)
class Parts:
    """The plain classes of the hot path. `fastpath/hot_path.py` has the compiled ones."""

    index: Callable[[], Index] = Index
    consumer: type[Consumer] = Consumer
    counters: type[Counters] = Counters
    cuts: type[Cuts] = Cuts
    group: type[Group] = Group
    held: type[Held] = Held
    last_values: type[LastValues] = LastValues
    outbox: type[Outbox] = Outbox
    pieces: type[Pieces] = Pieces
    plan: type[Plan] = Plan
    plans: type[Plans] = Plans
    reads: Callable[[tuple[tuple[str, ...], ...]], Reads | None] = _never_reads
    """Makes what finds the fields under these paths in JSON payloads. None: the definition finds them."""
    send_retained: Callable[[Consumer, Any, str, bytes], bool] = _never
    """Writes a retained message as an MQTT packet of QoS 0. False: its outlet has to make the packet."""


PURE = Parts()
