"""The bridge's topic exchange and a fumarole namespace, joined: a message published on one side reaches the other.

    AMQP message to amq.topic, key volcanoes.usa.atka   ──▶   publication on volcanoes.usa.atka
                                                        ◀──

A message that has come across carries a mark, the name of the bridge, and never crosses again: one hop, so nothing
loops, however many bridges there are. Topics of the server's own (`$…`, `_WHERE.…`, `_FORGOTTEN`) and private replies
(`_INBOX.…`) stay where they are. Properties become headers `Amqp-Content-Type` and so on, and properties again the
other way; headers keep their names, and what is no text becomes JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import re
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from msgpack import Timestamp

from fumarole.bridge.bridge import Bridge
from fumarole.bridge.errors import BridgeRefusedError, MalformedError
from fumarole.bridge.fields import PROPERTIES, SHORT, decode_properties
from fumarole.bridge.messages import to_amqp
from fumarole.bridge.operations import Send
from fumarole.bridge.patterns import all_native
from fumarole.client import Client, ClientError, Message, Notice, Refused, Subscription, connect
from fumarole.client.reconnect import log_notice
from fumarole.core.errors import FumaroleError
from fumarole.core.index import Index
from fumarole.core.topic import matches, parse_amqp, parse_wildcards, split, split_amqp

log = logging.getLogger(__name__)

HOP: Final = "x-fumarole-hop"
"""The header, on both sides, that marks a message that has crossed."""
PREFIX: Final = "Amqp-"
PRIVATE: Final = ("$", "_INBOX.", "_WHERE.", "_FORGOTTEN")
BACKOFF: Final = 1.0
MOST_WAITING: Final = 10_000
TELL_EVERY: Final = 10.0
"""Seconds between two lines about publications that the namespace refused."""
_NUMBERS = frozenset(name for name, (_, kind) in PROPERTIES.items() if kind in ("octet", "time"))
_NAME = re.compile(r"[^\s:\x00-\x20\x7f]+")
_OF_PUBLICATION = re.compile("Publish|Reading")
_LINE = re.compile(r"[^\x00-\x1f\x7f]*")

Pairs = list[tuple[str, str]]


def to_headers(properties: dict[str, Any], headers: dict[Any, Any], hop: str) -> Pairs:
    """Names and values of one line each, from an AMQP message's properties and headers."""
    pairs = [(HOP, hop)]
    for name, value in properties.items():
        pairs.append((PREFIX + name.replace("_", "-").title(), _line(value)))
    for name, value in headers.items():
        if isinstance(name, str) and _NAME.fullmatch(name):
            pairs.append((name, _line(value)))
    return pairs


def _line(value: Any) -> str:
    if isinstance(value, Timestamp):
        return str(value.seconds)
    if isinstance(value, str) and _LINE.fullmatch(value):
        return value
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    return value.seconds if isinstance(value, Timestamp) else bytes(getattr(value, "data", value)).hex()


