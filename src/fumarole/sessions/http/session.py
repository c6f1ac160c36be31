"""One connection of the web door: requests one after another, each answered before the next is looked at.

An answer may be there at once, come in pieces (`answer_in_pieces`: each is made when the client has taken those before
it), come later (`wait`), or be a stream of events without end (`begin_stream`). Until it is over, what the client sends
stays where it is.

Each request brings its own credentials, since a proxy may send those of many users over one connection. What was found
out about a head holds for the next request with the same one, so a sensor that posts to one topic is asked once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

from fumarole.core.errors import FumaroleError, NamespaceError, PatternError, TopicError
from fumarole.core.query.errors import QueryError
from fumarole.core.query.evaluation import Unprepared
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.namespaces import DEFAULT
from fumarole.exchange.outbox import Overflow
from fumarole.exchange.permissions import User
from fumarole.exchange.plans import Denied
from fumarole.exchange.quotas import QuotaError
from fumarole.protocols import http
from fumarole.protocols.http import Body, BodyEnd, Event, Head, Request
from fumarole.protocols.stream import End
from fumarole.sessions.http import access, forms
from fumarole.sessions.http.call import SHORT_JSON, Answer, Call
from fumarole.sessions.http.routes import OPAQUE, Access, BadParameterError, Route, options_of
from fumarole.sessions.http.service import HttpService
from fumarole.sessions.stream import PREPARING, RemoteAddress, State, StreamSession

OUTBOX: Final = 64 * 1024
"""Bytes of answers that wait for the client; of a stream of events, the namespace's own limit holds."""
WAITING: Final = 256 * 1024
"""Bytes that a client may send ahead while it is being answered."""
BODY_GRACE: Final = 10.0
SLOWEST_BODY: Final = 4 * 1024
"""Bytes a second, beyond the grace: a body that comes more slowly is cut off."""
WORK_OF_A_REQUEST: Final = 20
WORK_OF_A_PART: Final = 40
"""Of a body: as many chunks as the protocol takes at once."""
WORK_AT_ONCE: Final = 1_000
"""A millisecond or so."""
REFUSALS: Final = frozenset({403, 408, 413, 429, 503})
"""Statuses that say that a client may not, or that a limit is reached."""
IDENTITY: Final = "identity"
NOTHING_HERE: Final = "there is nothing of this name here; /openapi.json lists what there is"
STOPS: Final = "this node stops; ask another one"
NOT_ADMITTED: Final = "this token, or user and password, are not known here"


class Lines(Protocol):
    """What hears a body line by line."""

    unfinished: bool
    """Was a part of the work put off? `go_on` continues with it."""

    def hear(self, data: bytes) -> int:
        """Some of the body, cut anywhere. How much work it was."""

    def go_on(self) -> int:
        """Continues with what was put off."""

    def end(self) -> None:
        """That was all of it: answers."""


