"""What an MQTT client's packets mean to the exchange (Q1–Q4). It is START until its CONNECT has been answered.

The session ends with the connection: nothing is kept for a client that is away, and nothing is sent twice (D1). Within
the connection QoS 1 and 2 are spoken in full. What the client gets is the matter of sessions/mqtt_outlet.py, and whose
readings it publishes that of sessions/mqtt_speaker.py.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from fumarole.core.errors import FumaroleError, TopicError
from fumarole.core.query.evaluation import Unprepared
from fumarole.exchange.client_ids import ClientClaim, Verdict
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.namespaces import DEFAULT
from fumarole.exchange.node import Node
from fumarole.exchange.permissions import User
from fumarole.exchange.plans import Denied, Plans
from fumarole.exchange.producer import Producer
from fumarole.exchange.quotas import QuotaError
from fumarole.protocols import mqtt_packets as packets
from fumarole.protocols.mqtt import ServerProtocol
from fumarole.protocols.mqtt_fields import LARGEST_VARIABLE, Packet, Property
from fumarole.protocols.mqtt_packets import (
    V3,
    V5,
    Answer,
    Auth,
    Connect,
    Disconnect,
    Event,
    Ping,
    Publish,
    Subscribe,
    Unsubscribe,
)
from fumarole.protocols.mqtt_reasons import FAILURE, Reason
from fumarole.protocols.stream import End
from fumarole.sessions.answers import Answers
from fumarole.sessions.mqtt_clients import OTHER_USER, Key, LastWill, clients_of
from fumarole.sessions.mqtt_forms import identifiers
from fumarole.sessions.mqtt_outlet import MqttOutlet
from fumarole.sessions.mqtt_speaker import METADATA_TOPIC, Speaker, metadata_of
from fumarole.sessions.mqtt_subscriptions import Subscriptions
from fumarole.sessions.stream import (
    PREPARING,
    SHOWN_NAME,
    WORK_AT_ONCE,
    Claim,
    RemoteAddress,
    State,
    StreamSession,
)

RECEIVE_MAXIMUM: Final = 1024
"""Messages of QoS 2 that a client may have under way."""
ALIASES: Final = 64
"""Topic aliases that a client may set."""
GRACE: Final = 1.5
"""A client is gone after so many keep-alive periods of silence."""
TOO_MUCH_WAITS: Final = "too many answers wait"
WORK_OF_A_PUBLISH: Final = 3
WORK_OF_A_CONTROL: Final = 15
"""What packets and filters take besides the messages that they put into outboxes, in the unit of `WORK_AT_ONCE`."""
WORK_OF_A_FILTER: Final = 100
LAST_AT_ONCE: Final = 20
"""Consumers whose retained messages are looked for in one slice."""

NONE_RECEIVED: Final[dict[int, None]] = {}
"""Of every client that has no message of QoS 2 under way yet, and never written to: most are idle."""
ASKING: Final = Claim(None, None, None)
"""While the other nodes are asked about the client id."""


class Terms(NamedTuple):
    """What is set for a door."""

    namespace: str = DEFAULT
    max_qos: int = 2
    max_keep_alive: float | None = None
    """Seconds; None: as long as the client says."""


class MqttSession(StreamSession):
    """One MQTT client."""

    __slots__ = (
        "_answers",
        "_asked_expiry",
        "_clients",
        "_connecting",
        "_key",
        "_quiet_since",
        "_reasons",
        "_received",
        "_silence",
        "_subscriptions",
        "_terms",
        "_undescribed",
        "_will",
        "_will_delay",
        "claim_time",
        "outlet",
        "speaker",
        "speaks_for",
    )  # an instance dict of so many would take 1.6 KB

    NOT_ADMITTED = "this user and password, or token, are not known here"

    def __init__(self, node: Node, remote: RemoteAddress, now: float, owner: Any, terms: Terms) -> None:
        protocol = ServerProtocol(node.limits)
        protocol.alias_maximum = ALIASES
        super().__init__(node, remote, now, owner, protocol)
        self._protocol: ServerProtocol = protocol
        self._terms = terms
        self._clients = clients_of(node)
        self._answers = Answers(node, self.outbox)
        self._connecting: Connect | None = None
        """Until the client is let in."""
        self._key: Key | None = None
        """Its namespace and client id, once it is."""
        self._undescribed: Connect | None = None
        """Its user properties are not the client's metadata yet (A6)."""
        self.claim_time = 0
        """When it has claimed that id, by the hybrid clock."""
        self.speaker: Speaker | None = None
        self.outlet: MqttOutlet | None = None
        self._will: LastWill | None = None
        self._will_delay = 0.0
        self._asked_expiry = 0
        """How long the client wanted its session to be kept. It is not, but its will may wait as long."""
        self._silence = 0.0
        """Seconds after which it is taken for gone; 0: never."""
        self._quiet_since = now
        self._received: dict[int, None] = NONE_RECEIVED
        """Identifiers of QoS 2 that wait for their PUBREL."""
        self._reasons: list[int] | None = None
        """Of the part of a SUBSCRIBE that was taken in; None: of no part of one."""
        self._subscriptions: Subscriptions | None = None
        self.speaks_for: dict[str, Producer] = {}
        """The client as a producer, once it has published a reading. The compiled reader takes those that follow."""

    # What the compiled reader has to know (fastpath/mqtt.pyx).

    @property
    def version(self) -> int:
        return self._protocol.version

    @property
    def aliases(self) -> dict[int, str]:
        """Of topics, as the client has set them."""
        return self._protocol.aliases

    @property
    def packet_limit(self) -> int:
        return self._protocol.packet_limit

    @property
    def max_qos(self) -> int:
        return self._terms.max_qos

    def tick(self, now: float) -> None:
        """Time passes: the handshake's deadline, the keep-alive, and what waits for room in the outbox."""
        self.now = now
        if self.state is State.START:
            if now > self._deadline and self.claim is None:
                self.refuse(Reason.UNSPECIFIED, "no CONNECT came in time")
        elif self.state is State.OPEN:
            if self.heard:
                self.heard, self._quiet_since = False, now
            elif self._silence and now - self._quiet_since > self._silence:
                self.refuse(Reason.KEEP_ALIVE, "nothing was heard within one and a half keep-alive periods")
                return
            if self.outbox.late and self.outlet is not None:
                self.outlet.go_on()

    # Packets.

    def _take(self, event: Event) -> int:
        if isinstance(event, Publish):
            return WORK_OF_A_PUBLISH + self._publish(event)
        if isinstance(event, Answer):
            self._answer(event)
            return WORK_OF_A_PUBLISH
        if isinstance(event, Subscribe):
            self._subscribe(event)
            return WORK_OF_A_FILTER * len(event.filters)
        if isinstance(event, Unsubscribe):
            self._unsubscribe(event)
            return WORK_OF_A_FILTER * len(event.filters)
        self._control(event)
        return WORK_OF_A_CONTROL

    def _control(self, event: Event) -> None:
        match event:
            case Ping():
                self.outbox.push(packets.PINGRESP)
            case Connect():
                self._connect(event)
            case Disconnect():
                self._disconnect(event)
            case Auth():
                self.refuse(Reason.PROTOCOL_ERROR, "an AUTH has no place where no method was agreed on")
            case End():
                self.close()
            case _:
                raise AssertionError(event)

    # Connecting.

    def _connect(self, event: Connect) -> None:
        self._connecting = event
        if Property.AUTHENTICATION_METHOD in event.properties:
            self.refuse(Reason.AUTHENTICATION_METHOD, "there are no authentication methods here, but user and password")
        elif event.version == V3 and not event.client_id and not event.clean:
            self.refuse(Reason.CLIENT_ID, "a client without an id begins a clean session")
        elif event.will is not None and event.will.qos > self._terms.max_qos:
            self.refuse(Reason.NO_QOS, f"the greatest QoS is {self._terms.max_qos} here")
        elif self.node.authentication:
            self._claim(event)
        else:
            self._begin(self._terms.namespace)

    def _claim(self, event: Connect) -> None:
        """A user and a password, or a token in the place of either."""
        try:
            password = None if event.password is None else event.password.decode()
        except UnicodeDecodeError:
            self.refuse(Reason.BAD_LOGIN, "a password is UTF-8 here")
            return
        if event.user and password is not None:
            self.claim = Claim(event.user, password, None)
        else:
            self.claim = Claim(None, None, event.user or password)

    def _begin(self, namespace: str) -> None:
        event = self._connecting
        assert event is not None
        self._connecting = None
        if not self._join(namespace):
            return
        assert self.exchange is not None
        given = event.properties
        client_id = event.client_id or f"auto-{secrets.token_hex(8)}"
        key = self.exchange.name, client_id
        older = self._clients.get(key)
        if older is not None and older.user_name() != self.user_name():
            self.refuse(Reason.CLIENT_ID, OTHER_USER)
            return
        self.label = f"{self.client_id} {client_id[:SHOWN_NAME]}"
        largest = given.get(Property.MAXIMUM_PACKET_SIZE, LARGEST_VARIABLE)
        maximum = given.get(Property.RECEIVE_MAXIMUM, 0xFFFF)
        aliases = given.get(Property.TOPIC_ALIAS_MAXIMUM, 0)
        self.outlet = MqttOutlet(
            self.node, self.exchange, self.outbox, self.label, event.version, largest, maximum, aliases
        )
        self.speaker = Speaker(self.node, self._user, key, self.account)
        sees = self._user.subscribe if self._user else None
        self._subscriptions = Subscriptions(
            self.exchange,
            self.outlet,
            self._consumers,
            sees,
            self.account,
            self.node.limits,
            self._terms.max_qos,
            self._clients.broker_topics,
        )
        self._clients.take(key, self)
        self._key = key
        self.claim_time = self.node.namespaces.clock.now()
        self.claim, self.waits_for_nodes = ASKING, True
        is_asked_here = True

        def settled(verdict: Verdict) -> None:
            self.claim, self.waits_for_nodes = None, False
            if self.state is State.OPEN:
                self._welcome(event, client_id, verdict)
                if not is_asked_here:
                    self._advance(WORK_AT_ONCE)
                    self.outbox.owner.admitted()

        self.node.client_ids.claim(ClientClaim(*key, self.user_name(), self.claim_time), settled)
        is_asked_here = False

    def _welcome(self, event: Connect, client_id: str, verdict: Verdict) -> None:
        """The other nodes have said whether the client may have its id. If it may, it is let in."""
        if verdict is Verdict.OTHER_USER:
            self.refuse(Reason.CLIENT_ID, OTHER_USER)
            return
        if verdict is Verdict.TOO_LATE:
            self.take_over()
            return
        assert self._key is not None
        self._protocol.greeted = True
        self._asked_expiry = event.properties.get(Property.SESSION_EXPIRY, 0)
        self._set_will(event, self._key)
        keep_alive = self._set_keep_alive(event)
        self._describe(event)
        self.outbox.push(packets.connack(event.version, self._offer(event, client_id, keep_alive)))

    def user_name(self) -> str | None:
        """Of its user; None where there are no users."""
        return self._user.name if self._user else None

    def _set_will(self, event: Connect, key: Key) -> None:
        if event.will is not None:
            assert self.speaker is not None
            self._will = LastWill(key, self.speaker, event.will)
            self._delay_will(self._asked_expiry)

    def _delay_will(self, expiry: int) -> None:
        """A will waits no longer than the session that the client has asked for."""
        if self._will is not None:
            self._will_delay = min(self._will.will.properties.get(Property.WILL_DELAY, 0), expiry)

    def _set_keep_alive(self, event: Connect) -> int | None:
        """Seconds that the client has to keep to instead of its own; None: its own hold."""
        most, asked = self._terms.max_keep_alive, event.keep_alive
        told = None
        if most is not None and event.version == V5 and not 0 < asked <= most:
            asked = told = max(1, min(int(most), 0xFFFF))
        self._silence = GRACE * asked
        self._quiet_since = self.now
        return told

    def _describe(self, event: Connect) -> None:
        """User properties of a CONNECT are what the client says about itself (Q4)."""
        users = event.properties.get(Property.USER)
        if users:
            assert self.speaker is not None
            assert self.exchange is not None
            try:
                self.speaker.describe(self.exchange, metadata_of(users), self.now, self.speaking)
            except Unprepared as change:
                self._undescribed = event
                self._wait(change)
            except FumaroleError:
                self.exchange.counters.refused += 1

    def _prepared(self) -> None:
        event, self._undescribed = self._undescribed, None
        if event is not None and self.claim is PREPARING and self.state is State.OPEN:
            self.claim, self.waits_for_nodes = None, False
            self._describe(event)
            if self.claim is not None:
                return
            self.claim = PREPARING
        super()._prepared()

    def _offer(self, event: Connect, client_id: str, keep_alive: int | None) -> dict[int, Any]:
        """The properties of the CONNACK."""
        given = event.properties
        offer: dict[int, Any] = {
            Property.RECEIVE_MAXIMUM: RECEIVE_MAXIMUM,
            Property.TOPIC_ALIAS_MAXIMUM: ALIASES,
            Property.MAXIMUM_PACKET_SIZE: self._protocol.packet_limit,
        }
        if given.get(Property.SESSION_EXPIRY):
            offer[Property.SESSION_EXPIRY] = 0
        if self._terms.max_qos < 2:
            offer[Property.MAXIMUM_QOS] = self._terms.max_qos
        if not event.client_id:
            offer[Property.ASSIGNED_CLIENT_ID] = client_id
        if keep_alive is not None:
            offer[Property.SERVER_KEEP_ALIVE] = keep_alive
        if given.get(Property.REQUEST_RESPONSE_INFORMATION):
            offer[Property.RESPONSE_INFORMATION] = f"_INBOX/{secrets.token_hex(11)}"
        return offer

    # Publishing.

    def _joined(self) -> tuple[Exchange, Plans, Speaker, MqttOutlet]:
        assert self.exchange is not None
        assert self.plans is not None
        assert self.speaker is not None
        assert self.outlet is not None
        return self.exchange, self.plans, self.speaker, self.outlet

    def _publish(self, event: Publish) -> int:
        """How much work it was: to how many entities it went, and what was looked at to find them."""
        exchange, *_ = self._joined()
        if event.qos > self._terms.max_qos:
            self.refuse(Reason.NO_QOS, f"the greatest QoS is {self._terms.max_qos} here")
            return 0
        if event.qos == 2 and not self._receive(event):
            return 0
        looked_at = exchange.index.looked_at
        try:
            routed, reason, why = self._published(event)
        except Unprepared:
            self._received.pop(event.packet_id, None)  # it comes again
            raise
        if reason >= FAILURE:
            exchange.counters.refused += 1
            self.note_refused(f"PUBLISH: {why}")
        if event.qos:
            if self._protocol.version == V3:
                reason, why = Reason.SUCCESS, ""
            if event.qos == 2 and reason >= FAILURE:
                self._received.pop(event.packet_id, None)
            kind = Packet.PUBACK if event.qos == 1 else Packet.PUBREC
            # Most codes say enough, and some clients take no PUBACK with words.
            words = self._protocol.shown(why) if reason is Reason.IMPLEMENTATION else ""
            self.outbox.push(packets.answer(kind, event.packet_id, reason, words))
        return routed + exchange.index.looked_at - looked_at

    def _receive(self, event: Publish) -> bool:
        """Is this message of QoS 2 a new one?"""
        if event.packet_id in self._received:
            reason = Reason.SUCCESS if event.dup or self._protocol.version == V3 else Reason.PACKET_ID_IN_USE
            self.outbox.push(packets.answer(Packet.PUBREC, event.packet_id, reason))
            return False
        if len(self._received) >= RECEIVE_MAXIMUM and self._protocol.version == V5:
            self.refuse(Reason.RECEIVE_MAXIMUM, f"at most {RECEIVE_MAXIMUM} messages may be under way")
            return False
        if self._received is NONE_RECEIVED:
            self._received = {}
        self._received[event.packet_id] = None
        return True

    def _published(self, event: Publish) -> tuple[int, Reason, str]:
        """To how many it went, and what the client is told."""
        exchange, plans, speaker, outlet = self._joined()
        try:
            if event.topic == METADATA_TOPIC:
                speaker.describe_in_json(exchange, event.payload, self.now, self.speaking)
                return 0, Reason.SUCCESS, ""
            publication = speaker.publication(event, exchange)
            outlet.own, outlet.skipped = publication, 0
            try:
                routed = speaker.publish(publication, exchange, plans, self.now, outlet, self.speaking)
            finally:
                outlet.own = None
            if publication.reading is not None and publication.reading.producer == speaker.identity:
                self.speaks_for[speaker.identity] = exchange.producers.known[speaker.identity]
        except Denied as error:
            return 0, Reason.NOT_AUTHORIZED, str(error)
        except TopicError as error:
            return 0, Reason.TOPIC, str(error)
        except QuotaError as error:
            return 0, Reason.QUOTA, str(error)
        except FumaroleError as error:
            return 0, Reason.IMPLEMENTATION, str(error)
        if outlet.skipped:
            routed -= outlet.skipped
            exchange.counters.routed -= outlet.skipped
        return routed, Reason.SUCCESS if routed else Reason.NO_MATCH, ""

    def _answer(self, event: Answer) -> None:
        outlet = self.outlet
        assert outlet is not None
        if event.packet != Packet.PUBREL:
            outlet.take(event)
            return
        is_known = event.packet_id in self._received
        self._received.pop(event.packet_id, None)
        reason = 0 if is_known or self._protocol.version == V3 else Reason.PACKET_ID_UNKNOWN
        self.outbox.push(packets.answer(Packet.PUBCOMP, event.packet_id, reason))

    # Subscribing.

    def _subscribe(self, event: Subscribe) -> None:
        subscriptions = self._subscriptions
        assert subscriptions is not None
        identifier = identifiers(event.properties.get(Property.SUBSCRIPTION_IDENTIFIER, []))
        why, reasons = "", self._reasons or []
        for each in event.filters:
            reason, text = subscriptions.begin(each, identifier)
            reasons.append(reason)
            if reason >= FAILURE:
                self.note_refused(f"SUBSCRIBE: {text}")
            why = why or text
        self._reasons = None if event.is_last else reasons
        if event.is_last:
            self._confirm(Packet.SUBACK, event.packet_id, reasons, why)
            waiting = subscriptions.take_waiting()
            if waiting:
                self.node.confirmations.after(self._ticket, partial(self._send_last, waiting))

    def _send_last(self, consumers: list[Consumer]) -> None:
        """The client has been told of its subscriptions: now it gets what is retained (F3)."""
        self.node.namespaces.slices.begin(self._send_last_in_slices(consumers))

    def _send_last_in_slices(self, consumers: list[Consumer]) -> Iterator[None]:
        for number, consumer in enumerate(consumers, 1):
            if self._subscriptions is None or self.state is not State.OPEN:
                return
            self._subscriptions.send_last(consumer)
            if number % LAST_AT_ONCE == 0:
                yield

    def _unsubscribe(self, event: Unsubscribe) -> None:
        subscriptions = self._subscriptions
        assert subscriptions is not None
        reasons = self._reasons or []
        for text in event.filters:
            reasons.append(Reason.SUCCESS if subscriptions.end(text) else Reason.NO_SUBSCRIPTION)
        self._reasons = None if event.is_last else reasons
        if event.is_last:
            self._confirm(Packet.UNSUBACK, event.packet_id, reasons, "")

    def _confirm(self, kind: Packet, packet_id: int, reasons: list[int], why: str) -> None:
        """C2: every live node knows of the subscriptions before the client is told."""
        self._ticket = self.node.confirmations.ticket()
        words = self._protocol.shown(why, len(reasons))
        answer = packets.acknowledged(kind, self._protocol.version, packet_id, reasons, words)
        if not self._answers.confirm(answer, self._ticket):
            self.refuse(Reason.QUOTA, TOO_MUCH_WAITS)

    # The rules of its user.

    def renew(self, user: User) -> None:
        """A7. A client that may keep its filters goes on; another one is cut off: MQTT cannot end one of them."""
        old, self._user = self._user, user
        if user == old or self.exchange is None or self._subscriptions is None or self.state is not State.OPEN:
            return
        if not self._subscriptions.renew(user.subscribe):
            self.refuse(Reason.NOT_AUTHORIZED, "the rules of this user have changed, connect again")
            return
        assert self.speaker is not None
        self.is_admin = self.node.is_admin(user, self._address)
        self.account.renew(user.quota)
        self.plans = self.exchange.plans(user.publish)
        self.speaker.renew(user)
        self.speaks_for.clear()

    # The end.

    def _disconnect(self, event: Disconnect) -> None:
        expiry = event.properties.get(Property.SESSION_EXPIRY)
        if expiry and not self._asked_expiry:
            self.refuse(Reason.PROTOCOL_ERROR, "a session that ends with its connection cannot be made longer")
            return
        if expiry is not None:
            self._delay_will(expiry)
        if event.reason == Reason.SUCCESS:
            self._will = None
        self.close()

    def take_over(self) -> None:
        """Another connection has the same client id (Q3)."""
        self.refuse(Reason.TAKEN_OVER, "another connection has this client id now")

    def send_away(self) -> None:
        """The node stops. Its clients go elsewhere, and their wills are not published."""
        self._will = None
        self.refuse(Reason.SHUTTING_DOWN, "this node stops")

    def refuse(self, reason: Reason, text: str) -> None:
        """Tells the client why, and ends the session."""
        if self.state is not State.CLOSED:
            self.outbox.push(self._protocol.refuse(reason, text))
            self.close()

    def _error(self, text: str) -> bytes:
        return self._protocol.refuse(_reason_of(text, self.state), text)

    def close(self) -> None:
        if self.state is State.CLOSED:
            return
        self._answers.close()
        if self._key is not None:
            self._clients.release(self._key, self)
        will, self._will = self._will, None
        if self.outlet is not None:
            self.outlet.close()
        if self._subscriptions is not None:
            self._subscriptions.close()
        super().close()
        if will is not None:
            self._clients.bequeath(will, self._will_delay, self.now)


def _reason_of(text: str, state: State) -> Reason:
    """The reason code of a sentence that doors say of any session."""
    if text == MqttSession.NOT_ADMITTED:
        return Reason.BAD_LOGIN
    if text.startswith("Authentication Timeout"):
        return Reason.BUSY
    if text.startswith("Authorization Violation"):
        return Reason.NOT_AUTHORIZED
    return Reason.UNSPECIFIED if state is State.START else Reason.QUOTA
