"""What a NATS client's operations mean to the exchange.

A session is START until CONNECT has been answered, then OPEN, at last CLOSED. In between it may be waiting for
somebody to look at the credentials: then nothing more is heard until `admit`.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, NamedTuple

from fumarole.core import headers
from fumarole.core.errors import NamespaceError, PatternError, TopicError
from fumarole.core.publication import Publication
from fumarole.core.topic import check_topic, parse_pattern
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.namespaces import DEFAULT
from fumarole.exchange.node import Node
from fumarole.exchange.outbox import Overflow
from fumarole.exchange.permissions import User
from fumarole.exchange.plans import Denied, Plans, decode_topic
from fumarole.protocols import nats
from fumarole.protocols.nats import Publish

EMPTY = "$EMPTY"
"""How this door writes the empty topic (T9)."""
STATS = "$FUM.stats"
"""A request to this topic is answered with the counters of the namespace (L3)."""
CONSUMERS = "$FUM.consumers"
"""The same for the consumers of the namespace that lost most."""
DOLLAR = ord("$")
UNANSWERED_PINGS = 2
CONSUMERS_AT_ONCE = 1000
"""Of those that end with their connection; a hundred thousand in one go would hold everybody up."""
BEFORE_CONNECT = 16 * 1024
"""Outbox of a connection that has not said who it is."""


class State(Enum):
    START = "start"
    OPEN = "open"
    CLOSED = "closed"


class Credentials(NamedTuple):
    """What a client gave to prove who it is."""

    user: str | None
    password: str | None
    token: str | None


class Peer(NamedTuple):
    """The two ends of a connection, for INFO."""

    host: str
    port: int
    address: str
    secure: bool = False


class NatsSession:
    """One client. The pump feeds it bytes and time; everything it has to say goes into its outbox."""

    def __init__(self, node: Node, peer: Peer, now: float, owner: Any) -> None:
        self.node = node
        self.state = State.START
        self.echo = True
        self.verbose = True
        self.label = ""
        self.plans: Plans | None = None
        self.exchange: Exchange | None = None
        self.credentials: Credentials | None = None
        """Set while somebody has to look at them; then `admit` goes on."""
        self.heard = False
        self.client_id = node.client_id()
        self._protocol = nats.ServerProtocol(node.limits)
        self._protocol.greeted = not node.authentication
        self._user: User | None = None
        self._no_responders = False
        self._consumers: dict[bytes, Consumer] = {}
        self._quiet_since = now
        self._deadline = now + (node.limits.tls_handshake if peer.secure else node.limits.handshake)
        self._pings = 0
        self.outbox = node.parts.outbox(BEFORE_CONNECT, Overflow.DISCONNECT, node.parts.counters(), node.ready, owner)
        self.outbox.push(nats.info(self._info(peer)))

    # The verbs of the pump.

    def receive_data(self, data: bytes) -> None:
        """Bytes from the client."""
        self.heard = True
        if self.state is not State.CLOSED:
            self._protocol.receive_data(data)
        self._advance()

    def receive_eof(self) -> None:
        """The client has closed its side."""
        self._protocol.receive_eof()
        self._advance()

    def close_expected(self) -> bool:
        """Once the outbox is empty, the connection is over."""
        return self.state is State.CLOSED

    def wanted(self) -> int:
        """How many more bytes the operation that is half received takes; for the compiled reader."""
        return self._protocol.wanted() if self.credentials is None else 0

    def reclaim(self) -> bytes:
        """What was received and not yet acted upon, given back; for the compiled reader."""
        return self._protocol.reclaim()

    def tick(self, now: float) -> None:
        """Time passes: the handshake's deadline, and the search for signs of life."""
        if self.state is State.START:
            if now > self._deadline and self.credentials is None:
                self.fail("Authentication Timeout")
        elif self.state is State.OPEN:
            if self.heard:
                self.heard, self._pings, self._quiet_since = False, 0, now
            elif now - self._quiet_since > self.node.limits.idle:
                if self._pings >= UNANSWERED_PINGS:
                    self.fail("Stale Connection")
                else:
                    self._pings += 1
                    self._quiet_since = now
                    self.outbox.push(nats.PING)

    def admit(self, user: User | None) -> None:
        """The credentials were looked at: they belong to this user, or to nobody."""
        self.credentials = None
        if self.state is not State.START:
            return
        if user is None:
            self.fail("Authorization Violation")
            return
        self._user = user
        self._protocol.greeted = True
        self._join(user.namespace)
        self._advance()

    def fail(self, text: str) -> None:
        """Tells the client why, and ends the session."""
        if self.state is not State.CLOSED:
            self.outbox.push(nats.error(text))
            self.close()

    def close(self) -> None:
        """Leaves the exchange: nothing more comes in. What is in the outbox may still go out."""
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        self.plans = None
        self.credentials = None
        if self.exchange is not None:
            self.outbox.govern(0, Overflow.DROP_NEWEST, self.exchange.counters)
        self.forget()
        self.node.ready.append(self.outbox.owner)

    def forget(self, most: int = CONSUMERS_AT_ONCE) -> bool:
        """Takes the consumers of a closed session out of the exchange, so many at a time. True: none is left.

        Until then they are still found, but have no room: groups pass them over, and what they miss is counted.
        """
        if self.exchange is None:
            return True
        for _ in range(min(most, len(self._consumers))):
            self.exchange.unsubscribe(self._consumers.popitem()[1])
        if self._consumers:
            return False
        self.node.namespaces.leave(self.exchange)
        self.exchange = None
        return True

    # An outlet of the exchange.

    def has_room(self, weight: int) -> bool:
        return self.outbox.has_room(weight)

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        form = publication.form
        if form is None or form[0] is not FORM:
            form = publication.form = _form(publication)
        _, before, after, plain_before, plain_after = form
        if not self.outbox.takes_headers:
            before, after = plain_before, plain_after
        consumer.accepted += 1
        self.outbox.push(before + consumer.key + after, consumer)
        if consumer.limit and consumer.accepted >= consumer.limit:
            self.expire(consumer)

    def expire(self, consumer: Consumer) -> None:
        """The consumer has had all it asked for."""
        if self._consumers.pop(consumer.key, None) is not None and self.exchange is not None:
            self.exchange.unsubscribe(consumer)

    # Operations.

    def _advance(self) -> None:
        publish = self._publish
        while self.state is not State.CLOSED and self.credentials is None:
            events = self._protocol.events_received()
            for event in events:
                if type(event) is Publish:
                    publish(event)
                    continue
                self._control(event)
                if self.close_expected():
                    return
            if self._protocol.close_expected():
                self.outbox.push(self._protocol.data_to_send())
                self.close()
            if not events:
                return

    def _control(self, event: nats.Event) -> None:
        match event:
            case nats.Ping():
                self.outbox.push(nats.PONG)
            case nats.Pong():
                pass
            case nats.Subscribe():
                self._subscribe(event)
            case nats.Unsubscribe():
                self._unsubscribe(event)
            case nats.Connect():
                self._connect(event.options)
            case nats.End():
                self.close()
            case _:
                raise AssertionError(event)

    def _connect(self, options: dict[str, Any]) -> None:
        self.verbose = options.get("verbose", True) is True
        self.echo = options.get("echo", True) is not False
        self.outbox.takes_headers = options.get("headers") is True
        self._no_responders = self.outbox.takes_headers and options.get("no_responders") is True
        self.label = f"{self.client_id} {str(options.get('name', ''))[:SHOWN_NAME]}".strip()
        if self.state is not State.START:
            self._okay()
            return
        credentials = Credentials(*(_text(options, key) for key in ("user", "pass", "auth_token")))
        if self.node.authentication:
            self.credentials = credentials
        else:
            self._join(credentials.user or credentials.token or DEFAULT)

    def _join(self, namespace: str) -> None:
        try:
            exchange = self.node.namespaces.join(namespace)
        except NamespaceError as error:
            self.fail(f"Authorization Violation: {error}")
            return
        self.exchange = exchange
        self.plans = exchange.plans(self._user.publish if self._user else None)
        self.outbox.govern(exchange.outbox_limit, exchange.overflow, exchange.counters)
        self.state = State.OPEN
        self._okay()

    def _joined(self) -> tuple[Exchange, Plans]:
        """The exchange and the plans; who speaks without CONNECT (authentication off) is in the default namespace."""
        if self.exchange is None:
            verbose, self.verbose = self.verbose, False
            self._join(DEFAULT)
            self.verbose = verbose
        assert self.exchange is not None
        assert self.plans is not None
        return self.exchange, self.plans

    def _subscribe(self, event: nats.Subscribe) -> None:
        exchange, _ = self._joined()
        if event.sid in self._consumers:
            self._okay()
            return
        try:
            text = decode_topic(event.pattern)
            pattern_text = "" if text == EMPTY else text
            pattern = parse_pattern(pattern_text, exchange.grammar)
            group = decode_topic(event.group)
            if group:
                check_topic(group, exchange.grammar)
        except PatternError as error:
            self._error(f"Invalid Subject: {error}")
            return
        except TopicError as error:
            self._error(f"Invalid Subject: group: {error}")
            return
        sees = self._user.subscribe if self._user else None
        if sees is not None and not sees.allows_pattern(pattern):
            self._error(f'Permissions Violation for Subscription to "{text}"')
        elif len(self._consumers) >= self.node.limits.consumers_per_connection:
            self._error("maximum subscriptions exceeded")
        else:
            consumer = exchange.consumer(self, pattern_text, group, event.sid, sees)
            self._consumers[event.sid] = consumer
            exchange.subscribe(consumer)
            self._okay()

    def _unsubscribe(self, event: nats.Unsubscribe) -> None:
        consumer = self._consumers.get(event.sid)
        if consumer is not None:
            consumer.limit = event.after
            if consumer.accepted >= event.after:
                self.expire(consumer)
        self._okay()

    def _publish(self, event: Publish) -> None:
        exchange, plans = self.exchange, self.plans
        if exchange is None or plans is None:
            exchange, plans = self._joined()
        topic, raw_reply, block, payload = event
        reply = ""
        try:
            if raw_reply:
                reply = decode_topic(raw_reply)
                check_topic(reply, exchange.grammar)
            plan = plans.find(topic) if topic[0] != DOLLAR else plans.find(self._own_topic(event))
        except Denied:
            exchange.counters.refused += 1
            self._error(f'Permissions Violation for Publish to "{_shown(topic)}"')
            return
        except TopicError as error:
            exchange.counters.refused += 1
            self._error(f"Invalid Publish Subject: {error}")
            return
        except _Served:
            self._okay()
            return
        if plan is exchange.nobody:
            exchange.count_unheard(len(payload) + len(block))
            routed = 0
        else:
            text = topic.decode() if topic[0] != DOLLAR else ""
            routed = exchange.publish(plan, Publication(text, payload, reply, block), self)
        if reply and not routed:
            self.nobody_heard(topic, reply)
        if self.verbose:
            self._okay()

    def _own_topic(self, event: Publish) -> bytes:
        """T9: of the topics that begin with `$`, a client may publish to the empty one and ask for the counters."""
        if event.topic == EMPTY.encode():
            return b""
        if event.topic in (STATS.encode(), CONSUMERS.encode()):
            assert self.exchange is not None
            stats = event.topic == STATS.encode()
            self._serve(event, self._stats() if stats else self.exchange.worst_consumers())
            raise _Served
        if event.reply:
            self.nobody_heard(_shown(event.topic).encode(), event.reply.decode())
        raise Denied

    def nobody_heard(self, topic: bytes, reply: str) -> None:
        """R1: a request that nobody can hear is answered at once."""
        if self._no_responders:
            self._answer(reply, b"", headers.build([("Nats-Subject", topic.decode())], status="503"))

    def _serve(self, event: Publish, answer: dict[str, Any]) -> None:
        if event.reply:
            self._answer(event.reply.decode(), json.dumps(answer).encode())

    def _answer(self, reply: str, payload: bytes, block: bytes = b"") -> None:
        """An answer of the node's own: to the one who asked, and to nobody else."""
        assert self.exchange is not None
        plan = self.exchange.plan(reply)
        own = [c for c in plan.consumers if c.outlet is self]
        own += [c for _, members in plan.groups for c in members if c.outlet is self]
        if own:
            self.accept(own[0], Publication(reply, payload, "", block))

    def _stats(self) -> dict[str, Any]:
        assert self.exchange is not None
        return {"node": self.node.name, "version": self.node.version, **self.exchange.report()}

    def _okay(self) -> None:
        if self.verbose:
            self.outbox.push(nats.OK)

    def _error(self, text: str) -> None:
        self.outbox.push(nats.error(text))

    def _info(self, peer: Peer) -> dict[str, Any]:
        options: dict[str, Any] = {
            "server_id": self.node.name,
            "server_name": self.node.name,
            "version": self.node.version,
            "proto": 1,
            "host": peer.host,
            "port": peer.port,
            "headers": True,
            "max_payload": self.node.limits.payload,
            "client_id": self.client_id,
            "client_ip": peer.address,
        }
        if self.node.authentication:
            options["auth_required"] = True
        if peer.secure:
            options["tls_required"] = True
        return options


SHOWN_NAME = 64


FORM = object()
"""Marks what this door has made of a publication: what stands before and after the sid, with headers and without."""


def _form(publication: Publication) -> tuple[object, bytes, bytes, bytes, bytes]:
    topic, reply = (publication.topic or EMPTY).encode(), publication.reply.encode()
    plain_before, plain_after = nats.message_around_sid(topic, publication.payload, reply)
    if not publication.headers:
        return FORM, plain_before, plain_after, plain_before, plain_after
    before, after = nats.message_around_sid(topic, publication.payload, reply, publication.headers)
    return FORM, before, after, plain_before, plain_after


class _Served(Exception):
    """The node itself has answered."""


def _text(options: dict[str, Any], key: str) -> str | None:
    value = options.get(key)
    return value if isinstance(value, str) else None


def _shown(topic: bytes) -> str:
    """Somebody's bytes, safe inside an error line or a header."""
    return "".join(chr(byte) if 32 < byte < 127 and byte != ord("'") else "?" for byte in topic[:SHOWN_NAME])
