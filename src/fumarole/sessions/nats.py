"""What a NATS client's operations mean to the exchange. It is START until its CONNECT has been answered."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain
from typing import Any

from fumarole.core import headers
from fumarole.core.errors import PatternError, TopicError
from fumarole.core.pattern_options import parse_with_options
from fumarole.core.publication import Publication
from fumarole.core.topic import SERVICES, Grammar, check_topic, parse_wildcards
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.gathering import Last
from fumarole.exchange.namespaces import DEFAULT, namespace_of
from fumarole.exchange.node import Node
from fumarole.exchange.permissions import User
from fumarole.exchange.plans import Denied, Plans, decode_topic
from fumarole.exchange.producer import Producer
from fumarole.exchange.quotas import QuotaError
from fumarole.exchange.readings import ReadingError, check_speaks_for, is_identity
from fumarole.protocols import nats
from fumarole.protocols.nats import Publish
from fumarole.protocols.stream import End
from fumarole.sessions import services
from fumarole.sessions.answers import Answers
from fumarole.sessions.nats_forms import (
    EMPTY,
    FORM,
    USER_INFO,
    form_of,
    last_value,
    reading_of,
    survives_too_many_consumers,
    user_info,
)
from fumarole.sessions.service_request import Request
from fumarole.sessions.stream import SHOWN_NAME, UNANSWERED_PINGS, Claim, KeyProof, RemoteAddress, State, StreamSession

PRODUCER = b"\r\nProducer:"
"""In a header block: the producer of the message (M8)."""
RETAIN = b"\r\nRetain:"
"""The same: the namespace is to keep the message (F1)."""
DOLLAR = b"$"
ELSEWHERE = b"$JS.", b"$KV."
"""Topics of a nats-server with JetStream begin so (T9). Clients ask there whether there is one."""
NATS_VERSION = "2.11.0"
"""Of the nats-server whose client protocol this is. Clients compare it to find out what they may use."""
TOO_MANY_CONSUMERS = "maximum subscriptions exceeded"
TOO_MUCH_WAITS = "Too Many Unconfirmed Operations"
NO_ROOM = "the answer has {} bytes, and with what waits for you already that is more than your outbox holds"
WORK_OF_A_PUBLISH = 3
"""What operations take besides the messages that they put into outboxes, in the unit of `WORK_AT_ONCE`."""
WORK_OF_A_CONTROL = 150
"""Ten times what it takes: a client that subscribes by the thousand gives way after a millisecond, not after ten."""
WORK_OF_A_REPORT = 20_000
SPOKEN_FOR_KEPT = 131_072
"""Producers of one client that are remembered; some may be forgotten by the exchange meanwhile."""


class NatsSession(StreamSession):
    """One NATS client."""

    takes_nats_frames = True
    """The compiled reader may write MSG and HMSG straight into its outbox."""
    NOT_ADMITTED = "Authorization Violation"

    def __init__(self, node: Node, remote: RemoteAddress, now: float, owner: Any) -> None:
        protocol = nats.ServerProtocol(node.limits)
        super().__init__(node, remote, now, owner, protocol)
        self._protocol: nats.ServerProtocol = protocol
        self._protocol.greeted = not node.authentication
        self.vouched_for: User | None = None
        """The user of the HTTP request that opened this connection. CONNECT need not name the user again (H6)."""
        self.verbose = True
        self._no_responders = False
        self._survives_too_many_consumers = False
        self._quiet_since = now
        self._pings = 0
        self._remote = remote
        self._nonce = "" if node.nonce is None else node.nonce()
        self._answers = Answers(node, self.outbox)
        self.speaks_for: dict[str, Producer] = {}
        """Producers that this client has published as, and may: of these the compiled reader takes the readings. To be
        emptied when its permissions change."""
        self.outbox.push(nats.info(self._info(remote)))

    def inform(self, lame_duck: bool = False) -> None:
        """Where the client may go from here has changed, or it should go there now."""
        if self.state is State.OPEN:
            options = self._info(self._remote)
            if lame_duck:
                options["ldm"] = True
                options.pop("connect_urls", None)
                if elsewhere := self._elsewhere():
                    options["connect_urls"] = elsewhere
            self.outbox.push(nats.info(options))

    def _elsewhere(self) -> list[str]:
        """The addresses of other nodes by the way that the client has come: TCP or WebSocket (H6)."""
        if not self._remote.over_web:
            return self.node.reachable
        return [address.rpartition("/")[2] for address in self.node.reachable_web]

    def tick(self, now: float) -> None:
        """Time passes: the handshake's deadline, and the search for signs of life."""
        self.now = now
        if self.state is State.START:
            if now > self._deadline and self.claim is None:
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

    def renew(self, user: User) -> None:
        old, self._user = self._user, user
        exchange = self.exchange
        if user == old or exchange is None or self.state is not State.OPEN:
            return
        self.is_admin = self.node.is_admin(user, self._address)
        self.account.renew(user.quota)
        self.plans = exchange.plans(user.publish)
        self.speaks_for.clear()
        if old is None or user.subscribe == old.subscribe:
            return
        self.node.end_relays(self.client_id)
        for consumer in list(self._consumers.values()):
            if user.subscribe is None or user.subscribe.allows_pattern(parse_wildcards(consumer.pattern)):
                exchange.show(consumer, user.subscribe)
            else:
                self.expire(consumer)
                self._refuse_subscribe(nats.Subscribe(consumer.pattern.encode(), consumer.group.encode(), consumer.key))

    # An outlet of the exchange.

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        consumer.accepted += 1
        self.outbox.push(self._frame(consumer.key, publication), None if publication.vital else consumer)
        if consumer.limit and consumer.accepted >= consumer.limit:
            self.expire(consumer)

    def _frame(self, key: bytes, publication: Publication) -> bytes:
        if publication.age is not None:
            return last_value(publication, key, self.outbox.takes_headers)
        form = publication.form
        if form is None or form[0] is not FORM:
            form = publication.form = form_of(publication)
        _, before, after, plain_before, plain_after = form
        if not self.outbox.takes_headers:
            before, after = plain_before, plain_after
        frame: bytes = before + key + after
        return frame

    def expire(self, consumer: Consumer) -> None:
        """The consumer has had all it asked for."""
        if self._consumers.pop(consumer.key, None) is not None and self.exchange is not None:
            self.exchange.unsubscribe(consumer)
            if not self._consumers:
                self._consumers.clear()  # an empty dict would keep the room it once needed

    # Operations.

    def _take(self, event: nats.Event) -> int:
        if isinstance(event, Publish):
            return WORK_OF_A_PUBLISH + self._publish(event)
        self._control(event)
        return WORK_OF_A_CONTROL

    def _control(self, event: nats.Event) -> None:
        match event:
            case nats.Ping():
                # C2: the PONG after a SUB confirms it. Nothing else waits for it: not what the client publishes
                # meanwhile, nor what it is sent.
                if not self._answers.confirm(nats.PONG, self._ticket):
                    self.fail(TOO_MUCH_WAITS)
            case nats.Pong():
                pass
            case nats.Subscribe():
                self._subscribe(event)
            case nats.Unsubscribe():
                self._unsubscribe(event)
            case nats.Connect():
                self._connect(event.options)
            case End():
                self.close()
            case _:
                raise AssertionError(event)

    def _connect(self, options: dict[str, Any]) -> None:
        self.verbose = options.get("verbose", True) is True
        self.echo = options.get("echo", True) is not False
        self.outbox.takes_headers = options.get("headers") is True
        self._no_responders = self.outbox.takes_headers and options.get("no_responders") is True
        self._survives_too_many_consumers = survives_too_many_consumers(options)
        self.label = f"{self.client_id} {str(options.get('name', ''))[:SHOWN_NAME]}".strip()
        if self.state is State.START and options.get("presence") is False:
            self.speaking = None  # what it publishes is others', and they are not here (F5)
        self.captures = options.get("capture") is True
        if self.state is not State.START:
            self.govern_outbox()
            self.okay()
            return
        given = [options.get(key) for key in ("user", "pass", "auth_token")]
        if not all(value is None or isinstance(value, str) for value in given):
            self.fail("Authorization Violation: user, pass and auth_token are text")  # and not as if none were given
            return
        claim = Claim(*given)
        if self.vouched_for is not None and not any(given):
            self._user = self.vouched_for
            self._begin(self._user.namespace)
        elif self.node.authentication:
            self._claim(claim, options)
        else:
            self._begin(namespace_of(claim.user or claim.token or ""))

    def _claim(self, claim: Claim, options: dict[str, Any]) -> None:
        """The client has to give credentials."""
        if options.get("jwt"):
            self.fail("Authorization Violation: JWTs are not offered; use a password, a token or an nkey")
            return
        key, signature = options.get("nkey") or "", options.get("sig") or ""
        if not isinstance(key, str) or not isinstance(signature, str):
            self.fail("Authorization Violation: nkey and sig are text")
            return
        self.claim = claim._replace(key=KeyProof(key, signature, self._nonce)) if key else claim

    def _begin(self, namespace: str) -> None:
        self._protocol.greeted = True
        if self._join(namespace):
            self.okay()

    def _joined(self) -> tuple[Exchange, Plans]:
        """The exchange and the plans. Without CONNECT (authentication off) a client is in the default namespace."""
        if self.exchange is None:
            self._join(DEFAULT)
        assert self.exchange is not None
        assert self.plans is not None
        return self.exchange, self.plans

    def _subscribe(self, event: nats.Subscribe) -> None:
        exchange, _ = self._joined()
        if event.sid in self._consumers or event.pattern.startswith(ELSEWHERE):
            self.okay()
            return
        try:
            text = decode_topic(event.pattern)
            if text == EMPTY or text.endswith(f".{EMPTY}"):
                text = text.removesuffix(EMPTY)
            options, pattern_text, pattern = parse_with_options(text, exchange.grammar)
            group = decode_topic(event.group)
            if group:
                check_topic(group, Grammar.CHANNEL)
        except PatternError as error:
            self._refuse_subscribe(event, f": Invalid Subject: {error}")
            return
        except TopicError as error:
            self._refuse_subscribe(event, f": Invalid Subject: group: {error}")
            return
        sees = self._user.subscribe if self._user else None
        if sees is not None and not sees.allows_pattern(pattern):
            self._refuse_subscribe(event)
        elif len(self._consumers) >= self.node.limits.consumers_per_connection:
            self._refuse_one_more(event)
        else:
            consumer = exchange.consumer(self, pattern_text, group, event.sid, sees, self.account)
            try:
                exchange.subscribe(
                    consumer, pattern=pattern, last=Last.ALL if options.last else Last.NONE, every=options.every
                )
            except QuotaError as error:
                self._refuse_subscribe(event, f": {error}")
                return
            self._consumers[event.sid] = consumer
            self._ticket = self.node.confirmations.ticket()
            if options.last:
                self.node.confirmations.after(self._ticket, lambda: exchange.send_last(consumer))
            self.okay()

    def _unsubscribe(self, event: nats.Unsubscribe) -> None:
        consumer = self._consumers.get(event.sid)
        if consumer is not None:
            consumer.limit = event.after
            if consumer.accepted >= event.after:
                self.expire(consumer)
                self._ticket = self.node.confirmations.ticket()
        self.okay()

    def _publish(self, event: Publish) -> int:
        """What a PUB means. How much work it was: to how many entities it went, and what was looked at to find them."""
        exchange, plans = self._joined()
        looked_at = exchange.index.looked_at
        try:
            reply = ""
            if event.reply:
                reply = decode_topic(event.reply)
                check_topic(reply, Grammar.CHANNEL)
            if self.account.has_rates:
                self.account.check_rates(exchange.timers.now())
            topic = self._own_topic(event) if event.topic.startswith(DOLLAR) else event.topic
            plan = plans.find(topic)
            publication = Publication(topic.decode(), event.payload, reply, event.headers)
            publication.retain = RETAIN in event.headers and headers.last(event.headers, "Retain") == "1"
            if PRODUCER in event.headers and is_identity(headers.last(event.headers, "Producer")):
                routed = self._read(exchange, plans, publication)
            else:
                routed = exchange.publish(plan, publication, self, self.account)
            if self.account.has_rates:
                self.account.published(publication.size())
        except _Served:
            self.okay()
            return WORK_OF_A_REPORT
        except (Denied, QuotaError, ReadingError, TopicError) as error:
            exchange.counters.refused += 1
            self._refuse_publish(event, error)
            return 0
        if reply and not routed:
            self.nobody_heard(event.topic, reply)
        self.okay()
        return routed + exchange.index.looked_at - looked_at

    # Clients of NATS close for good on every error that does not begin like these two, and so they all do.

    def _refuse_publish(self, event: Publish, error: Denied | QuotaError | ReadingError | TopicError) -> None:
        topic, reason = _shown(event.topic), f": Invalid Publish Subject: {error}"
        if isinstance(error, Denied):
            topic, reason = _shown(error.topic.encode()), ""
        elif isinstance(error, QuotaError):
            reason = f": Over Quota: {error}"
        elif isinstance(error, ReadingError):
            reason = f": Invalid Reading: {error}"
        self._refuse(f'Permissions Violation for Publish to "{topic}"{reason}')

    def _refuse_subscribe(self, event: nats.Subscribe, reason: str = "") -> None:
        queue = f' using queue "{_shown(event.group)}"' if event.group else ""
        self._refuse(f'Permissions Violation for Subscription to "{_shown(event.pattern)}"{queue}{reason}')

    def _refuse_one_more(self, event: nats.Subscribe) -> None:
        if self._survives_too_many_consumers:
            self._refuse(TOO_MANY_CONSUMERS)
        else:
            self._refuse_subscribe(event, f": {TOO_MANY_CONSUMERS}")

    def _read(self, exchange: Exchange, plans: Plans, publication: Publication) -> int:
        """M8: a message with the header `Producer` is a reading of that producer, whose value is the payload."""
        publication.reading = reading_of(publication, self.node.limits.metadata_bytes)
        identity = publication.reading.producer
        check_speaks_for(self._user, identity)
        routed = exchange.publish_reading(publication, plans, self.now, self, self.account, self.speaking)
        if len(self.speaks_for) >= SPOKEN_FOR_KEPT:
            self.speaks_for.clear()
        self.speaks_for[identity] = exchange.producers.known[identity]
        return routed

    def _own_topic(self, event: Publish) -> bytes:
        """T9: of the topics that begin with `$`, clients publish to the empty one and to each other's services, and
        ask the node."""
        if event.topic == EMPTY.encode():
            return b""
        if event.topic.startswith(SERVICES.encode()):
            return event.topic
        if self._serve(event) or self._is_unheard(event):
            raise _Served
        if event.reply:
            self.nobody_heard(_shown(event.topic).encode(), event.reply.decode())
        raise Denied(_shown(event.topic))

    def _is_unheard(self, event: Publish) -> bool:
        """T9: is it for a part of nats-server that this one does not have? Then no consumer matches it."""
        if not event.topic.startswith(ELSEWHERE):
            return False
        topic = decode_topic(event.topic)
        check_topic(topic, Grammar.CHANNEL)
        if self._user is not None and self._user.publish is not None and not self._user.publish.allows(topic):
            raise Denied(topic)
        assert self.exchange is not None
        self.exchange.count_unheard(len(event.payload) + len(event.headers))
        if event.reply:
            self.nobody_heard(event.topic, event.reply.decode())
        return True

    def nobody_heard(self, topic: bytes, reply: str) -> None:
        """R1: a request without a responder is answered at once. No group gets the answer, and no UNSUB counts it."""
        if self._no_responders and self.exchange is not None:
            consumers = self.exchange.plan(reply).consumers
            self.exchange.index.looked_at += len(consumers)
            listening = self._listening(consumers)
            if listening is not None:
                block = headers.build([("Nats-Subject", topic.decode())], status="503")
                self.outbox.push(nats.message(reply.encode(), listening.key, b"", headers=block))

    def _serve(self, event: Publish) -> bool:
        """Lets the node answer. False: it has no such service."""
        assert self.exchange is not None
        payload = event.payload.decode("utf-8", "replace")
        asker = _Asker(self, event.reply.decode())
        topic = _shown(event.topic)
        request = Request(
            self.node,
            self.exchange,
            self._user,
            payload,
            self.now,
            self.client_id,
            self.account,
            self.is_admin,
            asker,
            self.speaking,
        )
        reply, confirmations = event.reply.decode(), self.node.confirmations

        def say(answer: dict[str, Any]) -> None:
            if reply:
                text = json.dumps(answer).encode()
                confirmations.after(confirmations.ticket(), lambda: self._answer(reply, text))

        if topic == USER_INFO:
            say(user_info(self._info(self._remote), self.exchange.name, self._user))
            return True
        return services.answer(topic, request, say)

    def listens_on(self, reply: str) -> Consumer | None:
        """The consumer of this client that gets an answer; None: there is none, or the client has gone meanwhile."""
        if self.exchange is None:
            return None
        plan = self.exchange.plan(reply)
        return self._listening(plan.consumers, *[members for _, _, members in plan.groups])

    def _answer(self, reply: str, payload: bytes) -> None:
        """An answer of the node's own: to the requester only."""
        listening = self.listens_on(reply)
        if listening is None or self.exchange is None:
            return
        publication = Publication(reply, payload)
        if self.outbox.size + publication.weight() > 2 * self.exchange.outbox_limit:
            publication.payload = json.dumps({"error": NO_ROOM.format(len(payload))}).encode()
        publication.vital = True
        self.accept(listening, publication)

    def _listening(self, *consumers: Iterable[Consumer]) -> Consumer | None:
        """The client's consumer for the answer: the one on its reply topic, before one that gets everything."""
        own = [consumer for consumer in chain(*consumers) if consumer.outlet is self]
        return max(own, key=lambda consumer: len(consumer.pattern), default=None)

    def okay(self) -> None:
        """What the client asked for was done; it is told so if it wants to be."""
        if self.verbose:
            self._say(nats.OK)

    def _refuse(self, text: str) -> None:
        self.note_refused(text)
        self._say(nats.error(text))

    def _say(self, answer: bytes) -> None:
        if self.state is not State.CLOSED and not self._answers.say(answer):
            self.fail(TOO_MUCH_WAITS)

    def close(self) -> None:
        self._answers.close()
        self.speaks_for.clear()
        super().close()

    def _error(self, text: str) -> bytes:
        return nats.error(text)

    def _info(self, remote: RemoteAddress) -> dict[str, Any]:
        options: dict[str, Any] = {
            "server_id": self.node.name,
            "server_name": self.node.name,
            "version": NATS_VERSION,
            "fumarole": self.node.version,
            "go": "none, this is Fumarole",
            "proto": 1,
            "host": remote.host,
            "port": remote.port,
            "headers": True,
            "max_payload": self.node.limits.payload,
            "client_id": self.client_id,
            "client_ip": remote.address,
        }
        elsewhere = self._elsewhere()
        if self.node.cluster_name:
            options["cluster"] = self.node.cluster_name
        if elsewhere or self.node.cluster_name:
            options["connect_urls"] = [address_text(remote.host, remote.port), *elsewhere]
        if self._nonce:
            options["nonce"] = self._nonce
        if self.node.authentication:
            options["auth_required"] = True
        if remote.secure and not remote.over_web:
            options["tls_required"] = True
        if remote.asks:
            options["tls_verify"] = True
        return options


class _Asker:
    """A client that has asked the node, and the topic on which it waits for the answer."""

    def __init__(self, session: NatsSession, reply: str) -> None:
        self._session = session
        self._reply = reply

    def has_room(self, weight: int) -> bool:
        return self._session.has_room(weight)

    def hear(self, publication: Publication) -> bool:
        listening = self._session.listens_on(self._reply)
        if listening is None:
            return False
        publication.topic = self._reply
        self._session.accept(listening, publication)
        return True


class _Served(Exception):
    """The node itself has answered."""


def address_text(host: str, port: int) -> str:
    """HOST:PORT, with brackets around an address of IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _shown(topic: bytes) -> str:
    """A client's bytes, safe inside an error line or a header."""
    return "".join(chr(byte) if 32 < byte < 127 and byte != ord("'") else "?" for byte in topic[:SHOWN_NAME])
