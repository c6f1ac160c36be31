"""What the calls of KubeMQ's clients mean to the exchange.

There are no connections here to hold a client's state: gRPC has calls, each with its own token, and a session is one
call, from its first message to its last. It belongs to the namespace that the token says, and does one thing there:

    send_event    any number of times       Events, to the subscribers of the channel
    subscribe     once                      becomes an outlet of the exchange: Events, or Commands or Queries to answer
    ask           once                      a Command or Query; what comes back goes to `answered`
    respond       once                      an answer, to the client that asked

Requests go out under a reply topic of the namespace's `Inbox`, which is one consumer for all that are under way.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fumarole.core.errors import NamespaceError, PatternError, TopicError
from fumarole.core.pattern_options import NONE, split_options
from fumarole.core.publication import Publication
from fumarole.core.topic import Grammar, check_topic, parse_pattern
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.gathering import Last
from fumarole.exchange.node import Node
from fumarole.exchange.outbox import Outbox
from fumarole.exchange.permissions import Permissions, User
from fumarole.exchange.plans import Denied
from fumarole.exchange.quotas import Account, QuotaError
from fumarole.exchange.worst_consumers import some_consumers
from fumarole.protocols import kubemq
from fumarole.protocols.kubemq import Fault, Kind, NameOf
from fumarole.protocols.kubemq_pb2 import Event, PingResult, Request, Response, Result, Subscribe

VERSION: Final = "2.6.0"
"""The KubeMQ whose service this is; its newest clients warn of any that they were not tested with."""
NO_STORE: Final = "the events store is not offered here: events are delivered at once or not at all"
NO_QUEUES: Final = "queues are not offered here, only Events, Commands and Queries"
MANAGEMENT: Final = "kubemq.cluster.internal.requests"
"""Queries to this channel are for the server itself."""
CHANNEL_KINDS: Final = {"events": "", "commands": kubemq.COMMANDS, "queries": kubemq.QUERIES}
SHOWN_NAME: Final = 64


class KubemqService:
    """What all calls of a door share."""

    def __init__(self, node: Node, namespace: str, new_id: Callable[[], str], now: float) -> None:
        self.node = node
        self.namespace = namespace
        """The namespace of clients that name no other (K2)."""
        self.new_id = new_id
        self.inboxes: dict[str, Inbox] = {}
        self._started = now
        self._named: tuple[Publication | None, str] = None, ""

    def ping(self, now: float) -> PingResult:
        """No token is needed."""
        return PingResult(
            Host=self.node.name,
            Version=f"{VERSION}-fumarole-{self.node.version}",
            ServerStartTime=int(self._started),
            ServerUpTimeSeconds=max(int(now - self._started), 0),
        )

    def open(self, token: str, user: User | None) -> KubemqSession:
        """A new call with this token, which belongs to this user. Raises Fault."""
        if self.node.authentication and user is None:
            reason = "no user has this token" if token else "a token is needed"
            raise Fault(kubemq.NOT_AUTHENTICATED + reason, kubemq.UNAUTHENTICATED)
        namespace = user.namespace if user is not None else token or self.namespace
        try:
            exchange = self.node.namespaces.join(namespace)
        except (NamespaceError, QuotaError) as error:
            raise Fault(kubemq.NOT_AUTHENTICATED + str(error), kubemq.UNAUTHENTICATED) from None
        account = self.node.account(exchange, user)
        try:
            account.take("connections")
        except QuotaError as error:
            self.node.namespaces.leave(exchange)
            raise Fault(str(error), kubemq.EXHAUSTED) from None
        return KubemqSession(self, exchange, user, account)

    def name_of(self, publication: Publication) -> str:
        """An id for a publication of another door. Its receivers ask one after another, before the next one comes."""
        if self._named[0] is not publication:
            self._named = publication, self.new_id()
        return self._named[1]

    def inbox(self, exchange: Exchange) -> Inbox:
        """Where answers to requests of this namespace arrive."""
        inbox = self.inboxes.get(exchange.name)
        if inbox is None:
            inbox = self.inboxes[exchange.name] = Inbox(exchange, self.new_id())
        return inbox

    def empty(self, inbox: Inbox) -> None:
        """It expects nothing any more."""
        self.inboxes.pop(inbox.exchange.name, None)
        inbox.close()


class KubemqSession:
    """One call."""

    def __init__(self, service: KubemqService, exchange: Exchange, user: User | None, account: Account) -> None:
        self.echo = True
        self._account = account
        self.label = ""
        self.outbox: Outbox | None = None
        """What waits for the receiver, once it has subscribed: messages, each after the five bytes of gRPC."""
        self.closed = False
        self.spent = 0
        """How many got what was published last."""
        self._service = service
        self._exchange = exchange
        self.user = self._user = user
        self._plans = exchange.plans(user.publish if user is not None else None)
        self._consumer: Consumer | None = None
        self._form: _Form = _EVENTS
        self._question: tuple[Inbox, str] | None = None
        self._sender: tuple[str, str] | None = None
        """Client and channel of the latest event, which need no second look: a stream mostly has one of each."""

    def close(self) -> None:
        """Leaves the exchange. What is in the outbox may still go out. Closing twice is harmless."""
        if self.closed:
            return
        self.closed = True
        if self._consumer is not None:
            self._exchange.unsubscribe(self._consumer)
            self._consumer = None
        self._forget_question()
        self._account.give_back("connections")
        self._service.node.namespaces.leave(self._exchange)

    # Sending.

    def send_event(self, event: Event) -> Result:
        """Raises Fault where it cannot be sent; that it has no subscriber is no fault."""
        try:
            if event.Store:
                raise Fault(NO_STORE, kubemq.UNIMPLEMENTED)
            sender = event.ClientID, event.Channel
            if sender != self._sender:
                self._sender = None
            kubemq.check_event(event, is_sender_known=self._sender is not None)
            if not event.EventID:
                event.EventID = self._service.new_id()
            publication = kubemq.event_publication(event, _own_topic(sender[1]))
            publication.form = _FROM_EVENT, event
            publication.retain = event.Tags.get("Retain", event.Tags.get("retain")) in ("1", "true")
            self._publish(publication, sender[1])
            self._sender = sender
        except Fault as fault:
            self._refused(fault)
            raise
        return Result(EventID=event.EventID, Sent=True)

    def ask(self, request: Request, now: float, answered: Callable[[Publication], None]) -> Response | None:
        """The answer, where it is the server's own. Otherwise `answered` is called with it, once or never.

        Raises Fault, also where the channel has no subscriber.
        """
        response = self.prepare(request, now, answered)
        if response is None:
            self.send_request(request)
        return response

    def prepare(self, request: Request, now: float, answered: Callable[[Publication], None]) -> Response | None:
        """The first half of `ask`: the answer is expected. It may come by any node, so all must know that (C2)."""
        try:
            kubemq.check_request(request)
            if not request.RequestID:
                request.RequestID = self._service.new_id()
            if request.Channel == MANAGEMENT:
                return self._manage(request, now)
            self._check_channel(request.Channel)
            inbox = self._service.inbox(self._exchange)
            self._question = inbox, inbox.expect(answered)
        except Fault as fault:
            self._refused(fault)
            self._forget_question()
            raise
        return None

    def send_request(self, request: Request) -> None:
        """The other half. Raises Fault, also where the channel has no subscriber."""
        assert self._question is not None
        try:
            routed = self._publish(kubemq.request_publication(request, self._question[1]), request.Channel)
        except Fault as fault:
            self._refused(fault)
            self._forget_question()
            raise
        if not routed:
            self._forget_question()
            raise Fault(f"{kubemq.TIMED_OUT}: nobody is subscribed to this channel")  # R1: at once

    def respond(self, response: Response) -> None:
        """Raises Fault; that the requester no longer waits is no fault."""
        try:
            kubemq.check_response(response)
            if response.ReplyChannel.startswith(("$", kubemq.COMMANDS, kubemq.QUERIES)):
                raise Fault(kubemq.NO_ACCESS, kubemq.DENIED)
            self._publish(kubemq.response_publication(response), response.ReplyChannel)
        except Fault as fault:
            self._refused(fault)
            raise

    def _refused(self, fault: Fault) -> None:
        """A publication is refused."""
        self._exchange.counters.refused += 1
        self._note_refused(fault)

    def _note_refused(self, fault: Fault) -> None:
        """O2."""
        client = f"{self.label or (self._user.name if self._user else '')} kubemq".strip()
        self._service.node.journal.refuse(self._exchange.name, client, fault.text)

    def _check_channel(self, channel: str) -> None:
        try:
            check_topic(channel, self._exchange.grammar)
        except TopicError as error:
            raise Fault(f"invalid channel value: {error}", kubemq.INVALID) from None

    def _publish(self, publication: Publication, channel: str) -> int:
        limits = self._service.node.limits
        topic = publication.topic.encode()
        _check_length(channel, limits.control_line)
        if len(publication.payload) + len(publication.headers) > limits.payload:
            raise Fault(f"the message is larger than {limits.payload} bytes, the limit here", kubemq.EXHAUSTED)
        try:
            plan = self._plans.find(topic)
        except TopicError as error:
            raise Fault(f"invalid channel value: {error}", kubemq.INVALID) from None
        except Denied:
            raise Fault(kubemq.NO_ACCESS, kubemq.DENIED) from None
        try:
            if self._account.has_rates:
                self._account.check_rates(self._exchange.timers.now())
            self.spent = self._exchange.publish(plan, publication, None, self._account)
        except QuotaError as error:
            raise Fault(str(error), kubemq.EXHAUSTED) from None
        if self._account.has_rates:
            self._account.published(publication.size())
        return self.spent

    def _forget_question(self) -> None:
        if self._question is not None:
            inbox, reply = self._question
            self._question = None
            if inbox.forget(reply):
                self._service.empty(inbox)

    # Receiving: an outlet of the exchange.

    def subscribe_to_events(self, request: Subscribe, owner: Any) -> None:
        """From here on Events arrive in the outbox. Raises Fault."""
        if request.SubscribeTypeData == Subscribe.EventsStore:
            raise Fault(NO_STORE, kubemq.UNIMPLEMENTED)
        if request.SubscribeTypeData != Subscribe.Events:
            raise Fault(kubemq.SUBSCRIBE_TYPE)
        self._subscribe_or_note(request, "", _EVENTS, owner)

    def subscribe_to_requests(self, request: Subscribe, owner: Any) -> None:
        """From here on Commands, or Queries, arrive in the outbox. Raises Fault."""
        kind = kubemq.KIND_OF_SUBSCRIBE.get(request.SubscribeTypeData)
        if kind is None:
            raise Fault(kubemq.SUBSCRIBE_TYPE)
        self._subscribe_or_note(request, kind.prefix, _REQUESTS[kind], owner)

    def _subscribe_or_note(self, request: Subscribe, prefix: str, form: _Form, owner: Any) -> None:
        try:
            self._subscribe(request, prefix, form, owner)
        except Fault as fault:
            self._note_refused(fault)
            raise

    def _subscribe(self, request: Subscribe, prefix: str, form: _Form, owner: Any) -> None:
        kubemq.check_subscribe(request)
        node, exchange = self._service.node, self._exchange
        for text in (request.Channel, request.Group):
            _check_length(text, node.limits.control_line)
        try:
            options, asked = (NONE, request.Channel) if prefix else split_options(request.Channel)
            channel = prefix + asked if prefix or asked != kubemq.EMPTY else ""
            parse_pattern(asked if channel else "", exchange.grammar)
            if request.Group:
                check_topic(request.Group, Grammar.CHANNEL)
        except PatternError as error:
            raise Fault(f"invalid channel value: {error}", kubemq.INVALID) from None
        except TopicError as error:
            raise Fault(f"invalid group value: {error}", kubemq.INVALID) from None
        sees = _seen_by(self._user, channel, events=not prefix)
        if sees is not None and not sees.allows_pattern(parse_pattern(channel, exchange.grammar)):
            raise Fault(kubemq.NO_ACCESS, kubemq.DENIED)
        self.label = f"{node.client_id()} {request.ClientID[:SHOWN_NAME]}"
        self._form = form
        self.outbox = node.parts.outbox(exchange.outbox_limit, exchange.overflow, exchange.counters, node.ready, owner)
        consumer = self._consumer = exchange.consumer(self, channel, request.Group, b"", sees, self._account)
        try:
            exchange.subscribe(consumer, last=Last.ALL if options.last else Last.NONE, every=options.every)
        except QuotaError as error:
            self._consumer = None
            raise Fault(str(error), kubemq.EXHAUSTED) from None
        if options.last:
            node.confirmations.after(node.confirmations.ticket(), lambda: exchange.send_last(consumer))

    def has_room(self, weight: int) -> bool:
        assert self.outbox is not None
        return self.outbox.has_room(weight)

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        assert self.outbox is not None
        form = publication.form
        if form is None or form[0] is not self._form:
            message = self._form.message(publication, self._service.name_of)
            form = publication.form = self._form, b"\0" + len(message).to_bytes(4) + message
        consumer.accepted += 1
        self.outbox.push(form[1], consumer)

    # Requests to the server itself.

    def _manage(self, request: Request, now: float) -> Response:
        """Channels come to be with their first use, so there is little to do; but clients may want to hear that."""
        response = Response(RequestID=request.RequestID, Timestamp=kubemq.nanoseconds(now), Executed=True)
        kind = request.Tags.get("channel_type", "")
        if request.Metadata == "list-channels":
            response.Body = json.dumps(self._channels(kind, request.Tags.get("channel_search", ""))).encode()
        elif request.Metadata not in ("create-channel", "delete-channel"):
            response.Executed, response.Error = False, "not a request that is understood here"
        elif kind not in CHANNEL_KINDS:
            response.Executed, response.Error = False, NO_STORE if kind == "events_store" else NO_QUEUES
        else:
            try:
                self._check_channel(request.Tags.get("channel", ""))
            except Fault as fault:
                response.Executed, response.Error = False, fault.text
        return response

    def _channels(self, kind: str, search: str) -> list[dict[str, Any]]:
        """The channels of this kind that have subscribers, of those that the user may see."""
        if kind not in CHANNEL_KINDS:
            return []
        prefix = CHANNEL_KINDS[kind]
        delivered: Counter[str] = Counter()
        for consumer in some_consumers(self._exchange):
            pattern = consumer.pattern
            of_this_kind = pattern.startswith(prefix) if prefix else not pattern.startswith(kubemq.RESERVED)
            if of_this_kind and self._may_see(pattern):
                delivered[pattern.removeprefix(prefix) or kubemq.EMPTY] += consumer.accepted - consumer.dropped
        nothing = {"messages": 0, "volume": 0, "responses": 0}
        return [
            {
                "name": name,
                "type": kind,
                "lastActivity": 0,
                "isActive": True,
                "incoming": nothing,
                "outgoing": {**nothing, "messages": delivered[name]},
            }
            for name in sorted(kubemq.names_found(delivered, search))
        ]

    def _may_see(self, pattern: str) -> bool:
        permissions = self._user.subscribe if self._user is not None else None
        return permissions is None or permissions.allows_pattern(parse_pattern(pattern, self._exchange.grammar))


class Inbox:
    """Answers to the requests of one namespace. It is there while any is expected."""

    def __init__(self, exchange: Exchange, name: str) -> None:
        self.echo = True
        self.label = "answers to KubeMQ requests"
        self.exchange = exchange
        self._topic = f"{kubemq.INBOX}{name}"
        self._expected: dict[str, Callable[[Publication], None]] = {}
        self._asked = 0
        self._consumer = exchange.consumer(self, f"{self._topic}.*", "", b"")
        exchange.subscribe(self._consumer)

    def expect(self, answered: Callable[[Publication], None]) -> str:
        """A new reply topic; the first answer to it goes to `answered`."""
        self._asked += 1
        reply = f"{self._topic}.{self._asked}"
        self._expected[reply] = answered
        return reply

    def forget(self, reply: str) -> bool:
        """An answer to this is not wanted any more. True: nor is any other."""
        self._expected.pop(reply, None)
        return not self._expected

    def close(self) -> None:
        self.exchange.unsubscribe(self._consumer)

    def has_room(self, weight: int) -> bool:  # noqa: ARG002
        return True  # one for each call that waits

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        consumer.accepted += 1
        answered = self._expected.get(publication.topic)
        if answered is not None:
            self._expected[publication.topic] = _ignore
            answered(publication)


def _ignore(answer: Publication) -> None:
    """The second answer, and all that follow."""


class _Form(NamedTuple):
    """What a receiver gets of a publication; and the mark of the frame that was made for the first of them."""

    message: Callable[[Publication, NameOf], bytes]


_FROM_EVENT: Final = object()
"""Marks a publication that has just come as an event: its frame is quickly made from that."""


def _event_message(publication: Publication, name_of: NameOf) -> bytes:
    form = publication.form
    if form is not None and form[0] is _FROM_EVENT:
        return kubemq.event_frame(form[1])
    return kubemq.publication_event(publication, name_of).SerializeToString()


def _request_form(kind: Kind) -> _Form:
    def message(publication: Publication, name_of: NameOf) -> bytes:
        return kubemq.publication_request(publication, kind, name_of).SerializeToString()

    return _Form(message)


_EVENTS: Final = _Form(_event_message)
_REQUESTS: Final = {kind: _request_form(kind) for kind in (kubemq.COMMAND, kubemq.QUERY)}


def _own_topic(channel: str) -> str:
    """The topic of a channel of Events. T9: of those that begin with `$` there is the empty one."""
    if channel == kubemq.EMPTY:
        return ""
    if channel.startswith(("$", *kubemq.RESERVED)):
        raise Fault(kubemq.NO_ACCESS, kubemq.DENIED)
    return channel


def _check_length(text: str, longest: int) -> None:
    if len(text) > longest or len(text.encode()) > longest:
        raise Fault(f"a channel or group is at most {longest} bytes long", kubemq.INVALID)


_NO_OTHERS: Final = tuple(f"{prefix}>" for prefix in kubemq.RESERVED)
_EVENTS_ONLY: Final = Permissions(deny=_NO_OTHERS)


def _seen_by(user: User | None, pattern: str, events: bool) -> Permissions | None:
    """What a receiver may be shown. Receivers of Events are not shown requests and answers, whatever they ask for."""
    permissions = user.subscribe if user is not None else None
    if not events or not (pattern.startswith(kubemq.RESERVED) or any(c in pattern.partition(".")[0] for c in "*>")):
        return permissions
    if permissions is None:
        return _EVENTS_ONLY
    return Permissions(permissions.allow, permissions.deny + _NO_OTHERS)
