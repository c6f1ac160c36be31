"""A consumer that keeps what it gets: an exchange in four lines, for the prompt, for tests and for small programs.

    >>> from fumarole.exchange import Collector, Exchange
    >>> exchange = Exchange("lab")
    >>> collector = Collector(exchange, "volcanoes.*")
    >>> exchange.publish_to("volcanoes.usa", b"21.5")  # how many got it
    1
    >>> collector.messages
    [Delivery(topic='volcanoes.usa', payload=b'21.5', reply='', headers=b'')]

Members of a group share (G1):

    >>> one, two = [Collector(exchange, "numbers", group="workers") for _ in range(2)]
    >>> for number in range(10):
    ...     _ = exchange.publish_to("numbers", b"%d" % number)
    >>> len(one.messages), len(two.messages)
    (5, 5)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fumarole.core.publication import Publication
from fumarole.core.topic import Grammar, check_topic, parse_pattern
from fumarole.exchange.consumer import Consumer

if TYPE_CHECKING:
    from fumarole.exchange.exchange import Exchange


class Delivery(NamedTuple):
    """One message that was delivered."""

    topic: str
    payload: bytes
    reply: str = ""
    headers: bytes = b""


class Collector:
    """An outlet with one consumer and room for everything. Raises PatternError, or TopicError for the group."""

    echo = True

    def __init__(self, exchange: Exchange, pattern: str, group: str = "") -> None:
        parsed = parse_pattern(pattern, exchange.grammar)
        if group:
            check_topic(group, Grammar.CHANNEL)
        self.label = pattern
        self.messages: list[Delivery] = []
        self._exchange = exchange
        self._consumer = exchange.consumer(self, pattern, group, b"")
        exchange.subscribe(self._consumer, pattern=parsed)

    def close(self) -> None:
        """From here on it gets nothing."""
        self._exchange.unsubscribe(self._consumer)

    def has_room(self, weight: int) -> bool:  # noqa: ARG002 - it has, whatever the weight
        return True

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        consumer.accepted += 1
        self.messages.append(Delivery(publication.topic, publication.payload, publication.reply, publication.headers))
