"""A producer: readings under one identity, and its metadata.

A reading is a message with the header `Producer: <id>`. The header `Metadata: {…}` goes with it only when it is
needed: all metadata with the first reading, and again with the first one after a connection was lost, because
another broker may not have it; between these, the changed keys.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from fumarole.client.errors import InvalidReadingError
from fumarole.client.message import Publisher
from fumarole.client.reconnect import ReconnectingConnection
from fumarole.core.query.tree import Value
from fumarole.core.values import wrong_number, wrong_text, wrong_value

FORGET = "$FUM.forget"
_UUID_VERSION = 4
_NEVER = -1


class ProducerInfo(NamedTuple):
    """A producer as the broker knows it."""

    id: str
    metadata: dict[str, Value]
    value: float | str | None
    """Its latest reading; None: there was none since the start of the broker."""
    age: float | None
    """Seconds since then."""


class Broker(Publisher, Protocol):
    """Publishes readings, and sends requests to the broker."""

    async def ask_broker(self, service: str, payload: bytes | str = b"") -> dict[str, Any]: ...


class Producer:
    """A source of readings. `client.producer` makes one."""

    def __init__(
        self,
        broker: Broker,
        reconnecting: ReconnectingConnection,
        metadata: Mapping[str, Value],
        topic: str | None,
        identity: str | None,
    ) -> None:
        self.id = str(uuid.uuid4()) if identity is None else _identity(identity)
        self.topic = f"readings.{self.id}" if topic is None else topic
        self._broker = broker
        self._reconnecting = reconnecting
        self._known: dict[str, Value | None] = {}
        """All keys that were ever published. None is a deleted key, which another broker may still have."""
        self._news: dict[str, Value | None] = {}
        self._told = _NEVER
        """The number of lost connections when all metadata was last published."""
        self.update(metadata)

    @property
    def metadata(self) -> dict[str, Value]:
        """Its metadata, with changes that are not sent yet."""
        return {key: value for key, value in self._known.items() if value is not None}

    def update(self, changes: Mapping[str, Value | None] | None = None, /, **more: Value | None) -> None:
        """Changes metadata: `update(Room="411", Old=None)`, None deletes. It is sent with the next reading."""
        told = {**(changes or {}), **more}
        for key, value in told.items():
            _check_metadata(key, value)
        self._known |= told
        self._news |= told

    async def publish(self, value: float) -> None:
        """Publishes a reading, with the changed metadata. Like any publication it is not confirmed."""
        _check_value(value)
        losses, before = self._reconnecting.losses, self._told
        say, self._news = (self._news if before == losses else dict(self._known)), {}
        headers = {"Producer": self.id}
        if say:
            headers["Metadata"] = json.dumps(say)
        self._told = losses
        try:
            # `publish` takes the message before it waits, so changes made meanwhile go with the next one.
            await self._broker.publish(self.topic, _number(value), headers=headers)
        except Exception:
            self._told = _NEVER
            raise

    async def forget(self) -> bool:
        """Makes the broker forget this producer; True if it had it. The next reading brings all metadata again."""
        self._told = _NEVER
        answer = await self._broker.ask_broker(FORGET, self.id)
        return bool(answer["forgotten"])

    def __repr__(self) -> str:
        return f"Producer(id={self.id!r}, topic={self.topic!r}, metadata={self.metadata!r})"


def _identity(text: str) -> str:
    try:
        parsed = uuid.UUID(text)
    except ValueError:
        parsed = None
    if parsed is None or str(parsed) != text.lower() or parsed.version != _UUID_VERSION:
        raise InvalidReadingError(f"a producer is named by a UUID of version 4, not {text!r}")
    return str(parsed)


def _number(value: float) -> str:
    """The text of a plain float or int, also for NumPy's types and enums."""
    return int.__repr__(value) if isinstance(value, int) else float.__repr__(value)


def _check_value(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidReadingError(f"the value of a reading is a finite number, not {value!r}")
    wrong = wrong_number(value)
    if wrong:
        raise InvalidReadingError(f"the value of a reading is {wrong}")


def _check_metadata(key: object, value: object) -> None:
    if not isinstance(key, str):
        raise InvalidReadingError(f"a metadata key is text, not {key!r}")
    wrong = wrong_text(key)
    if wrong:
        raise InvalidReadingError(f"the metadata key {key!r} is {wrong}")
    if value is not None and not isinstance(value, str | int | float):
        raise InvalidReadingError(f"{key!r} is {value!r}; metadata is text, numbers, truth values, or None to delete")
    wrong = wrong_value(value)
    if wrong:
        raise InvalidReadingError(f"the metadata value of {key!r} is {wrong}")