class HttpSession(StreamSession):
    """One client of HTTP, until it upgrades to another protocol."""

    NOT_ADMITTED = NOT_ADMITTED
    IN_JOURNAL = False

    def __init__(self, service: HttpService, remote: RemoteAddress, now: float, owner: Any) -> None:
        protocol = http.ServerProtocol()
        super().__init__(service.node, remote, now, owner, protocol)
        self._protocol: http.ServerProtocol = protocol
        self.service = service
        self.remote = remote
        self.waits_for_room = False
        self.stream: Any = None
        """The stream of events that this connection has become."""
        self.opened: Any = None
        """The same from when it counts: before it is in force."""
        self._call: Call | None = None
        """The request whose body is being heard, or that is being answered."""
        self._parts = bytearray()
        self._size = 0
        self._lines: Lines | None = None
        """Hears the lines of a body as they come."""
        self._lines_are_over = False
        """All of that body is with them."""
        self._held: Call | None = None
        """The request that is not answered yet, because a change of metadata is prepared (A6)."""
        self._is_answering = False
        self._is_last = False
        """Does the connection end with the answer that is being given?"""
        self._pieces: Iterator[bytes] | None = None
        self._ends = False
        """The client has closed its side."""
        self._request_number = 0
        self._deadline = now + (node_handshake(service, remote))
        self.outbox.govern(OUTBOX, Overflow.DISCONNECT, service.node.parts.counters())

    # What the pump and the door call.

    def _advance(self, most: int) -> None:
        """One request after another, until one has no answer yet."""
        self.unfinished = False
        self.spent = 0
        while not self._must_wait():
            if self._lines is not None and not self._go_on_with_lines(self._lines):
                return
            events = self._protocol.events_received()
            if not events:
                break
            for following, event in enumerate(events, 1):
                self.spent += self._take(event)
                if self._must_wait() or (self._lines is not None and self._lines.unfinished):
                    self._protocol.put_back(events[following:])
                    self.unfinished = not self._must_wait()
                    return
            if self.spent >= min(most, WORK_AT_ONCE) and self._protocol.pending:
                self.unfinished = True
                return
        if self.close_expected():
            return
        if self._protocol.close_expected() and not self._is_answering and not self._ends:
            said = self._protocol.data_to_send()
            self.service.answered[http.status_of(said)] += 1
            self.outbox.push(said)
            self.close()
        elif self._is_answering and self._protocol.pending > WAITING:
            self.close()

    def hold(self, change: Unprepared) -> None:
        """A line of a batch waits for this; then the batch goes on."""
        self._wait(change)

    def _must_wait(self) -> bool:
        """Nothing more is looked at: not yet, or never."""
        return self._is_answering or self.claim is not None or self.close_expected()

    def _go_on_with_lines(self, lines: Lines) -> bool:
        """With what was put off of a body, before more is looked at. False: there is still something left."""
        if lines.unfinished:
            self.spent += lines.go_on()
            self.unfinished = lines.unfinished
        if self.unfinished:
            return False
        if self._lines_are_over:
            self._lines = None
            try:
                lines.end()
            except Unprepared as change:
                self._lines = lines
                self._wait(change)
                return False
        return True

    def receive_eof(self) -> None:
        """The client sends nothing more. It still gets its answer, but a stream of events ends."""
        self._ends = True
        if self._is_answering and self.stream is None and self.claim is None:
            return
        super().receive_eof()
        if not self._is_answering or self.stream is not None:
            self.close()

    def tick(self, now: float) -> None:
        """Time passes: slow heads and bodies, idle connections, and what streams have to say now and then."""
        self.now = now
        if self.state is State.CLOSED:
            return
        if self.stream is not None:
            self.stream.tick(now)
        elif self.claim is not None or (self._is_answering and not self.waits_for_room):
            self._deadline = now + self.node.limits.idle
        elif now > self._deadline:
            self._too_slow()
        elif self.heard:
            self.heard = False
            if not self._protocol.in_request:
                self._deadline = now + self.node.limits.idle
            elif self._protocol.in_body:
                self._deadline = max(self._deadline, self._began + BODY_GRACE + self._size / SLOWEST_BODY)

    _began = 0.0

    def _too_slow(self) -> None:
        if self._protocol.in_request:
            self.fail("408 this request has taken too long")
        else:
            self.close()

    def send_away(self, others: Iterable[str]) -> None:
        """The node drains (A7). An answer that has begun is given first; what has none yet is refused."""
        if self.stream is not None:
            self.stream.bye(others)
            self.close()
        elif self._pieces is not None:
            self._is_last = True
        else:
            self.fail(STOPS)

    def close(self) -> None:
        self._pieces = None
        self._lines = None
        self.waits_for_room = False
        if self.opened is not None:
            self.opened.close()
        super().close()

    def has_room(self, weight: int) -> bool:
        return self.outbox.has_room(weight)

    def _begin(self, namespace: str) -> None:
        raise AssertionError(f"requests join namespaces, connections do not: {namespace}")

    def _error(self, text: str) -> bytes:
        """Nothing, where no answer is awaited or one has begun."""
        has_begun = self.stream is not None or self._pieces is not None
        if has_begun or not (self._must_wait() or self._protocol.in_request):
            return b""
        status, _, detail = text.partition(" ")
        if not status.isdigit():  # of those that a door says to every protocol
            status, detail = "503", text
        self.service.answered[int(status)] += 1
        self.note_refusal(int(status), detail)
        return http.problem(int(status), detail, keep_alive=False)

    # Requests.

    def _take(self, event: Event) -> int:
        if isinstance(event, Request):
            self._begin_request(event)
            return WORK_OF_A_REQUEST + (0 if event.body is None else len(event.body) >> 6)
        if isinstance(event, Body):
            self._hear(event.data)
            return WORK_OF_A_PART + (len(event.data) >> 6)
        if isinstance(event, BodyEnd):
            self._body_ended()
        elif isinstance(event, End):
            self.close()
        return 0

    def _begin_request(self, request: Request) -> None:
        self._request_number += 1
        self._began = self.now
        head = request.head
        self._parts, self._size, self._lines, self._lines_are_over = bytearray(), 0, None, False
        call = self._call
        if call is None or call.head is not head:
            self._call = None
            call = self._prepare(head)
            if call is None:
                return
            self._call = call
        if request.body is None:
            self._await_body(call)
            return
        if self.claim is not None:
            self._parts += request.body
            return
        call.body = request.body
        self._run(call)

    def _prepare(self, head: Head) -> Call | None:
        """The call that a request makes. None: it was refused."""
        methods, words = self.service.router.find(head.path)
        route = methods.get("GET" if head.method == "HEAD" else head.method)
        refusal = self._foreign(head, route, any(each.touches_messages for each in methods.values()))
        if refusal:
            self._refuse(head, 403, refusal)
        elif not methods and head.path != "*":
            self._refuse(head, 404, NOTHING_HERE)
        elif head.method == "OPTIONS":
            self._options(head, methods)
        elif route is None:
            self._refuse(head, 405, f"{head.method} cannot be done with this", [("Allow", allowed(methods))])
        elif route.body and route.body != OPAQUE and head.fields.get("content-encoding", IDENTITY) != IDENTITY:
            self._refuse(head, 415, "this body is read here, and not unpacked", [("Accept-Encoding", IDENTITY)])
        else:
            try:
                call = Call(self, head, route, words, options_of(head.query, route.parameters))
            except BadParameterError as error:
                self._refuse(head, 400, str(error))
                return None
            return call if self._admit_call(call) else None
        return None

    def _foreign(self, head: Head, route: Route | None, touches_messages: bool) -> str:
        """Why it may not be asked from there; empty: it may."""
        settings = self.service.settings
        if access.foreign_origin(head, settings.origins, secure=self.remote.secure):
            is_page = route is not None and route.access is Access.OPEN and not route.touches_messages
            if not (is_page and access.is_navigation(head)):
                return access.FOREIGN
        return self.rebound(head) if touches_messages else ""

    def rebound(self, head: Head) -> str:
        """Why it may not be asked by that name; empty: it may."""
        is_asked = not self.node.authentication
        names = self.service.settings.hosts
        return access.REBOUND if is_asked and not access.names_this_machine(head, names) else ""

    def _admit_call(self, call: Call) -> bool:
        """False: it was refused. Where `claim` is set afterwards, it goes on in `admit`."""
        if call.route.access is Access.OPEN:
            call.user = self._user_known(call.head)
            return True
        if not self.node.authentication:
            return self._join_call(call, None)
        user = self._user_of_cookie(call.head)
        if user is None:
            claim = access.claim_of(call.head)
            if claim is None:
                self._challenge(call.head, "a user is needed: send user and password (Basic) or a token (Bearer)")
                return False
            user = self.service.known(claim)
            if user is None:
                self.claim = claim
                return True
        return self._join_call(call, user)

    def _user_of_cookie(self, head: Head) -> User | None:
        cookies = self.service.cookies
        cookie = None if cookies is None or "authorization" in head.fields else access.cookie_of(head)
        return None if cookie is None or cookies is None else cookies.user_of(cookie)

    def _user_known(self, head: Head) -> User | None:
        """The user of a request, where its credentials need no check."""
        if not self.node.authentication:
            return None
        claim = access.claim_of(head)
        return self._user_of_cookie(head) if claim is None else self.service.known(claim)

    def _challenge(self, head: Head, detail: str) -> None:
        self._refuse(head, 401, detail, [("WWW-Authenticate", access.challenge(head))])

    def admit(self, user: User | None) -> None:
        """The claim was checked. None: its credentials are wrong."""
        self.claim = None
        call = self._call
        if self.state is State.CLOSED or call is None:
            return
        if user is None:
            self._call = None
            self._challenge(call.head, NOT_ADMITTED)
        elif self._join_call(call, user) and not self._protocol.in_body:
            call.body = bytes(self._parts)
            self._run(call)
        elif self._call is call:
            self._say_continue(call)
        self._advance(WORK_AT_ONCE)

    def _join_call(self, call: Call, user: User | None) -> bool:
        """The namespace and what may be done there. False: it was refused."""
        namespace = user.namespace if user is not None else call.options.get("namespace", DEFAULT)
        try:
            exchange = self._enter(namespace, user)
        except NamespaceError as error:
            return self._refuse(call.head, 400, str(error))
        except QuotaError as error:
            return self._refuse(call.head, 429, str(error), [("Retry-After", "1")])
        if call.route.access is Access.ADMIN and not self.is_admin:
            return self._refuse(call.head, 403, "this is for users with the role `admin`")
        if (node := call.options.get("node")) is not None and not self._names_this_node(node):
            return self._send_elsewhere(call, node)
        call.user = user
        call.exchange = exchange
        call.plans = exchange.plans(None if user is None else user.publish)
        return True

    def _names_this_node(self, node: str) -> bool:
        """Workers are one node to clients: `a` is each of `a/0`, `a/1`."""
        name = self.node.name
        return node == name or name.rpartition("/")[0] == node

    def _send_elsewhere(self, call: Call, node: str) -> bool:
        """What one other node knows, it says itself."""
        cluster = self.node.cluster
        address = None if cluster is None else cluster.web_address(node)
        if address is None:
            return self._refuse(call.head, 404, "no node of this name has a web door that is known here")
        head = call.head
        location = f"{address}{head.path}?{head.query}"
        return self._refuse(head, 307, f"this is answered by {address}", [("Location", location)])

    def _enter(self, namespace: str, user: User | None) -> Exchange:
        """The exchange of a namespace. The connection counts there, and for this user, until it enters another."""
        if self.exchange is not None:
            if self.exchange.name == namespace and self._user is user:
                return self.exchange
            self.remove_consumers()
        exchange = self.node.namespaces.join(namespace)
        account = self.node.account(exchange, user)
        try:
            account.take("connections")
        except QuotaError:
            self.node.namespaces.leave(exchange)
            raise
        account.waits = True
        self.exchange, self.account, self._user = exchange, account, user
        self.is_admin = self.node.is_admin(user, self.remote.address)
        self.state = State.OPEN
        return exchange

    def _options(self, head: Head, methods: dict[str, Route]) -> None:
        fields = [("Allow", allowed(methods))]
        origin = head.fields.get("origin")
        if origin is not None and origin in self.service.settings.origins:
            names = ", ".join(access.sendable(head))
            fields += [("Access-Control-Allow-Methods", allowed(methods)), ("Access-Control-Allow-Headers", names)]
            fields += [("Access-Control-Max-Age", "600")]
        self._pass_over_body(head)
        self._send(head, 204, fields, None)

    # Bodies.

    def _await_body(self, call: Call) -> None:
        limit = self.node.limits.payload
        if call.head.length > limit and not call.route.takes_lines:
            self._refuse(call.head, 413, f"the body has {call.head.length} bytes, and {limit} are allowed")
        elif self.claim is None:
            self._say_continue(call)

    def _say_continue(self, call: Call) -> None:
        if call.route.takes_lines and self._lines is None:
            self._lines = call.route.handle(call)
        if "expect" in call.head.fields and not call.head.is_old:
            self.outbox.push(http.CONTINUE)

    def _hear(self, data: bytes) -> None:
        self._size += len(data)
        if self._call is None:
            return  # it was refused already, and is passed over
        if self._lines is not None:
            self.spent += self._lines.hear(data)
        elif self._size > self.node.limits.payload:
            self._refuse(self._call.head, 413, f"the body has more than {self.node.limits.payload} bytes")
        else:
            self._parts += data

    def _body_ended(self) -> None:
        call = self._call
        if call is None:
            return
        if self._lines is not None:
            self._lines_are_over = True
            return
        call.body = bytes(self._parts)
        self._parts = bytearray()
        self._run(call)

    def _run(self, call: Call) -> None:
        try:
            if call.route.takes_lines:
                self._lines = call.route.handle(call)
                self._lines_are_over = True
                self.spent += self._lines.hear(call.body)
            else:
                call.route.handle(call)
        except Unprepared as change:
            self._held = call
            self._wait(change)
        except FumaroleError as error:
            self.refused(call, error)

    def _prepared(self) -> None:
        call, self._held = self._held, None
        if call is not None and self.claim is PREPARING and self.state is not State.CLOSED:
            self.claim, self.waits_for_nodes = None, False
            self._run(call)
            if self.claim is not None:
                return
            self.claim = PREPARING
        super()._prepared()

    def refused(self, call: Call, error: FumaroleError) -> None:
        """What the client asked for cannot be done."""
        if isinstance(error, QueryError | PatternError | TopicError):
            call.problem(400, str(error), position=error.position)
        elif isinstance(error, QuotaError):
            call.problem(429, str(error), [("Retry-After", "1")])
        else:
            call.problem(403 if isinstance(error, Denied) else 400, str(error))

    # What a compiled reader asks (fastpath/http.pyx).

    def is_between_requests(self) -> bool:
        """Is all that was received answered?"""
        is_done = not (self.unfinished or self._must_wait() or self._protocol.in_request)
        return is_done and self.state is State.OPEN

    def repeats(self) -> tuple[Call, bytes] | None:
        """The last request, and its head as it was sent, where the same head again needs no other look at it."""
        call = self._call
        if call is None or call.repeats is None:
            return None
        head = call.head
        if head.length < 0 or not head.keep_alive or head.is_old or "expect" in head.fields:
            return None
        return call, self._protocol.last_head

    def answer_to(self, call: Call, reached: int) -> bytes:
        """What is answered to a message like the one of this request that went to so many entities."""
        body = forms.encode({"delivered_to": reached}) + b"\n"
        return http.response(202, self._all(call.head, SHORT_JSON), body)

    # Answers.

    def answer(self, status: int, fields: list[Answer], body: bytes | None) -> None:
        """All of it."""
        call = self._call
        assert call is not None
        self._is_answering = False
        self._send(call.head, status, fields, body)

    def answer_in_pieces(self, status: int, fields: list[Answer], pieces: Iterator[bytes]) -> None:
        """Its beginning; the pieces follow."""
        call = self._call
        assert call is not None
        head = call.head
        if head.method == "HEAD":
            self._is_answering = False
            self._send(head, status, fields, None)
            return
        keep = head.keep_alive and not head.is_old and not self._ends
        if keep:
            fields.append(("Transfer-Encoding", "chunked"))
        self._is_answering = True
        self.service.answered[status] += 1
        self.outbox.push(http.response(status, self._all(head, fields), None, keep_alive=keep))
        self._pieces = pieces
        self.refill()

    def refill(self) -> None:
        """There is room for more of the answer."""
        self.waits_for_room = False
        self._deadline = self.now + self.node.limits.idle
        self.service.slices.begin(self._push_pieces())

    def _push_pieces(self) -> Iterator[None]:
        call = self._call
        while self._pieces is not None and call is not None:
            if self.outbox.size >= OUTBOX // 2:
                self.waits_for_room = True
                return
            piece = next(self._pieces, None)
            chunked = call.head.keep_alive and not call.head.is_old and not self._ends
            if piece is None:
                self._pieces = None
                if chunked:
                    self.outbox.push(http.LAST_CHUNK)
                self._answered(chunked)
                return
            if piece:
                self.outbox.push(http.chunk(piece) if chunked else piece)
            yield

    def wait(self) -> Callable[[], bool]:
        """The answer to this request comes later."""
        self._is_answering = True
        number = self._request_number
        return lambda: self._is_answering and self._request_number == number and self.state is not State.CLOSED

    def go_on_after(self) -> None:
        """An answer that came later has been given."""
        self._take_up()
        self.service.flush()

    def _take_up(self) -> None:
        """What the client has sent while it was answered. The owner goes on with what is put off of that."""
        self._advance(WORK_AT_ONCE)
        if self.unfinished:
            self.outbox.owner.admitted()

    def begin_stream(self, stream: Any, fields: Iterable[Answer]) -> None:
        """From here on this connection is a stream of events, which ends with it."""
        call = self._call
        assert call is not None
        assert self.exchange is not None
        self.stream = stream
        self._is_answering = True
        exchange = self.exchange
        self.service.answered[200] += 1
        self.outbox.push(http.response(200, self._all(call.head, fields), None, keep_alive=False))
        self.outbox.govern(exchange.outbox_limit, exchange.overflow, exchange.counters)

    def handed_over(self) -> bytes:
        """Another session has the connection from here on. What was received and belongs to it."""
        rest = self._protocol.reclaim()
        self.close()
        return rest

    def consume(self, key: bytes, consumer: Any) -> None:
        """This consumer ends with the connection."""
        self._consumers[key] = consumer

    def consumed(self, key: bytes) -> None:
        """This one has ended before."""
        self._consumers.pop(key, None)

    def _answered(self, keep: bool) -> None:
        self._is_answering = False
        if not keep or self._is_last:
            self.close()
        else:
            self._take_up()

    def note_refusal(self, status: int, detail: str) -> None:
        """O2. A page that is not there is no refusal, and wrong credentials are noted where they are verified."""
        if status in REFUSALS:
            namespace = "" if self.exchange is None else self.exchange.name
            client = f"{self.label} http {self._address}"
            self.node.journal.note(self.now, "refusal", namespace, client, f"{status} {detail}")

    def _refuse(self, head: Head, status: int, detail: str, fields: Iterable[Answer] = ()) -> bool:
        """Says no. A body that follows is passed over where it is short, else the connection closes."""
        self._call = None
        self.service.answered[status] += 1
        self.note_refusal(status, detail)
        keep = self._pass_over_body(head)
        said = http.problem(status, detail, self._all(head, fields), keep_alive=keep and head.keep_alive)
        self.outbox.push(said if head.method != "HEAD" else said[: said.find(b"\r\n\r\n") + 4])
        if not (keep and head.keep_alive):
            self.close()
        return False

    def _pass_over_body(self, head: Head) -> bool:
        """Is the next request behind the body of this one? A client that waits for 100 may send no body at all."""
        return not self._protocol.in_body or (0 < head.length <= WAITING and "expect" not in head.fields)

    def _send(self, head: Head, status: int, fields: list[Answer], body: bytes | None) -> None:
        keep = head.keep_alive and not self._ends
        self.service.answered[status] += 1
        if head.method == "HEAD":
            if body is not None:
                fields.append(("Content-Length", str(len(body))))
            body = None
        self.outbox.push(http.response(status, self._all(head, fields), body, keep_alive=keep))
        if head.is_old and keep:
            keep = False
        if not keep:
            self.close()

    def _all(self, head: Head, fields: Iterable[Answer]) -> list[Answer]:
        said = [("Date", self.service.date()), *fields]
        origin = head.fields.get("origin")
        if origin is not None and origin in self.service.settings.origins:
            said += [("Access-Control-Allow-Origin", origin), ("Vary", "Origin")]
        return said


def node_handshake(service: HttpService, remote: RemoteAddress) -> float:
    limits = service.node.limits
    return limits.tls_handshake if remote.secure else limits.handshake


def allowed(methods: dict[str, Route]) -> str:
    """What the field Allow says."""
    names = [*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])]
    return ", ".join(sorted(names))
