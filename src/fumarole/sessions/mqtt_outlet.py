"""What an MQTT client gets: an outlet of the exchange, whose consumers without a group are one entity (D2).

The key of a consumer says how its filter wants messages: a byte of options, then the subscription identifier as a
property. Where several filters of a connection match, one consumer is joined of them: the greatest QoS, and all
identifiers.

    a/+  QoS 0, identifier 1     a/#  QoS 1     a topic a/b: one copy, QoS 1, identifier 1
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from fumarole.core.publication import Publication
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.gathering import Gathering
from fumarole.exchange.node import Node
from fumarole.exchange.outbox import Outbox, Overflow
from fumarole.exchange.retained import Kept
from fumarole.protocols import mqtt_packets as packets
from fumarole.protocols.mqtt_fields import Packet
from fumarole.protocols.mqtt_packets import V5, Answer
from fumarole.protocols.mqtt_reasons import FAILURE, Reason
from fumarole.sessions.mqtt_forms import RETAINED_BLOCK, Form, alias_property, form_of
from fumarole.sessions.mqtt_window import Window

ALIASES: Final = 64
"""Topic aliases that are set for one client, at most."""
NO_ALIASES: Final[dict[bytes, int]] = {}
"""Of every client that takes none."""
NO_TOPIC: Final = b"\x00\x00"
QOS: Final = 0x03
NO_LOCAL: Final = 0x04
AS_PUBLISHED: Final = 0x08
WILD: Final = 0x40
"""The filter begins with a wildcard, and so matches no topic of the server's own."""


