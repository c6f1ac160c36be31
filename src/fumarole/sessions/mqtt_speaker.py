"""An MQTT client as the exchange hears it: what its PUBLISH is, and whose reading it is (Q4).

A client is a producer when its client id is a UUID of version 4, when its CONNECT has user properties, when it has
written JSON to `$FUM/metadata`, or for one message that has the property `Producer`. Then what it publishes are
readings: user properties are new metadata, and a payload that is a number is the value. All others publish ordinary
messages, and their user properties are headers only.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Final
from uuid import UUID, uuid5

from fumarole.core.mqtt_topics import topic_of
from fumarole.core.publication import Publication
from fumarole.core.query.tree import Value
from fumarole.core.topic import check_topic
from fumarole.exchange.consumer import Outlet
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.node import Node
from fumarole.exchange.permissions import User
from fumarole.exchange.plans import Denied, Plans
from fumarole.exchange.presence import Speaking
from fumarole.exchange.quotas import Account
from fumarole.exchange.readings import (
    Reading,
    ReadingError,
    check_metadata,
    check_speaks_for,
    is_identity,
    reading_value,
)
from fumarole.protocols.mqtt_fields import Properties, Property
from fumarole.protocols.mqtt_packets import Publish, Will
from fumarole.sessions.mqtt_forms import OWN, block_of, reading_headers
from fumarole.sessions.nats_forms import LONGEST_IN_JSON

METADATA_TOPIC: Final = "$FUM/metadata"
"""Where a client writes JSON about itself."""
PRODUCER: Final = "Producer"
NEVER_METADATA: Final = OWN | {"traceparent", "tracestate", PRODUCER, "Metadata"}
IDENTITIES: Final = UUID("6f2a0a3e-7a0b-4f43-9d1c-5f9f3b6f2a11")
"""In which the ids of producers are made that did not choose one."""
_VERSION_4: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]{1,40})?(?:[eE][-+]?[0-9]{1,3})?")
_TRUTH: Final = {"true": True, "false": False}


def identity_of(namespace: str, user: str, client_id: str) -> str:
    """The id of a client as a producer: its client id where that is a UUID of version 4, else one made of all three."""
    if is_chosen(client_id):
        return client_id.lower()
    return str(uuid5(IDENTITIES, json.dumps([namespace, user, client_id])))


def is_chosen(client_id: str) -> bool:
    """Is it a UUID of version 4, and so the id of a producer?"""
    return _VERSION_4.fullmatch(client_id.lower()) is not None


def metadata_of(users: Iterable[tuple[str, str]]) -> dict[str, Value | None]:
    """What user properties say about a producer. An empty one takes its key away."""
    return {name: _value(text) for name, text in users if name and name not in NEVER_METADATA}


def _value(text: str) -> Value | None:
    if not text:
        return None
    if text in _TRUTH:
        return _TRUTH[text]
    if _NUMBER.fullmatch(text):
        number: int | float = json.loads(text)
        if math.isfinite(number):
            return number
    return text


class Speaker:
    """One client. It outlives the connection by its will."""

    __slots__ = ("_chose_identity", "_identity", "_key", "account", "is_producer", "node", "user")

    def __init__(self, node: Node, user: User | None, key: tuple[str, str], account: Account | None = None) -> None:
        self.node = node
        self.user = user
        self.account = account
        """Where a producer that it makes counts (A5)."""
        self._key = key
        """Namespace and client id."""
        self._identity = ""
        """Made when it is needed: most clients are no producers."""
        self._chose_identity = is_chosen(key[1])
        self.is_producer = self._chose_identity and self._may_speak_for(self.identity)

    @property
    def identity(self) -> str:
        """Its id as a producer, should it become one."""
        if not self._identity:
            namespace, client_id = self._key
            self._identity = identity_of(namespace, self.user.name if self.user else "", client_id)
        return self._identity

    def renew(self, user: User) -> None:
        """The rules of its user have changed (A7)."""
        self.user = user
        if self._chose_identity:
            self.is_producer = self._may_speak_for(self.identity)

    def _may_speak_for(self, identity: str) -> bool:
        """For the id that is made of its client id, no further right is needed."""
        if not self._chose_identity and identity == self.identity:
            return True
        try:
            check_speaks_for(self.user, identity)
        except Denied:
            return False
        return True

    def describe(
        self, exchange: Exchange, metadata: dict[str, Value | None], now: float, speaking: Speaking | None = None
    ) -> None:
        """Says this about itself, and is a producer from then on. Raises ReadingError, Denied or QuotaError."""
        if self._chose_identity:
            check_speaks_for(self.user, self.identity)
        exchange.producers.describe(self.identity, check_metadata(metadata), now, self.account, speaking=speaking)
        self.is_producer = True

    def describe_in_json(
        self, exchange: Exchange, payload: bytes, now: float, speaking: Speaking | None = None
    ) -> None:
        """The same, as it was written to `$FUM/metadata`."""
        longest = LONGEST_IN_JSON * self.node.limits.metadata_bytes
        if len(payload) > longest:
            raise ReadingError(f"metadata is longer than {longest} bytes of JSON")
        try:
            metadata = json.loads(payload)
        except (ValueError, RecursionError):
            raise ReadingError("metadata is not JSON") from None
        if not isinstance(metadata, dict):
            raise ReadingError("metadata is not a JSON object")
        self.describe(exchange, metadata, now, speaking)

    def publication(self, event: Publish | Will, exchange: Exchange) -> Publication:
        """What this PUBLISH is. Raises TopicError, Denied or ReadingError."""
        given = event.properties
        topic, reply = topic_of(event.topic, exchange.grammar), ""
        if topic.startswith("$"):
            raise Denied(topic)  # T9
        response = given.get(Property.RESPONSE_TOPIC)
        if response is not None:
            reply = topic_of(response, exchange.grammar)
            check_topic(reply, exchange.grammar)
        reading = self._reading(given, event.payload)
        more = () if reading is None else _not_said(given, reading)
        block = block_of(given, event.qos, event.retain, more)
        publication = Publication(topic, event.payload, reply, block, reading)
        publication.retain = event.retain
        return publication

    def _reading(self, given: Properties, payload: bytes) -> Reading | None:
        users = given.get(Property.USER, ())
        named = [text for name, text in users if name == PRODUCER]
        identity = named[-1].lower() if named and is_identity(named[-1]) else ""
        if identity:
            if not self._may_speak_for(identity):
                raise Denied(f"readings.{identity}")
        elif self.is_producer:
            identity = self.identity
        else:
            return None
        value = reading_value(payload)
        return Reading(identity, check_metadata(metadata_of(users)), value)

    def publish(
        self,
        publication: Publication,
        exchange: Exchange,
        plans: Plans,
        now: float,
        origin: Outlet | None = None,
        speaking: Speaking | None = None,
    ) -> int:
        """How many entities got it. Raises TopicError, Denied, ReadingError or QuotaError."""
        account = self.account
        if account is not None and account.has_rates:
            account.check_rates(exchange.timers.now())
        if publication.reading is not None:
            routed = exchange.publish_reading(publication, plans, now, origin, account, speaking)
        else:
            routed = exchange.publish(plans.find(publication.topic.encode()), publication, origin, account)
        if account is not None and account.has_rates:
            account.published(publication.size())
        return routed


def _not_said(given: Properties, reading: Reading) -> tuple[tuple[str, str], ...]:
    """What other doors say of a reading, where the client's own user properties do not say it."""
    said = {name for name, _ in given.get(Property.USER, ())}
    return tuple([pair for pair in reading_headers(reading) if pair[0] not in said])
