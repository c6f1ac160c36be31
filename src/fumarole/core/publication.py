"""The one message form. Each door converts to it and from it; no door knows another."""

from typing import NamedTuple


class Publication(NamedTuple):
    """One message on its way to those who asked for its topic."""

    topic: str
    payload: bytes
    reply: str = ""
    """The topic on which an answer is expected; empty: none is."""
    headers: bytes = b""
    """A header block as `core.headers` describes it; empty: none."""

    def weight(self) -> int:
        """Bytes that this takes in an outbox, reckoned generously, whatever the protocol."""
        return len(self.topic.encode()) + len(self.payload) + len(self.reply.encode()) + len(self.headers) + FRAMING


FRAMING = 128
