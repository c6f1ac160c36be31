"""The filters of one MQTT client, and the consumers that they are.

volcanoes/usa/+             volcanoes.usa.*
volcanoes/#                 volcanoes and volcanoes.>: two consumers, one entity
$share/recorders/a/b        a.b, in the group recorders
$LAST/volcanoes/#           the same, and the last messages of all topics first (F9)

A user who may subscribe to `volcanoes.>` may subscribe to `volcanoes/#`: what is denied of a filter, here `volcanoes`
itself, is left out at delivery.
"""

from __future__ import annotations

from typing import Final

from fumarole.core.errors import PatternError, TopicError
from fumarole.core.limits import Limits
from fumarole.core.mqtt_topics import patterns_of, topic_of
from fumarole.core.pattern_options import split_options
from fumarole.core.topic import Grammar, Pattern, check_topic, parse_pattern, parse_wildcards
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.gathering import Gathering, Last
from fumarole.exchange.permissions import Permissions
from fumarole.exchange.quotas import Account, QuotaError
from fumarole.protocols.mqtt_packets import Filter
from fumarole.protocols.mqtt_reasons import Reason
from fumarole.sessions.mqtt_broker_topics import PREFIX, BrokerTopics
from fumarole.sessions.mqtt_outlet import MqttOutlet, key_of
from fumarole.sessions.stream import SHOWN_NAME

SHARE: Final = "$share/"
NONE_OF_THE_BROKER: Final[dict[str, tuple[Consumer, tuple[Pattern, ...]]]] = {}
"""Of every client without a subscription to the broker's own topics, and never written to: most have none."""


