"""Background work on the event loop: up to 10 ms in each turn, the rest of the turn is for connections."""

from __future__ import annotations

import asyncio
from time import monotonic

from fumarole.doors.flushing import InSlices
from fumarole.exchange.node import Node
from fumarole.exchange.slices import Slices

MOMENT = 0.01
"""Seconds."""


class SliceRunner:
    """Runs slices, from the first that is put off until nothing is left: the node's, or those of one door."""

    def __init__(self, node: Node, slices: Slices | None = None, moment: float = MOMENT) -> None:
        self._flushing = InSlices(node.ready, node.late)
        self._slices = node.namespaces.slices if slices is None else slices
        self._moment = moment
        self._slices.put_off = self._begin
        self._has_begun = False

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            asyncio.get_running_loop().call_soon(self._take_a_turn)

    def _take_a_turn(self) -> None:
        end = monotonic() + self._moment
        while (is_more := self._slices.step()) and monotonic() < end:
            pass
        self._has_begun = False
        if is_more:
            self._begin()
        self._flushing.flush()  # may begin a job: an answer is refilled, a consumer that is cut off leaves
