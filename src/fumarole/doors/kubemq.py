"""The KubeMQ door: KubeMQ's gRPC service, by grpc.aio.

The service is put together from its description (kubemq.proto): each method that is described there is a method here,
and every other one is answered with UNIMPLEMENTED. A call gets a session, and the session does the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import grpc
from google.protobuf.message import DecodeError

from fumarole.core.publication import Publication
from fumarole.doors.flushing import flush
from fumarole.doors.logins import Logins
from fumarole.doors.placement import Placement
from fumarole.exchange.node import Node
from fumarole.exchange.outbox import Outbox
from fumarole.exchange.permissions import User
from fumarole.protocols import kubemq, kubemq_pb2
from fumarole.protocols.kubemq import Fault
from fumarole.protocols.kubemq_pb2 import Empty, Event, PingResult, Request, Response, Result, Subscribe
from fumarole.sessions.kubemq import NO_QUEUES, KubemqService, KubemqSession

SERVICE: Final = kubemq_pb2.DESCRIPTOR.services_by_name["kubemq"]
TOKEN: Final = "authorization"
"""The metadata key of the token, which stands there as it is."""
SMALLEST_PING_INTERVAL: Final = 1000
"""Milliseconds between the signs of life of a client that has nothing to say; one that sends more is cut off."""
PING_ANSWER: Final = 20_000
"""Milliseconds that a client has to answer ours."""
IDLE_CONNECTIONS: Final = 5
"""After so many times `limits.idle` without a call a connection is closed; clients open another when they need it."""
LARGEST_READ: Final = 4 * 1024 * 1024
"""Bytes of a message that are read though they are over the limit: so the message is refused, and the call goes on."""

STALE: Final = 0.5
"""Seconds after a standstill in which calls may have waited for long: what is in the sockets has been read by then."""

Context = grpc.aio.ServicerContext[Any, Any]
Handle = Callable[[Any, Context], Awaitable[Any]]
CheckToken = Callable[[str], User | None]


class Certificate(NamedTuple):
    """What the server shows clients, in PEM, and the authority of theirs, where they must have one."""

    key: bytes
    chain: bytes
    client_authority: bytes | None = None


class KubemqDoor:
    """Where KubeMQ clients come in."""

    scheme = "kubemq"

    def __init__(
        self, node: Node, namespace: str, certificate: Certificate | None = None, check: CheckToken | None = None
    ) -> None:
        self._node = node
        self._certificate = certificate
        self._check = check
        self._service = KubemqService(node, namespace, _new_id, time.time())
        self._server: grpc.aio.Server | None = None
        self._calls: dict[asyncio.Task[Any], KubemqSession] = {}
        self._addresses: Counter[str] = Counter()
        self._draining = False
        self._cut_off: set[asyncio.Task[Any]] = set()
        self._stale_until = 0.0
        """By the monotonic clock: until then calls may be older than they look."""
        self.address = ("", 0)

    async def open(self, host: str, port: int, placement: Placement | None = None) -> None:
        """Listens, with `placement` as others on this machine may. Raises OSError where the address cannot be had.

        Connections are the library's, and stay where the kernel has put them.
        """
        shared = placement is not None
        # Calls of which only the beginning has come have no session yet, but are counted here.
        self._server = grpc.aio.server(
            options=self._options(shared), maximum_concurrent_rpcs=self._node.limits.connections
        )
        self._server.add_generic_rpc_handlers((_Methods(self),))
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if self._certificate is None:
                port = self._server.add_insecure_port(where)
            else:
                port = self._server.add_secure_port(where, _credentials(self._certificate))
        except RuntimeError:
            raise OSError("the address is in use, or not one of this machine's") from None
        self.address = (host, port)
        await self._server.start()

    def cut_off(self) -> None:
        """Ends every call at once: what its client said may be too old, and so may be what waits for it.

        Calls that have waited in the sockets begin only now, and are refused for a moment.
        """
        self._stale_until = time.monotonic() + STALE
        for task, session in list(self._calls.items()):
            session.close()
            if session.outbox is not None:
                session.outbox.clear()
            self._cut_off.add(task)
            task.cancel()

    def close_entrance(self) -> None:
        """No new calls."""
        self._draining = True

    def send_away(self, most: int) -> None:
        """Ends so many calls."""
        for task, session in list(self._calls.items())[:most]:
            session.close()
            task.cancel()

    async def renew(self, tls: ssl.SSLContext | None, logins: Logins | None, users: Mapping[str, User]) -> None:  # noqa: ARG002
        """The configuration was loaded again. Calls of a user who has other rules now, or none, end."""
        for task, session in list(self._calls.items()):
            if session.user is not None and users.get(session.user.name) != session.user:
                session.close()
                task.cancel()

    def _look_at_the_clock(self) -> None:
        """Before anything is taken in: has this node stood still? Raises Fault where that may be too old."""
        now = time.monotonic()
        if now > self._node.late_after:
            self._node.wake(now)
        if now < self._stale_until:
            raise Fault(kubemq.STOOD_STILL, kubemq.UNAVAILABLE)

    async def drain(self, seconds: float) -> None:
        """No new calls; what is in the outboxes leaves; then every call is ended."""
        self._draining = True
        for task, session in list(self._calls.items()):
            session.close()
            if session.outbox is None:
                task.cancel()
            else:
                session.outbox.owner.flush()
        if self._server is not None:
            await self._server.stop(seconds)

    def _options(self, shared: bool) -> list[tuple[str, int]]:
        limits = self._node.limits
        handshake = limits.handshake if self._certificate is None else limits.tls_handshake
        return [
            ("grpc.so_reuseport", int(shared)),
            ("grpc.max_allowed_incoming_connections", limits.connections),
            ("grpc.max_concurrent_streams", limits.consumers_per_connection),
            ("grpc.max_connection_idle_ms", int(IDLE_CONNECTIONS * limits.idle * 1000)),
            ("grpc.server_handshake_timeout_ms", int(handshake * 1000)),
            ("grpc.keepalive_time_ms", int(limits.idle * 1000)),
            ("grpc.keepalive_timeout_ms", PING_ANSWER),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.http2.min_ping_interval_without_data_ms", SMALLEST_PING_INTERVAL),
            ("grpc.max_receive_message_length", max(LARGEST_READ, limits.payload + limits.control_line)),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_metadata_size", 16 * 1024),
        ]

    # The methods, by the names they have in kubemq.proto.

    async def Ping(self, _request: Empty, _context: Context) -> PingResult:  # noqa: N802
        return self._service.ping(time.time())

    async def SendEvent(self, event: Event, context: Context) -> Result:  # noqa: N802
        async with self._session(context) as session:
            result = session.send_event(event)
            flush(self._node.ready)
            return result

    async def SendEventsStream(self, _events: object, context: Context) -> None:  # noqa: N802
        async with self._session(context) as session:
            while True:
                event = await context.read()
                if event is grpc.aio.EOF:
                    return
                if event is MALFORMED:
                    raise _malformed()
                self._look_at_the_clock()
                try:
                    session.send_event(event)
                except Fault as fault:
                    # A client waits for the result of what it wanted stored; of other events it hears only the faults.
                    await context.write(Result(EventID=event.EventID, Error=fault.text))
                flush(self._node.ready)

    async def SubscribeToEvents(self, request: Subscribe, context: Context) -> None:  # noqa: N802
        await self._deliver(request, context, KubemqSession.subscribe_to_events)

    async def SubscribeToRequests(self, request: Subscribe, context: Context) -> None:  # noqa: N802
        await self._deliver(request, context, KubemqSession.subscribe_to_requests)

    async def SendRequest(self, request: Request, context: Context) -> Response:  # noqa: N802
        answer: asyncio.Future[Publication] = asyncio.get_running_loop().create_future()
        async with self._session(context) as session:
            response = session.prepare(request, time.time(), partial(_settle, answer))
            if response is not None:
                return response
            await self._confirmed()
            session.send_request(request)
            flush(self._node.ready)
            try:
                publication = await asyncio.wait_for(answer, request.Timeout / 1000)
            except TimeoutError:
                raise Fault(kubemq.TIMED_OUT) from None
        return kubemq.publication_response(publication, request, time.time())

    async def SendResponse(self, response: Response, context: Context) -> Empty:  # noqa: N802
        async with self._session(context) as session:
            session.respond(response)
            flush(self._node.ready)
        return Empty()

    # Calls.

    @contextlib.asynccontextmanager
    async def _session(self, context: Context) -> AsyncIterator[KubemqSession]:
        """The session of this call, counted as a connection while it lasts."""
        self._look_at_the_clock()
        limits, node, address = self._node.limits, self._node, _address(context.peer())
        if node.connections >= limits.connections or self._addresses[address] >= limits.connections_per_address:
            node.refused_connections += 1
            raise Fault("too many calls are under way", kubemq.EXHAUSTED)
        token = _token(context)
        session = self._service.open(token, self._check(token) if self._check is not None and token else None)
        task = asyncio.current_task()
        assert task is not None
        self._calls[task] = session
        node.connections += 1
        self._addresses[address] += 1
        try:
            yield session
        except asyncio.CancelledError:
            if self._draining:
                raise Fault(kubemq.SHUTTING_DOWN, kubemq.UNAVAILABLE) from None
            if task in self._cut_off:
                raise Fault(kubemq.STOOD_STILL, kubemq.UNAVAILABLE) from None
            raise
        finally:
            session.close()
            self._cut_off.discard(task)
            del self._calls[task]
            node.connections -= 1
            self._addresses[address] -= 1
            if not self._addresses[address]:
                del self._addresses[address]

    async def _deliver(
        self, request: Subscribe, context: Context, subscribe: Callable[[KubemqSession, Subscribe, Any], None]
    ) -> None:
        async with self._session(context) as session:
            alarm = _Alarm()
            subscribe(session, request, alarm)
            # The confirmation (D5, C2): clients can wait for it, though KubeMQ's do not.
            await self._confirmed()
            await context.send_initial_metadata(())
            assert session.outbox is not None
            try:
                await _write(session, session.outbox, alarm, context)
            except asyncio.CancelledError:
                if not session.outbox.overflowed:
                    raise
                self._node.slow_consumers += 1
                raise Fault("slow consumer: the outbox is full", kubemq.EXHAUSTED) from None
            finally:
                session.outbox.clear()

    async def _confirmed(self) -> None:
        """Waits until what was asked for last is in force."""
        confirmations = self._node.confirmations
        ticket = confirmations.ticket()
        if not confirmations.is_reached(ticket):
            reached = asyncio.Event()
            confirmations.after(ticket, reached.set)
            flush(self._node.ready)
            await reached.wait()


class _Alarm:
    """Owns the outbox of a call: wakes the call when something is in there, and cancels it when it is to be cut off."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._outbox: Outbox | None = None
        self._asleep: asyncio.Future[None] | None = None
        self._rung = False

    def watch(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.flush()

    def flush(self) -> None:
        self._rung = True
        if self._asleep is not None and not self._asleep.done():
            self._asleep.set_result(None)
        if self._outbox is not None and self._outbox.overflowed and self._task is not None:
            self._outbox = None
            self._task.cancel()

    async def wait(self) -> None:
        if not self._rung:
            self._asleep = self._loop.create_future()
            await self._asleep
        self._rung = False


async def _write(session: KubemqSession, outbox: Outbox, alarm: _Alarm, context: Context) -> None:
    """Until the call is cancelled, or the session is closed and nothing is left."""
    alarm.watch(outbox)
    while True:
        while outbox.size:
            await context.write(outbox.take(0))
        if session.closed:
            raise Fault(kubemq.SHUTTING_DOWN, kubemq.UNAVAILABLE)
        await alarm.wait()


# From the description of the service to what the library wants.

MALFORMED: Final = object()
"""In place of a message that is none."""


class _Methods(grpc.GenericRpcHandler):
    """Each method of the service, and one that stands for all others."""

    def __init__(self, door: KubemqDoor) -> None:
        self._handlers = {f"/{SERVICE.full_name}/{method.name}": _handler(door, method) for method in SERVICE.methods}
        self._other: Any = grpc.stream_stream_rpc_method_handler(_guarded(_not_offered))

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        method = handler_call_details.method
        if isinstance(method, bytes):
            method = method.decode("ascii", "replace")
        known = self._handlers.get(method)
        return self._other if known is None and method.startswith(f"/{SERVICE.full_name}/") else known


def _handler(door: KubemqDoor, method: Any) -> Any:
    make = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[method.client_streaming, method.server_streaming]
    # Subscriptions write frames that were made once for all receivers.
    frames = method.server_streaming and not method.client_streaming
    return make(
        _guarded(getattr(door, method.name)),
        request_deserializer=_reader(method.input_type._concrete_class),
        response_serializer=None if frames else method.output_type._concrete_class.SerializeToString,
    )


def _reader(message: Any) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        try:
            return message.FromString(data)
        except DecodeError:
            return MALFORMED

    return read


def _guarded(handle: Handle) -> Handle:
    """Faults become statuses."""

    async def call(request: Any, context: Context) -> Any:
        try:
            if request is MALFORMED:
                raise _malformed()
            return await handle(request, context)
        except Fault as fault:
            await context.abort(grpc.StatusCode[fault.status], fault.text)

    return call


async def _not_offered(_messages: object, _context: Context) -> None:
    raise Fault(NO_QUEUES, kubemq.UNIMPLEMENTED)


def _settle(answer: asyncio.Future[Publication], found: Publication) -> None:
    if not answer.done():  # the client may just have gone
        answer.set_result(found)


def _malformed() -> Fault:
    return Fault("not a message of this method", kubemq.INVALID)


def _token(context: Context) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == TOKEN:
            return value if isinstance(value, str) else value.decode("utf-8", "replace")
    return ""


def _address(peer: str) -> str:
    """`ipv4:127.0.0.1:50872` is one of the calls from `ipv4:127.0.0.1`."""
    return re.sub(r":[0-9]+$", "", peer)


def _credentials(certificate: Certificate) -> grpc.ServerCredentials:
    return grpc.ssl_server_credentials(
        [(certificate.key, certificate.chain)],
        certificate.client_authority,
        require_client_auth=certificate.client_authority is not None,
    )


def _new_id() -> str:
    return uuid.uuid4().hex
