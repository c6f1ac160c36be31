"""A received message."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from fumarole.client.errors import NoReplyTopicError
from fumarole.client.topics import decoded_topics
from fumarole.core import headers
from fumarole.protocols import nats

Headers = Mapping[str, str] | Iterable[tuple[str, str]]
"""Headers to send: names and values. A name may come more than once only in the second form."""


class Publisher(Protocol):
    """Sends an answer."""

    async def publish(
        self, topic: str, payload: bytes | str = b"", *, headers: Headers | None = None, reply: str = ""
    ) -> None: ...


class Message:
    """A message: `topic`, `payload`, `headers`, and `reply`, the topic for an answer, if one is expected."""

    __slots__ = ("_event", "_publisher")

    def __init__(self, event: nats.Message, publisher: Publisher) -> None:
        self._event = event
        self._publisher = publisher

    @property
    def topic(self) -> str:
        """The topic it was published to; empty: it was published without one."""
        return decoded_topics[self._event[0]]

    @property
    def payload(self) -> bytes:
        """The payload."""
        return self._event[4]

    @property
    def text(self) -> str:
        """The payload as text; bytes that are not UTF-8 are replaced."""
        return self._event[4].decode("utf-8", "replace")

    @property
    def reply(self) -> str:
        """The topic for an answer; empty: none is expected."""
        return self._event[2].decode("utf-8", "replace")

    @property
    def headers(self) -> dict[str, str]:
        """Names and values; of a name that comes more than once, the first value."""
        first: dict[str, str] = {}
        for name, value in self.header_pairs:
            first.setdefault(name, value)
        return first

    @property
    def header_pairs(self) -> list[tuple[str, str]]:
        """All names and values, in order."""
        block = self._event[3]
        return headers.parse(block) if block else []

    @property
    def age(self) -> float | None:
        """Of a last value: the seconds since it was published. None: the message is live."""
        value = headers.last(self._event[3], "Last") if self._event[3] else None
        try:
            return None if value is None else float(value)
        except ValueError:
            return None

    @property
    def status(self) -> str:
        """The status in the first line of the headers: 503 for a request without a responder; mostly empty."""
        return headers.status(self._event[3]) if self._event[3] else ""

    def of_topic(self) -> Message:
        """A last value that came on a reply topic, as a message on its own topic."""
        event = self._event
        topic = headers.last(event[3], "Topic") or ""
        block = headers.without(event[3], "Topic")
        return Message(event._replace(topic=topic.encode() or b"$EMPTY", headers=block), self._publisher)

    def json(self) -> Any:
        """The payload read as JSON. Raises ValueError where it is none."""
        return json.loads(self._event[4])

    async def respond(self, payload: bytes | str = b"", *, headers: Headers | None = None) -> None:
        """Answers the request that this message is. Raises NoReplyTopicError where it is none."""
        if not self._event[2]:
            raise NoReplyTopicError(f"the message on {self.topic!r} is not a request: it has no reply topic")
        await self._publisher.publish(self.reply, payload, headers=headers)

    def __repr__(self) -> str:
        return f"Message(topic={self.topic!r}, payload={self.payload!r})"
