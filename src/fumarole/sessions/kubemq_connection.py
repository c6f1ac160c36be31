"""One connection of a KubeMQ client: its calls, and how what they have to say shares the way out.

A connection carries any number of calls, each with its own token and its own meaning (sessions/kubemq_calls.py). None
of them holds up another.

    a subscription's outbox ──► a piece of 64 KiB ──► frames ──► the socket
    bounded by the namespace    while the call        `Outgoing`
    (D6), drops whole messages  has a window          takes no more than the socket does

So what a client does not read stays in the outbox of the subscription, where the namespace's policy decides about it.
Answers of other calls cannot be dropped: a connection that leaves too many of them unread is closed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from fumarole.exchange.node import Node
from fumarole.exchange.permissions import User
from fumarole.protocols import kubemq
from fumarole.protocols.grpc import Bounds, Call, Cancelled, Ended, GrpcServer, Looked, Message, Room
from fumarole.protocols.kubemq import Fault
from fumarole.protocols.stream import End
from fumarole.sessions.kubemq import NO_QUEUES, KubemqService, KubemqSession
from fumarole.sessions.kubemq_calls import METHODS, PATH, PIECE, KubemqCall
from fumarole.sessions.stream import UNANSWERED_PINGS, RemoteAddress, State, StreamSession

TOKEN: Final = "authorization"  # noqa: S105 - the name of a header
"""The metadata key of the token, which stands there as it is."""
LARGEST_READ: Final = 4 * 1024 * 1024
"""Bytes of a message that are read though they are over the limit: so the message is refused, and the call goes on."""
HALVES: Final = 4
"""So many of the largest messages may be half received at once."""
METADATA_BYTES: Final = 16 * 1024
IDLE_CONNECTIONS: Final = 5
"""After so many times `limits.idle` without a call a connection is closed; clients open another when they need it."""
MOST_UNREAD: Final = 8 * 1024 * 1024
"""Bytes of answers and of HTTP/2's own frames that a client may leave unread."""
WORK_OF_A_FRAME: Final = 30
WORK_OF_A_CALL: Final = 300
WORK_OF_A_MESSAGE: Final = 12
CODES: Final = {
    kubemq.INVALID: 3,
    kubemq.DENIED: 7,
    kubemq.EXHAUSTED: 8,
    kubemq.UNIMPLEMENTED: 12,
    kubemq.INTERNAL: 13,
    kubemq.UNAVAILABLE: 14,
    kubemq.UNAUTHENTICATED: 16,
}
TOO_MANY_CALLS: Final = "too many calls are under way"

Later = Callable[[float, Callable[[], None]], Callable[[], None]]
"""Calls back after so many seconds. Calling what it returns prevents that."""


class Surroundings(NamedTuple):
    """What the door gives its connections."""

    service: KubemqService
    check: Callable[[str, str], User | None]
    """The user of a token that came from an address; None where there is none, or where authentication is off."""
    later: Later
    wall_clock: Callable[[], float]
    calls: Counter[str]
    """Calls under way that have a session, by address: each is bounded like a connection (L2)."""


