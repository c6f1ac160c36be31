"""Routing: consumers, groups, outboxes, namespaces, producers. Pure: no I/O, no clock.

`Exchange` and `Collector` are here too, for the prompt; they are loaded when first used. collector.py has an example.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fumarole.exchange.collector import Collector
    from fumarole.exchange.exchange import Exchange

__all__ = ["Collector", "Exchange"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fumarole.core.packages import BASE, need

    need(BASE, "re2")  # of queries
    from fumarole.exchange import collector, exchange

    return {"Collector": collector.Collector, "Exchange": exchange.Exchange}[name]
