"""One request that is being answered: what was asked, on whose behalf, and the ways to answer."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from fumarole.exchange.exchange import Exchange
from fumarole.exchange.permissions import User
from fumarole.exchange.plans import Plans
from fumarole.protocols import http
from fumarole.protocols.http import Head

if TYPE_CHECKING:
    from fumarole.sessions.http.routes import Route
    from fumarole.sessions.http.service import HttpService
    from fumarole.sessions.http.session import HttpSession

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"
WORTH_GZIP: Final = 1024
"""Bytes. Below them compressing costs more than it saves."""
PIECE: Final = 16 * 1024
"""Bytes of an answer that are made at once; compressing so many takes about half a millisecond."""
_ALWAYS: Final = (("X-Content-Type-Options", "nosniff"),)
SHORT_JSON: Final = (("Content-Type", JSON), *_ALWAYS, ("Cache-Control", "no-store"))
"""The fields of a short answer in JSON."""
_encode = msgspec.json.Encoder().encode

Answer = tuple[str, str]


class Call:
    """What a handler gets."""

    __slots__ = (
        "body",
        "exchange",
        "head",
        "options",
        "plans",
        "prepared",
        "repeats",
        "route",
        "service",
        "session",
        "user",
        "words",
    )

    def __init__(self, session: HttpSession, head: Head, route: Route, words: str, options: dict[str, Any]) -> None:
        self.session = session
        self.service: HttpService = session.service
        self.head = head
        self.route = route
        self.words = words
        """What the braces of the path took, percent-encoded."""
        self.options = options
        self.body = b""
        self.prepared: Any = None
        """What a handler has made of the head, for the next request with the same one."""
        self.repeats: tuple[bytes, bytes] | None = None
        """Topic and headers, where the same head again means the same but for the body (fastpath/http.pyx)."""
        self.user: User | None = None
        """None where authentication is off, or where any client may call."""
        self.exchange: Exchange | None = None
        self.plans: Plans | None = None

    def here(self) -> tuple[Exchange, Plans]:
        """The namespace that this call is in."""
        assert self.exchange is not None
        assert self.plans is not None
        return self.exchange, self.plans

    def accepts(self, kind: str) -> bool:
        """Does the client ask for this type by its name?"""
        return any(each.partition(";")[0].strip() == kind for each in self.head.fields.get("accept", "").split(","))

    @property
    def is_local(self) -> bool:
        """Is it asked what this node alone knows? Of another one, that node is asked."""
        return "node" in self.options

    # Answers. Each call has one.

    def json(self, status: int, value: object, fields: Iterable[Answer] = ()) -> None:
        """A short answer."""
        self.whole(status, JSON, _encode(value) + b"\n", [("Cache-Control", "no-store"), *fields])

    def problem(self, status: int, detail: str, fields: Iterable[Answer] = (), **more: object) -> None:
        """A refusal (RFC 9457)."""
        self.session.note_refusal(status, detail)
        about = {"type": "about:blank", "title": http.phrase(status), "status": status, "detail": detail, **more}
        self.whole(status, http.PROBLEM, _encode(about) + b"\n", fields)

    def whole(self, status: int, kind: str, body: bytes, fields: Iterable[Answer] = ()) -> None:
        """An answer that is there already."""
        if len(body) > 2 * PIECE:
            pieces = (body[at : at + PIECE] for at in range(0, len(body), PIECE))
            self.pieces(status, kind, pieces, fields)
            return
        said = [("Content-Type", kind), *_ALWAYS, *fields]
        if self._wants_gzip(len(body)):
            body = zlib.compress(body, 6, 31)
            said += [each for each in _GZIP if each not in said]
        self.session.answer(status, said, body)

    def empty(self, status: int, fields: Iterable[Answer] = ()) -> None:
        """An answer without a body."""
        self.session.answer(status, list(fields), None if status in (204, 304) else b"")

    def pieces(self, status: int, kind: str, pieces: Iterator[bytes], fields: Iterable[Answer] = ()) -> None:
        """A long answer: each piece is made when the client has taken those before it."""
        said = [("Content-Type", kind), *_ALWAYS, *fields]
        if self._wants_gzip(WORTH_GZIP):
            pieces = _compressed(pieces)
            said += [each for each in _GZIP if each not in said]
        self.session.answer_in_pieces(status, said, pieces)

    def later(self) -> Callable[[], bool]:
        """The answer is not known yet. What is given back says whether the client still waits for it."""
        return self.session.wait()

    def _wants_gzip(self, size: int) -> bool:
        if size < WORTH_GZIP:
            return False
        for each in self.head.fields.get("accept-encoding", "").split(","):
            coding, _, quality = each.partition(";")
            if coding.strip().lower() in ("gzip", "*"):
                return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
        return False


VARY: Final = ("Vary", "Accept-Encoding")
_GZIP: Final = [("Content-Encoding", "gzip"), VARY]


def _compressed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()
