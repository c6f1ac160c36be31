"""The calls of a KubeMQ client: each method of the service as gRPC speaks it, from its first message to its status.

What a call means to the exchange, its session says (sessions/kubemq.py). A call waits for room (what its client reads
of it), for a confirmation (C2) or for an answer, and says what there is to say as soon as it may:

    SendEvent           message ──► result ──► OK
    SendEventsStream    messages ──► a result for each fault ──► OK after the client's last
    SubscribeTo…        message ──► head, once the subscription is in force ──► messages ──► a status at the end
    SendRequest         message ──► the answer, or no answer in time
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError

from fumarole.core.publication import Publication
from fumarole.exchange.outbox import Outbox
from fumarole.protocols import kubemq
from fumarole.protocols.grpc import PREFIX
from fumarole.protocols.kubemq import Fault
from fumarole.protocols.kubemq_pb2 import DESCRIPTOR, Empty, Event, Request, Response, Result, Subscribe
from fumarole.sessions.kubemq import KubemqSession

if TYPE_CHECKING:
    from fumarole.sessions.kubemq_connection import KubemqConnection

SERVICE: Final = DESCRIPTOR.services_by_name["kubemq"]
PATH: Final = f"/{SERVICE.full_name}/"
PIECE: Final = 64 * 1024
"""Bytes that leave a subscription's outbox at once, and how many wait for the socket."""
SLOW: Final = "slow consumer: the outbox is full"


class KubemqCall:
    """One call: what all methods have in common. Owner of its subscription's outbox, if it has one."""

    def __init__(self, connection: KubemqConnection, stream: int, token: str) -> None:
        self.connection = connection
        self.stream = stream
        self.token = token
        self.session: KubemqSession | None = None
        self.outbox: Outbox | None = None
        self.is_over = False
        self._answering = False
        """Has the head of the answer been sent?"""
        self._waiting = bytearray()
        """What is to leave next; it cannot be dropped any more."""
        self._last: Fault | None = None
        self._ends = False
        """Once all of it has left, the call is over."""

    # What the methods do.

    def begin(self) -> int:
        """The call has begun."""
        return 0

    def heard(self, data: bytes) -> int:
        """A message. How much work it was."""
        raise NotImplementedError

    def ended(self) -> int:
        """The client sends no more."""
        return 0

    # What the connection calls.

    def take(self, data: bytes) -> int:
        if self.is_over or self._ends:
            return 0
        try:
            return self.heard(data)
        except Fault as fault:
            self.end_with(fault)
            return 0

    def take_end(self) -> None:
        if not (self.is_over or self._ends):
            self.run(self.ended)

    def run(self, step: Callable[[], int]) -> int:
        """One step, whose fault is the end of the call."""
        try:
            return step()
        except Fault as fault:
            self.end_with(fault)
            return 0

    def move(self, room: int) -> bool:
        """A piece of what is to be said leaves, as far as there is room. True: there is more, and room."""
        if self.is_over or not self._answering:
            return False
        outbox = self.outbox
        if room and not self._waiting and outbox is not None and outbox.size:
            self._waiting += outbox.take(min(room, PIECE))
        piece = bytes(self._waiting[: min(room, PIECE)])
        if piece:
            del self._waiting[: len(piece)]
            if outbox is None:
                self.connection.unread -= len(piece)
            self.connection.protocol.send(self.stream, piece)
        if self.waits:
            return room > len(piece)
        if self._ends:
            self._finish()
        return False

    @property
    def waits(self) -> bool:
        """Is there anything that has not left?"""
        return bool(self._waiting) or (self.outbox is not None and self.outbox.size > 0)

    def flush(self) -> None:
        """Its subscription's outbox has got something, or too much."""
        outbox = self.outbox
        if outbox is None or self.is_over:
            return
        if outbox.overflowed:
            self.connection.node.slow_consumers += 1
            outbox.clear()
            self.end_with(Fault(SLOW, kubemq.EXHAUSTED))
        elif self._answering:
            self.connection.wait_for_room(self)

    def close(self) -> None:
        """The call is over, ended by the client or by this node."""
        if self.is_over:
            return
        self.is_over = True
        self.connection.outgoing.discard(self)
        if self.outbox is None:
            self.connection.unread -= len(self._waiting)
        self._waiting.clear()
        if self.session is not None:
            self.connection.close_session(self.session)
        if self.outbox is not None:
            self.outbox.clear()
            self.outbox = None

    # What the methods use.

    def reply(self, message: Any) -> None:
        """Says this; it cannot be dropped."""
        data = message.SerializeToString()
        self.answer()
        self._waiting += b"\0" + len(data).to_bytes(4) + data
        self.connection.unread += PREFIX + len(data)
        self.connection.wait_for_room(self)

    def answer(self) -> None:
        """Begins to answer."""
        if not self._answering:
            self._answering = True
            self.connection.protocol.begin_answer(self.stream)

    def end_with(self, fault: Fault | None = None) -> None:
        """The call ends so, as soon as what it had to say has left."""
        if self.is_over or self._ends:
            return
        self._ends, self._last = True, fault
        if self.session is not None:
            self.connection.close_session(self.session)
        if self.waits and self._answering:
            self.connection.wait_for_room(self)
        else:
            self._finish()

    def _finish(self) -> None:
        self.close()
        self.connection.finish(self.stream, self._last)
        self.connection.close_if_drained()

    def parse(self, kind: Any, data: bytes) -> Any:
        try:
            return kind.FromString(data)
        except DecodeError:
            raise Fault("not a message of this method", kubemq.INVALID) from None

    def confirmed(self, call: Callable[[], int]) -> None:
        """Calls back when what was asked for last is in force (C2)."""

        def go_on() -> None:
            if not (self.is_over or self._ends):
                self.run(call)

        confirmations = self.connection.node.confirmations
        confirmations.after(confirmations.ticket(), go_on)


