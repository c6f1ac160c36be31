"""The timers of a node, on the event loop: one call of the loop at a time, for the first that is due."""

from __future__ import annotations

import asyncio
from time import monotonic

from fumarole.doors.flushing import InSlices
from fumarole.exchange.node import Node


class TimerRunner:
    """Runs `exchange.timers` of a node."""

    def __init__(self, node: Node) -> None:
        self._flushing = InSlices(node.ready, node.late)
        self._timers = node.namespaces.timers
        self._timers.clock = monotonic
        self._timers.arrange = self._arrange
        self._handle: asyncio.TimerHandle | None = None

    def _arrange(self, due: float) -> None:
        loop = asyncio.get_running_loop()
        if self._handle is not None:
            self._handle.cancel()
        self._handle = loop.call_later(max(0.0, due - monotonic()), self._run)

    def _run(self) -> None:
        self._handle = None
        self._timers.run(monotonic())
        self._flushing.flush()
