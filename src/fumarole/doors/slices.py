"""Background work on the event loop: up to 10 ms in each turn, the rest of the turn is for connections."""

from __future__ import annotations

import asyncio
from time import monotonic

from fumarole.doors.flushing import flush
from fumarole.exchange.node import Node

MOMENT = 0.01
"""Seconds."""


class SliceRunner:
    """Runs the slices of a node, from the first that is put off until nothing is left."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._slices = node.namespaces.slices
        self._slices.put_off = self._begin
        self._has_begun = False

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            asyncio.get_running_loop().call_soon(self._take_a_turn)

    def _take_a_turn(self) -> None:
        end = monotonic() + MOMENT
        while (is_more := self._slices.step()) and monotonic() < end:
            pass
        flush(self._node.ready)
        self._has_begun = False
        if is_more:
            self._begin()