class Subscriptions:
    """Of one connection. Its session has the consumers too, and takes them out of the exchange at the end."""

    __slots__ = (
        "_account",
        "_broker_topics",
        "_consumers",
        "_exchange",
        "_max_qos",
        "_most",
        "_outlet",
        "_own",
        "_sees",
        "_waiting",
    )

    def __init__(
        self,
        exchange: Exchange,
        outlet: MqttOutlet,
        consumers: dict[bytes, Consumer],
        sees: Permissions | None,
        account: Account,
        limits: Limits,
        max_qos: int,
        broker_topics: BrokerTopics,
    ) -> None:
        self._exchange = exchange
        self._outlet = outlet
        self._consumers = consumers
        self._sees = sees
        self._account = account
        self._most = limits.consumers_per_connection
        self._max_qos = max_qos
        self._broker_topics = broker_topics
        self._own: dict[str, tuple[Consumer, tuple[Pattern, ...]]] = NONE_OF_THE_BROKER
        """Of the broker's own topics, by filter: no consumers of the exchange."""
        self._waiting: list[Consumer] | None = None
        """Consumers that want what is retained, once the client has been told of them."""

    def begin(self, asked: Filter, identifier: bytes) -> tuple[int, str]:
        """What the client is told about one filter: a reason code, and why."""
        exchange = self._exchange
        try:
            group, text = self._group_of(asked.text)
            options, text = split_options(text, "/")
            texts = patterns_of(_in_mqtt(text), exchange.grammar)
            is_own = text.startswith(PREFIX)
            patterns = [parse_wildcards(each) if is_own else parse_pattern(each, exchange.grammar) for each in texts]
        except (PatternError, TopicError) as error:
            return Reason.FILTER, f"{asked.text[:SHOWN_NAME]}: {error}"
        if self._sees is not None and not self._sees.allows_pattern(patterns[-1]):
            # 0x80 as in 3.1.1, with words: not every client of version 5 takes 0x87 in a SUBACK.
            return Reason.UNSPECIFIED, f"you may not subscribe to {asked.text[:SHOWN_NAME]}"
        is_new = not self.end(asked.text)
        if len(self._consumers) + len(self._own) + len(texts) > self._most:
            return Reason.QUOTA, "maximum subscriptions exceeded"
        qos = min(asked.qos, self._max_qos)
        key = key_of(qos, asked.no_local, asked.as_published, text[0] in "+#", identifier)
        last = Last.ALL if options.last else _retained(asked, is_new)
        if is_own:
            if group:
                return Reason.FILTER, f"{asked.text[:SHOWN_NAME]}: the broker's own topics cannot be shared"
            self._begin_own(asked.text, key, tuple(patterns), last)
            return qos, ""
        for part, (each, pattern) in enumerate(zip(texts, patterns, strict=True)):
            consumer = exchange.consumer(self._outlet, each, group, key, self._sees, self._account)
            try:
                exchange.subscribe(consumer, pattern=pattern, last=last, every=options.every)
            except QuotaError as error:
                self.end(asked.text)
                return Reason.QUOTA, str(error)
            self._consumers[_name(asked.text, part)] = consumer
            if isinstance(consumer.stage, Gathering):
                self._wait(consumer)
        return qos, ""

    def _begin_own(self, text: str, key: bytes, patterns: tuple[Pattern, ...], last: Last) -> None:
        consumer = self._exchange.consumer(self._outlet, text, "", key)
        if not self._own:
            self._own = {}
        self._own[text] = consumer, patterns
        self._broker_topics.subscribe(self._exchange, self._outlet, consumer, patterns)
        if last is not Last.NONE:
            self._wait(consumer)

    def _wait(self, consumer: Consumer) -> None:
        if self._waiting is None:
            self._waiting = []
        self._waiting.append(consumer)

    def send_last(self, consumer: Consumer) -> None:
        """It gets what is retained."""
        if any(consumer is own for own, _ in self._own.values()):
            self._broker_topics.send_first(self._exchange, consumer)
        else:
            self._exchange.send_last(consumer)

    def take_waiting(self) -> list[Consumer]:
        """Those that want what is retained. The client is told of them now."""
        waiting, self._waiting = self._waiting, None
        return waiting or []

    def end(self, text: str) -> bool:
        """Ends a subscription. False: there is none such."""
        found = False
        for part in range(2):
            consumer = self._consumers.pop(_name(text, part), None)
            if consumer is not None:
                self._exchange.unsubscribe(consumer)
                found = True
        own, _ = self._own.pop(text, (None, ()))
        if own is not None:
            self._broker_topics.unsubscribe(self._exchange, self._outlet, own)
            found = True
        self._outlet.filters_changed()
        return found

    def renew(self, sees: Permissions | None) -> bool:
        """The user may now receive this. False: not all that it has subscribed to."""
        if sees == self._sees:
            return True
        self._sees = sees
        consumers = list(self._consumers.values())
        patterns = [
            parse_wildcards(each.pattern)
            for name, each in self._consumers.items()
            if b"1" + name[1:] not in self._consumers or name[:1] == b"1"
        ]
        patterns += [of_broker[-1] for _, of_broker in self._own.values()]
        if sees is not None and not all(map(sees.allows_pattern, patterns)):
            return False
        for consumer in consumers:
            self._exchange.show(consumer, sees)
        self._outlet.filters_changed()
        return True

    def close(self) -> None:
        """The connection is gone. Its consumers of the exchange are the session's to end."""
        for own, _ in self._own.values():
            self._broker_topics.unsubscribe(self._exchange, self._outlet, own)
        self._own = NONE_OF_THE_BROKER

    def _group_of(self, text: str) -> tuple[str, str]:
        """The group of a shared subscription, and its filter."""
        if not text.startswith(SHARE):
            return "", text
        name, slash, rest = text[len(SHARE) :].partition("/")
        if not name or not slash or not rest or "+" in name or "#" in name:
            raise PatternError("a shared subscription is $share/GROUP/FILTER", len(SHARE))
        group = topic_of(name, Grammar.CHANNEL)  # that of group names at every door
        check_topic(group, Grammar.CHANNEL)
        return group, rest


def _name(text: str, part: int) -> bytes:
    """Under which a consumer of a filter is kept: `a/#` has two."""
    return b"%d%b" % (part, text.encode())


def _in_mqtt(text: str) -> str:
    """A filter of options alone goes on with everything (F9)."""
    return "#" if text == ">" else text


def _retained(asked: Filter, is_new: bool) -> Last:
    """What the retain handling of a filter asks for."""
    return Last.RETAINED if asked.handling == 0 or (asked.handling == 1 and is_new) else Last.NONE