class MqttOutlet:
    """Of one connection that has been let in."""

    __slots__ = (
        "_aliases",
        "_exchange",
        "_joined",
        "_most_aliases",
        "_node",
        "_window",
        "label",
        "largest",
        "outbox",
        "own",
        "skipped",
        "takes_packets",
        "unsayable",
        "version",
    )

    echo = True

    def __init__(
        self,
        node: Node,
        exchange: Exchange,
        outbox: Outbox,
        label: str,
        version: int,
        largest: int,
        maximum: int,
        aliases: int = 0,
    ) -> None:
        self.label = label
        self.outbox = outbox
        self.version = version
        self.own: Publication | None = None
        """What the client publishes just now."""
        self.skipped = 0
        """How often that was not sent back to it, because it wants none of its own."""
        self.unsayable = 0
        """Messages that were no MQTT message, or larger than the client takes."""
        self._node = node
        self._exchange = exchange
        self.largest = largest
        self._window = Window(maximum)
        self._joined: dict[tuple[bytes, ...], Consumer] | None = None
        """By the keys of the consumers that match together; None: no two have, since filters have changed."""
        self._most_aliases = min(aliases, ALIASES)
        self.takes_packets = not self._most_aliases
        """May the hot path write messages of QoS 0 and 1 into the outbox, as long as none waits here?"""
        self._aliases: dict[bytes, int] = {} if self._most_aliases else NO_ALIASES
        """Of topics, as the client was told with messages that cannot be dropped."""

    # An outlet of the exchange.

    def has_room(self, weight: int) -> bool:
        return self.outbox.has_room(weight + self._window.size)

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        options = consumer.key[0]
        if options & NO_LOCAL and publication is self.own:
            self.skipped += 1
            return
        form = form_of(publication, self._exchange.grammar)
        is_last = publication.age is not None
        consumer.accepted += 1
        if form.topic is None or form.is_expired or (options & WILD and publication.topic.startswith("$")):
            self._drop(consumer)
            return
        self._send(
            consumer, form, min(options & QOS, form.qos), is_last or (form.retain and bool(options & AS_PUBLISHED))
        )

    def send_last(self, consumer: Consumer, kept: Kept) -> bool:
        """Sends a last value without making a publication of it. False: it is not of the usual form."""
        is_usual = self.takes_packets and kept.headers == RETAINED_BLOCK
        return is_usual and self._node.parts.send_retained(consumer, self, kept.topic, kept.payload)

    def joined(self, consumers: list[Consumer]) -> Consumer:
        if len(consumers) == 1:
            return consumers[0]
        keys = tuple([consumer.key for consumer in consumers])
        if self._joined is None:
            self._joined = {}
        joined = self._joined.get(keys)
        if joined is None:
            joined = self._joined[keys] = self._exchange.consumer(self, "", "", joined_key(keys))
            if any(isinstance(consumer.stage, Gathering) for consumer in consumers):
                joined.stage = Gatherings(self._exchange, consumers)
        return joined

    def filters_changed(self) -> None:
        """Which filters match together is another matter now."""
        self._joined = None

    # Sending.

    def _send(self, consumer: Consumer, form: Form, qos: int, retain: bool) -> None:
        identifiers = consumer.key[1:] if self.version == V5 else b""
        size = form.size(self.version, identifiers)
        if size > self.largest:
            self._drop(consumer)
        elif self._window or (qos and not self._may_send(size)):
            self._wait(consumer, form, qos, retain, size)
        elif qos:
            # Not to be dropped any more: the client would never acknowledge it.
            self.outbox.push(self._frame(form, qos, retain, identifiers))
        elif self._most_aliases and self.outbox.has_room(size):
            is_set = form.topic in self._aliases or len(self._aliases) >= self._most_aliases
            # The message that sets an alias cannot be dropped either.
            self.outbox.push(self._frame(form, 0, retain, identifiers), consumer if is_set else None)
        elif identifiers:
            self.outbox.push(form.frame(self.version, 0, 0, retain, identifiers), consumer)
        else:
            self.outbox.push(form.plain(self.version, retain), consumer)

    def _frame(self, form: Form, qos: int, retain: bool, identifiers: bytes) -> bytes:
        """A message as an alias of its topic, where the client takes them. One of QoS 1 or 2 gets under way."""
        topic = form.topic
        assert topic is not None
        number = self._window.begin() if qos else 0
        alias = self._aliases.get(topic, 0)
        if alias:
            return form.frame(self.version, qos, number, retain, alias_property(alias) + identifiers, NO_TOPIC)
        if len(self._aliases) < self._most_aliases:
            alias = self._aliases[topic] = len(self._aliases) + 1
            identifiers = alias_property(alias) + identifiers
        return form.frame(self.version, qos, number, retain, identifiers)

    def _may_send(self, size: int) -> bool:
        """One of QoS 1 or 2? They may take half of the outbox, since they cannot be dropped there."""
        outbox = self.outbox
        is_small = outbox.size + size <= self._exchange.outbox_limit // 2 or not outbox.size
        return is_small and self._window.has_identifier() and outbox.has_room(size)

    def begin(self, size: int) -> int:
        """The packet identifier of a message of so many bytes that gets under way; 0: it has to wait."""
        return self._window.begin() if self._may_send(size) else 0

    def _wait(self, consumer: Consumer, form: Form, qos: int, retain: bool, size: int) -> None:
        """It gets in line, if there is room (D6)."""
        window, overflow = self._window, self._exchange.overflow
        if not self.has_room(size) and overflow is Overflow.DISCONNECT:
            self.outbox.overflowed = True
            self._node.ready.append(self.outbox.owner)
        while window and not self.has_room(size) and overflow is Overflow.DROP_OLDEST:
            self._drop(window.take().consumer)
        if self.has_room(size):
            window.put(consumer, form, qos, retain, size, self._exchange.timers.now())
            self.outbox.late = True
        else:
            self._drop(consumer)

    def _drop(self, consumer: Consumer) -> None:
        consumer.dropped += 1
        self._exchange.counters.overflowed += 1

    def go_on(self) -> None:
        """With what waits, as far as the window and the outbox allow."""
        window = self._window
        while window:
            first = window.first()
            if not (self._may_send(first.size) if first.qos else self.outbox.has_room(first.size)):
                return
            window.take()
            form = first.form.after(self._exchange.timers.now() - first.since)
            identifiers = first.consumer.key[1:] if self.version == V5 else b""
            if form is None:
                self._drop(first.consumer)
            elif first.qos:
                self.outbox.push(self._frame(form, first.qos, first.retain, identifiers))
            else:
                self.outbox.push(form.frame(self.version, 0, 0, first.retain, identifiers), first.consumer)
            if not window:
                self.outbox.late = False

    # What the client answers.

    def take(self, event: Answer) -> None:
        """PUBACK, PUBREC or PUBCOMP."""
        window, number = self._window, event.packet_id
        if event.packet != Packet.PUBREC or event.reason >= FAILURE:
            self.end(number)
            return
        if window.receive(number):
            self.outbox.push(packets.answer(Packet.PUBREL, number))
        else:
            reason = Reason.PACKET_ID_UNKNOWN if self.version == V5 else 0
            self.outbox.push(packets.answer(Packet.PUBREL, number, reason))
        self.go_on()

    def end(self, packet_id: int) -> None:
        """The client has this message, or refuses it."""
        self._window.end(packet_id)
        if self._window:
            self.go_on()

    def close(self) -> None:
        """The connection is over: what waited is dropped."""
        for consumer in self._window.clear():
            self._drop(consumer)
        self._joined = None


class Gatherings:
    """The stage of a joined consumer, while some of those that it is made of wait for retained messages (F3)."""

    def __init__(self, exchange: Exchange, consumers: list[Consumer]) -> None:
        self._exchange = exchange
        self._consumers = list(consumers)

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        stages = [each.stage for each in self._consumers if isinstance(each.stage, Gathering)]
        if not stages:
            consumer.stage = None
        heard = [stage.hears(publication) for stage in stages]
        if len(heard) < len(self._consumers) or any(heard):
            consumer.outlet.accept(consumer, publication)
        else:
            self._exchange.counters.routed -= 1

    def end(self) -> None:
        """It ends with its outlet."""


@lru_cache(256)
def key_of(qos: int, no_local: bool, as_published: bool, is_wild: bool, identifier: bytes) -> bytes:
    """The key of a consumer: one object for all that want their messages alike."""
    options = qos | (NO_LOCAL if no_local else 0) | (AS_PUBLISHED if as_published else 0) | (WILD if is_wild else 0)
    return bytes((options,)) + identifier


def joined_key(keys: tuple[bytes, ...]) -> bytes:
    """Of several filters that match together."""
    qos = max(key[0] & QOS for key in keys)
    no_local = all(key[0] & NO_LOCAL for key in keys)
    as_published = any(key[0] & AS_PUBLISHED for key in keys)
    is_wild = all(key[0] & WILD for key in keys)
    return key_of(qos, no_local, as_published, is_wild, b"".join(key[1:] for key in keys))
