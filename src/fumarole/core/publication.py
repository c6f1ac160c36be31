"""The one message form. Each door converts to it and from it; no door knows another."""

from typing import Any, Final

FRAMING = 128
COMMANDS: Final = "_COMMANDS_."
QUERIES: Final = "_QUERIES_."
REQUESTS: Final = (COMMANDS, QUERIES)
"""What the topics of Commands and Queries of the KubeMQ door begin with; the channel follows."""
FORGOTTEN: Final = "_FORGOTTEN"
"""The topic on which an exchange says that a producer was forgotten, for those who keep a history."""
PRIVATE: Final = "_WHERE."
"""What topics begin with that are only for those who ask for them by name, and never for a wildcard: on these the
exchange tells readings to who may see them, and their names say nothing of that."""


class Publication:
    """One message on its way to those who asked for its topic."""

    __slots__ = ("age", "form", "headers", "node", "payload", "reading", "reply", "retain", "topic", "vital")

    def __init__(self, topic: str, payload: bytes, reply: str = "", headers: bytes = b"", reading: Any = None) -> None:
        self.topic = topic
        self.payload = payload
        self.reply = reply
        """The topic on which an answer is expected; empty: none is."""
        self.headers = headers
        """A header block as `core.headers` describes it; empty: none."""
        self.reading = reading
        """What a producer said, if one did: an `exchange.readings.Reading`."""
        self.vital = False
        """Of the exchange's own, and worth more than what waits: who has no room even for this is cut off (M4)."""
        self.retain = False
        """Is the namespace to keep it as the newest of its topic (F1)?"""
        self.age: float | None = None
        """Set where it is a last value (F3): the seconds since it was published. None: it is live."""
        self.node = ""
        """The node that took it; empty: this one."""
        self.form: Any = None
        """What a door has made of it for its first consumer, so that the others of that door need not make it again."""

    def size(self) -> int:
        """Bytes that came in: of a reading that came as MsgPack, those; else of headers and payload."""
        if self.reading is not None and self.reading.raw:
            return len(self.reading.raw)
        return len(self.payload) + len(self.headers)

    def weight(self) -> int:
        """Bytes that this takes in an outbox, reckoned generously, whatever the protocol."""
        names = len(self.topic.encode()) + (len(self.reply.encode()) if self.reply else 0)
        return names + self.size() + FRAMING
