"""`$SYS/broker/…`: what the node has counted, under the names that Mosquitto uses, for tools that read them (Q5).

They are at the MQTT door only. They are no publications of the exchange: no pattern of another door matches them, and
no recorder gets them. A client that subscribes gets all that its filter matches at once, as retained messages, and then
the new values every ten seconds. The numbers are those of the client's namespace, of all doors together.

    $SYS/broker/clients/connected             MQTT clients of the namespace at this node
    $SYS/broker/publish/messages/received     messages that were published
    $SYS/broker/load/publish/received/1min    the same in a minute, as an average over the last one
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp
from typing import TYPE_CHECKING, Final

from fumarole.core.mqtt_topics import topic_of
from fumarole.core.publication import Publication
from fumarole.core.topic import Pattern, fits, split
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange

if TYPE_CHECKING:
    from fumarole.sessions.mqtt_clients import Clients
    from fumarole.sessions.mqtt_outlet import MqttOutlet

PREFIX: Final = "$SYS/"
EVERY: Final = 10.0
"""Seconds between two tellings."""
AVERAGES: Final = {"1min": 60.0, "5min": 300.0, "15min": 900.0}
CLIENTS_AT_ONCE: Final = 10
"""Clients that are told in one slice."""

Patterns = tuple[Pattern, ...]
Told = dict["MqttOutlet", dict[Consumer, Patterns]]


class Averages:
    """What happens in a minute, as averages that old minutes leave slowly."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self._before: dict[str, int] = {}

    def count(self, counts: dict[str, int], seconds: float) -> None:
        """These are the counts now, so many seconds after the last ones."""
        for name, number in counts.items():
            a_minute = (number - self._before.get(name, number)) * 60.0 / seconds
            for span, length in AVERAGES.items():
                topic = f"load/{name}/{span}"
                old = self.values.get(topic, 0.0)
                self.values[topic] = a_minute + exp(-seconds / length) * (old - a_minute)
        self._before = counts


class BrokerTopics:
    """The subscribers to them, in all namespaces."""

    def __init__(self, clients: Clients, version: str) -> None:
        self._clients = clients
        self._version = version
        self._told: dict[Exchange, Told] = {}
        self._averages: dict[Exchange, Averages] = {}
        """Kept while there are subscribers."""
        self._began: float | None = None
        self._next = 0.0
        self._now = 0.0

    def __len__(self) -> int:
        """Subscriptions."""
        return sum(len(consumers) for told in self._told.values() for consumers in told.values())

    def subscribe(self, exchange: Exchange, outlet: MqttOutlet, consumer: Consumer, patterns: Patterns) -> None:
        """From here on the consumer is told. It is none of the exchange's."""
        self._told.setdefault(exchange, {}).setdefault(outlet, {})[consumer] = patterns
        self._averages.setdefault(exchange, Averages())

    def unsubscribe(self, exchange: Exchange, outlet: MqttOutlet, consumer: Consumer) -> None:
        told = self._told.get(exchange, {})
        consumers = told.get(outlet, {})
        consumers.pop(consumer, None)
        if not consumers:
            told.pop(outlet, None)
        if not told:
            self._told.pop(exchange, None)
            self._averages.pop(exchange, None)

    def send_first(self, exchange: Exchange, consumer: Consumer) -> None:
        """What the topics say now, as retained messages."""
        for outlet, consumers in self._told.get(exchange, {}).items():
            if consumer in consumers:
                for publication in self._publications(exchange):
                    publication.age = 0.0
                    if _match(consumers[consumer], split(publication.topic)):
                        outlet.accept(consumer, publication)

    def tick(self, now: float) -> Iterator[None] | None:
        """Time passes. What is to be done, in slices; None: nothing."""
        self._now = now
        if self._began is None:
            self._began = now
        if now < self._next:
            return None
        self._next = now + EVERY
        for exchange, averages in self._averages.items():
            averages.count(_counts(exchange), EVERY)
        return self._tell() if self._told else None

    def _tell(self) -> Iterator[None]:
        number = 0
        for exchange in list(self._told):
            publications = [(split(each.topic), each) for each in self._publications(exchange)]
            for outlet in list(self._told.get(exchange, {})):
                consumers = self._told.get(exchange, {}).get(outlet, {})
                for words, publication in publications:
                    matching = [consumer for consumer, patterns in consumers.items() if _match(patterns, words)]
                    if matching:
                        outlet.accept(outlet.joined(matching), publication)
                number += 1
                if number % CLIENTS_AT_ONCE == 0:
                    yield

    def _publications(self, exchange: Exchange) -> list[Publication]:
        return [
            Publication(topic_of(f"{PREFIX}broker/{name}", exchange.grammar), text.encode())
            for name, text in self._values(exchange).items()
        ]

    def _values(self, exchange: Exchange) -> dict[str, str]:
        """What is told, by the rest of its name."""
        counters, connected = exchange.counters, self._clients.of(exchange.name)
        values = {
            "version": f"fumarole {self._version}",
            "uptime": f"{self._now - (self._began or self._now):.0f} seconds",
            "clients/connected": str(connected),
            "clients/active": str(connected),
            "clients/total": str(connected),
            "clients/maximum": str(self._clients.most_of(exchange.name)),
            "clients/disconnected": "0",
            "clients/inactive": "0",
            "clients/expired": "0",
            "messages/received": str(counters.received),
            "messages/sent": str(counters.routed),
            "publish/messages/received": str(counters.received),
            "publish/messages/sent": str(counters.routed),
            "publish/messages/dropped": str(counters.overflowed),
            "publish/bytes/received": str(counters.received_bytes),
            "subscriptions/count": str(len(exchange)),
            "retained messages/count": str(len(exchange.retained)),
        }
        for name, value in self._averages[exchange].values.items():
            values[name] = f"{value:.2f}"
        return values


def _match(patterns: Patterns, words: list[str]) -> bool:
    return any(fits(pattern, words) for pattern in patterns)


def _counts(exchange: Exchange) -> dict[str, int]:
    """What averages are made of."""
    counters = exchange.counters
    return {
        "messages/received": counters.received,
        "messages/sent": counters.routed,
        "publish/received": counters.received,
        "publish/sent": counters.routed,
        "publish/dropped": counters.overflowed,
    }
