"""A client that does not take what it asked for is cut off, where its namespace says so (D6)."""

from __future__ import annotations

from fumarole.exchange.node import Node
from fumarole.sessions.stream import StreamSession


class SlowConsumers:
    """Ends sessions whose outbox has overflowed, and counts each of them once."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def cut(self, session: StreamSession) -> None:
        self._node.slow_consumers += not session.close_expected()
        session.fail("Slow Consumer")