class KubemqConnection(StreamSession):
    """The session of a connection, as the pump sees it."""

    NOT_ADMITTED = "not admitted"

    def __init__(self, node: Node, remote: RemoteAddress, now: float, owner: Any, surroundings: Surroundings) -> None:
        limits = node.limits
        largest = max(LARGEST_READ, limits.payload + limits.control_line)
        protocol = GrpcServer(Bounds(largest, HALVES * largest, limits.consumers_per_connection, METADATA_BYTES))
        super().__init__(node, remote, now, owner, protocol)
        self.surroundings = surroundings
        self.protocol = protocol
        self.calls: dict[int, KubemqCall] = {}
        self.is_draining = False
        self.unread = 0
        """Bytes of answers that wait for room."""
        self.outgoing = Outgoing(self, owner)
        self.outbox = self.outgoing  # type: ignore[assignment]  # what the pump needs of one
        self._quiet_since = self._used = self._ticked = now
        self._pings = 0

    # Time.

    def tick(self, now: float) -> None:
        """Deadlines, signs of life, and what the client may cost."""
        self.now = now
        self.protocol.refill(now - self._ticked)
        self._ticked = now
        if self.state is State.START:
            if now > self._deadline:
                self.fail("the handshake took too long")
        elif self.state is State.OPEN:
            idle = self.node.limits.idle
            if self.calls:
                self._used = now
            if self.heard:
                self.heard, self._pings, self._quiet_since = False, 0, now
            elif now - self._quiet_since > idle:
                if self._pings >= UNANSWERED_PINGS:
                    self.close()
                    return
                self._pings += 1
                self._quiet_since = now
                self.protocol.ping()
            if now - self._used > IDLE_CONNECTIONS * idle:
                self.drain()
            self.outgoing.wake()

    # What the client says.

    def _advance(self, most: int) -> None:
        """Windows that were given back meanwhile leave at once: a client without a window waits for them."""
        super()._advance(most)
        self.outgoing.wake()

    def _take(self, event: Any) -> int:
        if type(event) is Message:
            call = self.calls.get(event.stream)
            return WORK_OF_A_MESSAGE if call is None else WORK_OF_A_MESSAGE + call.take(event.data)
        match event:
            case Call(stream, path, metadata):
                self._begin_call(stream, path, metadata)
                return WORK_OF_A_CALL
            case Ended(stream):
                if (call := self.calls.get(stream)) is not None:
                    call.take_end()
            case Cancelled(stream):
                if (call := self.calls.pop(stream, None)) is not None:
                    call.close()
            case Room():
                self.outgoing.look_again()
            case Looked(frames):
                if self.state is State.START:
                    self.state = State.OPEN
                return frames * WORK_OF_A_FRAME
            case End():
                self.close()
        return 1

    def _begin_call(self, stream: int, path: str, metadata: dict[str, str]) -> None:
        kind = METHODS.get(path.removeprefix(PATH)) if path.startswith(PATH) else None
        if self.is_draining:
            self.finish(stream, Fault(kubemq.SHUTTING_DOWN, kubemq.UNAVAILABLE))
        elif kind is None:
            text = NO_QUEUES if path.startswith(PATH) else f"there is no such method here: {path[:100]}"
            self.finish(stream, Fault(text, kubemq.UNIMPLEMENTED))
        else:
            call = self.calls[stream] = kind(self, stream, metadata.get(TOKEN, ""))
            call.run(call.begin)

    def open_session(self, token: str) -> KubemqSession:
        """The session of one call, until `close_session`. Raises Fault."""
        surroundings, limits, address = self.surroundings, self.node.limits, self._address
        calls = surroundings.calls
        if calls[address] >= limits.connections_per_address or calls.total() >= limits.connections:
            self.node.refused_connections += 1
            raise Fault(TOO_MANY_CALLS, kubemq.EXHAUSTED)
        session = surroundings.service.open(token, surroundings.check(token, address) if token else None)
        calls[address] += 1
        return session

    def close_session(self, session: KubemqSession) -> None:
        """The call of this session is over. Closing twice is harmless."""
        if not session.closed:
            session.close()
            calls = self.surroundings.calls
            calls[self._address] -= 1
            if not calls[self._address]:
                del calls[self._address]

    def finish(self, stream: int, fault: Fault | None = None) -> None:
        """The end of a call."""
        self.calls.pop(stream, None)
        self.protocol.finish(stream, *((0,) if fault is None else (CODES[fault.status], fault.text)))
        self.outgoing.wake()

    def wait_for_room(self, call: KubemqCall) -> None:
        """It has something to say."""
        self.outgoing.add(call)

    # The end.

    def drain(self) -> None:
        """No new calls; what is in the outboxes leaves, each call is ended, and then the connection is."""
        if not self.is_draining:
            self.is_draining = True
            for call in list(self.calls.values()):
                call.end_with(Fault(kubemq.SHUTTING_DOWN, kubemq.UNAVAILABLE))
        self.close_if_drained()

    def may_go_on(self, users: Mapping[str, User]) -> bool:
        """Has no user of its calls other rules now (A7)?"""
        known = [call.session.user for call in self.calls.values() if call.session is not None]
        return all(user is None or users.get(user.name) == user for user in known)

    def close_if_drained(self) -> None:
        if self.is_draining and not self.calls and self.state is not State.CLOSED:
            self.outbox.push(self.protocol.goodbye())
            self.close()

    def close(self) -> None:
        calls, self.calls = self.calls, {}
        for call in calls.values():
            call.close()
        self.outgoing.forget_calls()
        super().close()

    def _begin(self, namespace: str) -> None:
        raise AssertionError(namespace)  # calls join namespaces, connections do not

    def _error(self, text: str) -> bytes:
        return self.protocol.goodbye(text)


class Outgoing:
    """What leaves on the connection, in the place of an outbox: HTTP/2's frames, and pieces of what calls have to say.

    `size` is what can leave now. Calls take turns, a piece each, as long as less waits here than a piece.
    """

    takes_headers = False
    late = doubted = False

    def __init__(self, connection: KubemqConnection, owner: Any) -> None:
        self.owner = owner
        self._connection = connection
        self._protocol = connection.protocol
        self._frames: list[bytes] = []
        """What was pushed as it is."""
        self._pushed = 0
        self._is_listed = False
        """Does the pump know that there is something to send?"""
        self._turns: dict[KubemqCall, None] = {}
        """Calls that have something to say and may have room for it."""
        self._blocked: dict[KubemqCall, None] = {}
        """Those without room, until the client gives them some."""

    @property
    def size(self) -> int:
        self._is_listed = False
        turns = self._turns
        while turns and self._protocol.size + self._pushed < PIECE:
            call = next(iter(turns))
            del turns[call]
            if call.move(self._protocol.room(call.stream)):
                turns[call] = None
            elif call.waits:
                self._blocked[call] = None
        return self._protocol.size + self._pushed

    @property
    def overflowed(self) -> bool:
        """Does the client leave too much unread?"""
        return self._protocol.size + self._pushed + self._connection.unread > MOST_UNREAD

    def take(self, most: int = 0) -> bytes:  # noqa: ARG002
        """All that can leave now: about a piece."""
        data = self._protocol.data_to_send() + b"".join(self._frames)
        self._frames.clear()
        self._pushed = 0
        return data

    def push(self, frame: bytes) -> None:
        """Frames as they are."""
        self._frames.append(frame)
        self._pushed += len(frame)
        self.wake()

    def add(self, call: KubemqCall) -> None:
        """It has something to say."""
        if call not in self._blocked:
            self._turns[call] = None
        self.wake()

    def look_again(self) -> None:
        """The client has read something."""
        self._turns.update(self._blocked)
        self._blocked.clear()
        self.wake()

    def wake(self) -> None:
        """The pump is to look whether anything can leave."""
        if not self._is_listed and (self._turns or self._protocol.size or self._pushed):
            self._is_listed = True
            self._connection.node.ready.append(self.owner)

    def discard(self, call: KubemqCall) -> None:
        """It has nothing to say any more."""
        self._turns.pop(call, None)
        self._blocked.pop(call, None)

    def forget_calls(self) -> None:
        self._turns.clear()
        self._blocked.clear()

    def clear(self) -> None:
        self.take()
        self.forget_calls()
