"""A web door without sockets: requests in, answers out. Time moves when the test says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import h11

from fumarole.doors.registry import HttpSettings
from fumarole.exchange.permissions import User
from fumarole.exchange.slices import Slices
from fumarole.fastpath.hot_path import HotPath
from fumarole.sessions.http import api, pages
from fumarole.sessions.http.service import HttpService
from fumarole.sessions.http.session import HttpSession
from fumarole.sessions.stream import Claim, RemoteAddress
from tests.desk import Desk

DATE = "Wed, 18 Nov 2026 19:00:00 GMT"
WALL = 1_795_000_000.0
PAGE = pages.page(".html", b"<!doctype html><title>Fumarole</title>" + b"<p>x" * 500)


class Answer(NamedTuple):
    status: int
    fields: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class FakeCookies:
    """A cookie is the name of its user."""

    def __init__(self, users: dict[str, User]) -> None:
        self._users = users

    def give(self, user: User, life: float) -> str:
        return f"{user.name}-{life:g}"

    def user_of(self, cookie: str) -> User | None:
        return self._users.get(cookie.partition("-")[0])


class Web:
    """The service of a door on a desk."""

    def __init__(self, desk: Desk, users: dict[str, User] | None = None, **settings: Any) -> None:
        self.desk = desk
        self.timers: list[tuple[float, Callable[[], None]]] = []
        made = HttpSettings(**settings)
        self.service = HttpService(
            node=desk.node,
            settings=made,
            router=api.router({"/": PAGE}, "1", made.off, metrics_open=made.metrics_open),
            slices=Slices(),
            wall=lambda: WALL,
            date=lambda: DATE,
            new_id=lambda: f"id{len(self.timers)}",
            later=self._later,
            flush=lambda: None,
            boot="b007",
            line_reader=desk.hot_path.line_reader,
        )
        if users is not None:
            self.service.known = lambda claim: users.get(claim.token or claim.user or "")
            self.service.cookies = FakeCookies(users)

    def _later(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        timer = (seconds, call)
        self.timers.append(timer)
        return lambda: self.timers.remove(timer)

    def time_is_up(self) -> None:
        """All that was to be called later is called."""
        timers, self.timers[:] = self.timers[:], []
        for _, call in timers:
            call()

    def connect(self, address: str = "127.0.0.1") -> Browser:
        return Browser(self, address)

    def asks(self, method: str, target: str, body: bytes | str = b"", **fields: str) -> Answer:
        """One request on a connection of its own."""
        return self.connect().asks(method, target, body, **fields)


class Browser:
    """One connection. The owner of its outbox, as the pump is in real life."""

    def __init__(self, web: Web, address: str) -> None:
        self._web = web
        self.session = HttpSession(web.service, RemoteAddress("127.0.0.1", 8222, address), web.desk.now, self)
        reader = web.desk.hot_path.http_reader
        self.reader = self.session if reader is None else reader(self.session)

    def flush(self) -> None:
        """What is answered waits until the test takes it."""

    def admitted(self) -> None:
        """What was waited for is there: the pump goes on."""
        while self.reader.unfinished:
            self.reader.go_on()

    def says(self, data: bytes) -> Browser:
        self.reader.receive_data(data)
        while self.reader.unfinished:
            self.reader.go_on()
        return self

    def hears(self) -> bytes:
        """All that waits for the client, and what is made when that has left."""
        said = b""
        while (taken := self.session.outbox.take()) or self.session.waits_for_room:
            said += taken
            if self.session.waits_for_room:
                self.session.refill()
        return said

    def sends(self, method: str, target: str, body: bytes | str = b"", **fields: str) -> Browser:
        data = body.encode() if isinstance(body, str) else body
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        if data:
            lines.append(f"Content-Length: {len(data)}")
        return self.says("\r\n".join([*lines, "", ""]).encode() + data)

    def asks(self, method: str, target: str, body: bytes | str = b"", **fields: str) -> Answer:
        self.sends(method, target, body, **fields)
        return answer(self.hears(), method)

    def events(self) -> list[tuple[str, Any]]:
        """Server-sent events that have come, the head of the answer left out."""
        said = self.hears()
        if said.startswith(b"HTTP/1.1 "):
            said = said.partition(b"\r\n\r\n")[2]
        found = []
        for block in said.decode().split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":") and line)
            if lines:
                found.append((lines["event"], json.loads(lines["data"])))
        return found


def answer(said: bytes, method: str = "GET") -> Answer:
    """The one answer that was given, as h11 reads it."""
    found = answers(said, method)
    assert len(found) == 1, said
    return found[0]


def answers(said: bytes, *methods: str) -> list[Answer]:
    """Answers to requests with these methods, as h11 reads them."""
    found = []
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    connection.receive_data(said)
    for number, method in enumerate(methods):
        if number:
            connection.start_next_cycle()
        connection.send(h11.Request(method=method, target="/", headers=[("Host", "localhost")]))
        connection.send(h11.EndOfMessage())
        status, fields, body = 0, {}, b""
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            assert event is not h11.NEED_DATA, said
            if isinstance(event, h11.Response):
                status, fields = event.status_code, {k.decode(): v.decode() for k, v in event.headers}
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
        found.append(Answer(status, fields, body))
    assert not connection.trailing_data[0], connection.trailing_data
    return found


def desk_of(hot_path: HotPath, **options: Any) -> Desk:
    return Desk(hot_path, **options)


__all__ = ["PAGE", "Answer", "Browser", "Claim", "Web", "answer", "answers", "desk_of"]
