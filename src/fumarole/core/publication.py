"""The one message form. Each door converts to it and from it; no door knows another."""

from typing import Any, Final

FRAMING = 128
COMMANDS: Final = "_COMMANDS_."
QUERIES: Final = "_QUERIES_."
REQUESTS: Final = (COMMANDS, QUERIES)
"""Prefixes of the topics of Commands and Queries of the KubeMQ door; the channel follows."""
FORGOTTEN: Final = "_FORGOTTEN"
"""The topic on which an exchange publishes forgotten producers, for consumers that keep a history."""
PRIVATE: Final = "_WHERE."
"""The prefix of topics that match only by their full name, never by a wildcard. On these topics the exchange sends the
readings of a query to a consumer that may receive them."""
INBOX: Final = "_INBOX."
"""The prefix of topics on which one client waits for its replies. The word that follows names the inbox."""


def is_reserved(topic: str) -> bool:
    """Is it one of the topics that only the server publishes (T9)?"""
    return topic in (FORGOTTEN, "_WHERE") or topic.startswith(PRIVATE)


def inbox_of(topic: str) -> str:
    """The first two words of a topic in an inbox; of all others nothing."""
    if not topic.startswith(INBOX):
        return ""
    end = topic.find(".", len(INBOX))
    return topic if end < 0 else topic[:end]


def finds(pattern: str, topic: str) -> bool:
    """May a subscription to this pattern find the topic at all (A4)?

    A private topic is found by its full name, and a topic in an inbox by a pattern that has the inbox's word literally.
    No wildcard does instead. Rules of permissions match by `core.topic` alone.
    """
    if topic.startswith(PRIVATE):
        return pattern == topic
    inbox = inbox_of(topic)
    return not inbox or pattern == inbox or pattern.startswith(f"{inbox}.")


class Publication:
    """One message on its way to the consumers of its topic."""

    __slots__ = ("age", "form", "headers", "node", "payload", "reading", "reply", "retain", "topic", "vital")

    def __init__(self, topic: str, payload: bytes, reply: str = "", headers: bytes = b"", reading: Any = None) -> None:
        self.topic = topic
        self.payload = payload
        self.reply = reply
        """The topic on which an answer is expected; empty: none is."""
        self.headers = headers
        """A header block as `core.headers` describes it; empty: none."""
        self.reading = reading
        """The reading that the message is, if it is one: an `exchange.readings.Reading`."""
        self.vital = False
        """A message of the exchange that must not be dropped. A consumer without room for it is disconnected (M4)."""
        self.retain = False
        """True when the namespace keeps it as the newest of its topic (F1)."""
        self.age: float | None = None
        """Set where it is a last value (F3): the seconds since it was published. None: it is live."""
        self.node = ""
        """The node that took it; empty: this one."""
        self.form: Any = None
        """The form that a door made for its first consumer, shared by the other consumers of that door."""

    def size(self) -> int:
        """Bytes that came in: of a reading that came as MsgPack, those; else of headers and payload."""
        if self.reading is not None and self.reading.raw:
            return len(self.reading.raw)
        return len(self.payload) + len(self.headers)

    def weight(self) -> int:
        """An upper estimate of its bytes in an outbox, for every protocol."""
        names = len(self.topic.encode()) + (len(self.reply.encode()) if self.reply else 0)
        return names + self.size() + FRAMING