class Ping(KubemqCall):
    def heard(self, data: bytes) -> int:
        self.parse(Empty, data)
        surroundings = self.connection.surroundings
        self.reply(surroundings.service.ping(surroundings.wall_clock()))
        self.end_with()
        return 0


class SendEvent(KubemqCall):
    def heard(self, data: bytes) -> int:
        event = self.parse(Event, data)
        self.session = self.connection.open_session(self.token)
        result = self.session.send_event(event)
        self.reply(result)
        self.end_with()
        return self.session.spent


class SendEventsStream(KubemqCall):
    def begin(self) -> int:
        self.session = self.connection.open_session(self.token)
        return 0

    def heard(self, data: bytes) -> int:
        event = self.parse(Event, data)
        session = self.session
        assert session is not None
        try:
            session.send_event(event)
        except Fault as fault:
            # A client waits for the result of what it wanted stored; of other events it hears only the faults.
            self.reply(Result(EventID=event.EventID, Error=fault.text))
        return session.spent

    def ended(self) -> int:
        self.answer()
        self.end_with()
        return 0


class Subscription(KubemqCall):
    def heard(self, data: bytes) -> int:
        if self.session is not None:
            return 0  # it has said all it can
        request = self.parse(Subscribe, data)
        self.session = self.connection.open_session(self.token)
        self.subscribe(self.session, request)
        self.outbox = self.session.outbox
        self.confirmed(self._begin_answer)
        return 0

    def _begin_answer(self) -> int:
        """The confirmation (D5): clients can wait for it, though KubeMQ's do not."""
        self.answer()
        self.connection.wait_for_room(self)
        return 0

    def subscribe(self, session: KubemqSession, request: Subscribe) -> None:
        raise NotImplementedError


class SubscribeToEvents(Subscription):
    def subscribe(self, session: KubemqSession, request: Subscribe) -> None:
        session.subscribe_to_events(request, self)


class SubscribeToRequests(Subscription):
    def subscribe(self, session: KubemqSession, request: Subscribe) -> None:
        session.subscribe_to_requests(request, self)


class SendRequest(KubemqCall):
    _request: Request
    _cancel: Callable[[], None] | None = None

    def heard(self, data: bytes) -> int:
        if self.session is not None:
            return 0
        request = self._request = self.parse(Request, data)
        surroundings = self.connection.surroundings
        self.session = self.connection.open_session(self.token)
        response = self.session.prepare(request, surroundings.wall_clock(), self._answered)
        if response is not None:
            self.reply(response)
            self.end_with()
        else:
            self.confirmed(self._ask)
        return 0

    def _ask(self) -> int:
        assert self.session is not None
        self._cancel = self.connection.surroundings.later(self._request.Timeout / 1000, self._out_of_time)
        self.session.send_request(self._request)
        return self.session.spent

    def _answered(self, publication: Publication) -> None:
        if not (self.is_over or self._ends):
            now = self.connection.surroundings.wall_clock()
            self.reply(kubemq.publication_response(publication, self._request, now))
            self.end_with()

    def _out_of_time(self) -> None:
        self.end_with(Fault(kubemq.TIMED_OUT))

    def close(self) -> None:
        if self._cancel is not None:
            self._cancel()
            self._cancel = None
        super().close()


class SendResponse(KubemqCall):
    def heard(self, data: bytes) -> int:
        response = self.parse(Response, data)
        self.session = self.connection.open_session(self.token)
        self.session.respond(response)
        self.reply(Empty())
        self.end_with()
        return self.session.spent


METHODS: Final[dict[str, type[KubemqCall]]] = {
    kind.__name__: kind
    for kind in (Ping, SendEvent, SendEventsStream, SubscribeToEvents, SubscribeToRequests, SendRequest, SendResponse)
}
assert {method.name for method in SERVICE.methods} == set(METHODS)
"""Each method that kubemq.proto has; all others are answered with UNIMPLEMENTED."""
