"""The classes that exchanges are made of: plain Python, or compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fumarole.core.index import Index
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.counters import Counters
from fumarole.exchange.groups import Group
from fumarole.exchange.last_values import LastValues
from fumarole.exchange.outbox import Outbox
from fumarole.exchange.plans import Plan, Plans


@dataclass(frozen=True, slots=True)
class Parts:
    """The plain classes of the hot path. `fastpath/hot_path.py` has the compiled ones."""

    index: Callable[[], Index] = Index
    consumer: type[Consumer] = Consumer
    counters: type[Counters] = Counters
    group: type[Group] = Group
    last_values: type[LastValues] = LastValues
    outbox: type[Outbox] = Outbox
    plan: type[Plan] = Plan
    plans: type[Plans] = Plans


PURE = Parts()