def from_headers(pairs: Iterable[tuple[str, str]], hop: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Properties and headers of an AMQP message, from lines. Headers that AMQP would refuse are left out."""
    properties: dict[str, Any] = {}
    headers: dict[str, Any] = {HOP: hop}
    for name, value in pairs:
        known = name[len(PREFIX) :].lower().replace("-", "_") if name.lower().startswith(PREFIX.lower()) else ""
        if known in PROPERTIES and known not in ("headers", "user_id"):
            if known not in _NUMBERS:
                properties[known] = value
            elif re.fullmatch("[0-9]{1,15}", value):
                properties[known] = int(value)
        elif len(name.encode()) <= SHORT:
            headers.setdefault(name, value)
    return properties, headers


@dataclass(slots=True)
class LinkCounts:
    """Counts of messages that crossed, and of those that could not."""

    to_namespace: int = 0
    to_amqp: int = 0
    not_taken: int = 0
    """By the other side: a key that is no topic, a topic too long, a broker away or too far behind."""


class ExchangeLink:
    """Joins a bridge with a namespace. `run` until cancelled."""

    def __init__(self, bridge: Bridge, namespace: str, servers: str) -> None:
        self.counts = LinkCounts()
        self._bridge = bridge
        self._namespace = namespace
        self._servers = servers
        self._topics = bridge.options.topics or ("#",)
        self._waiting: deque[tuple[str, bytes, bytes]] = deque()
        self._wanted = asyncio.Event()
        self._subscriptions: list[Subscription] = []
        self._told_refusal = -math.inf
        self.connected = False
        bridge.listen(self._hear, self._topics)
        bridge.more_status["link"] = self.report

    def report(self) -> dict[str, Any]:
        """For `status`."""
        return {
            "namespace": self._namespace,
            "state": "connected" if self.connected else "away",
            "to_namespace": self.counts.to_namespace,
            "to_amqp": self.counts.to_amqp,
            "not_taken": self.counts.not_taken + self._dropped(),
        }

    def _dropped(self) -> int:
        """Messages from the namespace that were dropped while AMQP was behind."""
        return sum(subscription.dropped for subscription in self._subscriptions)

    async def run(self) -> None:
        """Connects, and again when it must."""
        told = ""
        while True:
            try:
                # A name without a password is a namespace, where authentication is off (N3); else the address has both.
                user = None if "@" in self._servers else self._namespace
                name = f"bridge {self._bridge.options.name}"
                async with connect(self._servers, user=user, name=name, on_notice=self._noticed) as client:
                    await self._joined(client)
            except* ClientError as errors:
                reason = str(errors.exceptions[0])
                if self.connected or reason != told:
                    log.warning("no link with the namespace %s: %s; trying again", self._namespace, reason)
                    told = reason
            finally:
                self.connected = False
                self.counts.not_taken += self._dropped()
                self._subscriptions = []
            await asyncio.sleep(BACKOFF)

    async def _joined(self, client: Client) -> None:
        patterns = all_native(self._topics)
        async with contextlib.AsyncExitStack() as stack:
            for pattern in patterns:
                self._subscriptions.append(await stack.enter_async_context(client.subscribe(pattern)))
            self.connected = True
            log.info("linked with the namespace %s at %s", self._namespace, client.server)
            async with asyncio.TaskGroup() as group:
                for number, subscription in enumerate(self._subscriptions):
                    group.create_task(self._to_amqp(subscription, patterns[:number]))
                group.create_task(self._to_namespace(client))

    # AMQP to the namespace.

    def _hear(self, key: str, property_list: bytes, body: bytes) -> None:
        if key.startswith(PRIVATE):
            return
        if not self.connected:
            self.counts.not_taken += 1
            return
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.popleft()
            self.counts.not_taken += 1
        self._waiting.append((key, property_list, body))
        self._wanted.set()

    async def _to_namespace(self, client: Client) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while self._waiting:
                key, property_list, body = self._waiting.popleft()
                try:
                    properties, headers = decode_properties(property_list)
                    if HOP in headers:
                        continue
                    pairs = to_headers(properties, headers, self._bridge.options.name)
                    await client.publish(key, body, headers=pairs)
                    self.counts.to_namespace += 1
                except (FumaroleError, ValueError):
                    self.counts.not_taken += 1

    def _noticed(self, notice: Notice) -> None:
        """What the namespace refused was counted as crossed when it was sent. There may be very many: few are told."""
        if not isinstance(notice, Refused) or not _OF_PUBLICATION.search(notice.text):
            log_notice(notice)
            return
        self.counts.to_namespace -= 1
        self.counts.not_taken += 1
        now = time.monotonic()
        if now - self._told_refusal >= TELL_EVERY:
            self._told_refusal = now
            log.warning("the namespace %s: %s", self._namespace, notice)

    # The namespace to AMQP.

    async def _to_amqp(self, subscription: Subscription, earlier: list[str]) -> None:
        """What an earlier subscription has heard too is passed over here. A broker that is behind is waited for."""
        amqp = self._bridge.amqp
        others = [parse_wildcards(pattern) for pattern in earlier]
        wanted = Index()
        for wanted_topic in self._topics:
            wanted.add(parse_amqp(wanted_topic), wanted_topic)
        async for message in subscription:
            topic = message.topic
            if topic.startswith(PRIVATE) or any(matches(other, split(topic)) for other in others):
                continue
            if wanted.match(split_amqp(topic)):
                while amqp.full:
                    await amqp.room()
                self._publish(message)

    def _publish(self, message: Message) -> None:
        pairs = message.header_pairs
        if any(name.lower() == HOP for name, _ in pairs):
            return
        try:
            if len(message.topic.encode()) > SHORT:
                raise MalformedError(f"a key has at most {SHORT} bytes")
            properties, headers = from_headers(pairs, self._bridge.options.name)
            property_list = to_amqp(properties, headers, self._bridge.amqp.user)
            send = Send(self._bridge.options.topic_exchange, message.topic, message.payload, properties, headers)
            self._bridge.amqp.publish(self, send, property_list, self._sent)
        except (BridgeRefusedError, MalformedError):
            self.counts.not_taken += 1

    def _sent(self, refusal: str | None) -> None:
        if refusal is None:
            self.counts.to_amqp += 1
        else:
            self.counts.not_taken += 1
