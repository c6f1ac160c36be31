"""The check before each batch of a client: was this process stopped for a while?

A process can wait long for a CPU, or be stopped and continued. Then its sockets hold bytes of clients beside the end of
a link, and the loop may read the bytes first. Two checks come before them:

    4 s since the last tick of the cluster     the other nodes have given this one up: it joins again first (C4)
    0.5 ms since the last batch                another node may have hung up: it gets nothing more (G3)

Both calls belong to the cluster (`Node.wake`, `Node.look`). A node without a cluster has nothing to check.
"""

from __future__ import annotations

from fumarole.doors.flushing import LAST_BATCH
from fumarole.exchange.node import Node

QUIET = 0.0005
"""Seconds without a batch, after which this process may have waited for a CPU."""


class StandstillCheck:
    """Before each batch of a client."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def before_batch(self, began: float) -> None:
        if began > self._node.late_after:
            self._node.wake(began)
        elif began - LAST_BATCH.at > QUIET:
            self._node.look()
