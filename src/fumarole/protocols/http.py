"""HTTP/1.1, the server's end: requests in, answers out (RFC 9112).

A small request is one event, `Request`, with its body. Where the body is still on its way, or comes in chunks, the
event has no body, and `Body` events and one `BodyEnd` follow.

    POST /v1/topics/a HTTP/1.1␍␊Host: h␍␊Content-Length: 4␍␊␍␊21.5     Request(head, b"21.5")
    … Transfer-Encoding: chunked␍␊␍␊4␍␊21.5␍␊0␍␊␍␊                      Request(head, None), Body(b"21.5"), BodyEnd()

A client that keeps its connection mostly sends the same head again and again, so the last one is kept as it was parsed:
parsing one takes 12 µs, comparing it 0.1 µs.

What two readers of one stream could understand in two ways is refused, and the connection closes: two lengths, a length
and chunks, a line end of one character, a folded field, white space before a colon.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, NamedTuple

from fumarole.protocols.stream import End, Fault, StreamProtocol

LONGEST_LINE: Final = 16 * 1024
"""Bytes of a request line: a query may be in it."""
LONGEST_FIELDS: Final = 8 * 1024
"""Bytes of all header fields of a request, and of the trailer fields of a chunked body."""
MOST_FIELDS: Final = 100
LONGEST_CHUNK_LINE: Final = 256
CHUNKS_AT_ONCE: Final = 100
"""Chunks of one `Body`: a client may send very small ones, and each costs about a microsecond."""
EMPTY_LINES: Final = 4
"""Bytes of line ends that may stand before a request: some old clients send one after a body."""
CHUNKED: Final = -1
"""In place of the length of a body that comes in chunks."""
NEWLINE: Final = ord("\n")

_REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([!-~]+) HTTP/([0-9])\.([0-9])")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_LENGTH = re.compile(r"[0-9]{1,12}")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[\t -~]*)?")
_BARE_NEWLINE = re.compile(rb"(?<!\r)\n")
_ABSOLUTE = re.compile(r"https?://([^/?#]*)([/?].*)?", re.IGNORECASE)
_HOST = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
_ONLY_ONCE: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "authorization", "expect", "content-type"}
)


class Head(NamedTuple):
    """A request without its body."""

    method: str
    path: str
    """As it was sent: percent-encoded."""
    query: str
    """What follows the question mark, as it was sent."""
    fields: dict[str, str]
    """By name in small letters. Of a repeated field the values are joined, as RFC 9110 has it."""
    length: int
    """Bytes of the body; `CHUNKED`: not known."""
    keep_alive: bool
    """May another request follow on this connection?"""
    is_old: bool
    """HTTP/1.0: no chunks in the answer."""


class Request(NamedTuple):
    head: Head
    body: bytes | None
    """None: it comes in `Body` events."""


class Body(NamedTuple):
    """A part of a body."""

    data: bytes


class BodyEnd(NamedTuple):
    """The body is complete."""


Operation = Request | Body | BodyEnd
Event = Operation | End


class Refused(Fault):
    """A request that is answered with this status, and closes the connection."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text}")


class ServerProtocol(StreamProtocol[Operation]):
    """Hears requests, one at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._left = 0
        """Bytes of the body that have not come yet; `CHUNKED`: as many as the chunks have."""
        self._chunk_left: int | None = None
        """Bytes of the current chunk and its line end that have not come yet; None: its first line is to come."""
        self._in_trailer = False
        self._known: tuple[bytes, Head] | None = None
        """The last head, and what was parsed of it."""

    @property
    def last_head(self) -> bytes:
        """The last head as it was sent, its empty line included. Empty: there was none."""
        return self._known[0] if self._known is not None else b""

    @property
    def in_body(self) -> bool:
        """Is a body on its way?"""
        return self._left != 0

    @property
    def in_request(self) -> bool:
        """Has a request begun whose end has not come yet?"""
        return self._left != 0 or bool(self._pending)

    def _parse(self, events: list[Operation | End]) -> int:
        if self._left == CHUNKED:
            return self._parse_chunks(events)
        if self._left:
            data = bytes(self._pending[: self._left])
            self._left -= len(data)
            events.append(Body(data))
            if not self._left:
                events.append(BodyEnd())
            return len(data)
        return self._parse_request(events)

    def _parse_request(self, events: list[Operation | End]) -> int:
        pending = self._pending
        known = self._known
        if known is not None and pending.startswith(known[0]):
            head, begin = known[1], len(known[0])
        else:
            at = self._skip_empty_lines()
            end = pending.find(b"\r\n\r\n", at)
            if end < 0:
                self._check_half_a_head(at)
                self._needed = len(pending) + 1
                return 0
            begin = end + 4
            text = bytes(pending[at:begin])
            head = parse_head(text)
            self._known = text, head
        self._needed = 1
        if 0 <= head.length <= len(pending) - begin:
            events.append(Request(head, bytes(pending[begin : begin + head.length])))
            return begin + head.length
        self._left = head.length
        events.append(Request(head, None))
        return begin

    def _skip_empty_lines(self) -> int:
        at = 0
        while at < EMPTY_LINES and self._pending.startswith(b"\r\n", at):
            at += 2
        return at

    def _check_half_a_head(self, at: int) -> None:
        """Refuses at once what cannot become a head any more."""
        pending = self._pending
        first = bytes(pending[at : at + 1])
        if first and first != b"\r" and not _NAME.fullmatch(first):
            raise Refused(400, "this is no HTTP request")
        line_end = pending.find(b"\r\n", at)
        if (line_end if line_end >= 0 else len(pending)) - at > LONGEST_LINE:
            raise Refused(414, f"the request line is longer than {LONGEST_LINE} bytes")
        if line_end >= 0 and len(pending) - line_end > LONGEST_FIELDS + 4:
            raise Refused(431, f"the header fields are longer than {LONGEST_FIELDS} bytes")
        if _BARE_NEWLINE.search(pending, at):
            raise Refused(400, "a line of the head does not end with CR LF")

    # Chunks.

    def _parse_chunks(self, events: list[Operation | End]) -> int:
        """Whole and half chunks; what is neither a part of one nor the end stays pending."""
        data = bytes(self._pending)
        at, length = 0, len(data)
        parts: list[bytes] = []
        self._needed = 1
        while at < length and self._left and len(parts) < CHUNKS_AT_ONCE:
            if self._in_trailer:
                past = self._parse_trailer(data, at)
                if past == at:
                    break
                at = past
            elif self._chunk_left is None:
                end = data.find(b"\n", at)
                if end < 0:
                    if length - at > LONGEST_CHUNK_LINE:
                        raise Refused(400, "the first line of a chunk is too long")
                    self._needed = length - at + 1
                    break
                size = _chunk_size(data[at : end + 1])
                at = end + 1
                self._in_trailer = size == 0
                self._chunk_left = size + 2 if size else None
            else:
                at = self._take_of_chunk(data, at, parts)
        if parts:
            events.append(Body(b"".join(parts)))
        if not self._left:
            events.append(BodyEnd())
        return at

    def _take_of_chunk(self, data: bytes, at: int, parts: list[bytes]) -> int:
        """Moves past what is there of the current chunk and of the line end behind it."""
        assert self._chunk_left is not None
        content = min(self._chunk_left - 2, len(data) - at)
        if content > 0:
            parts.append(data[at : at + content])
            self._chunk_left -= content
            at += content
        while self._chunk_left is not None and self._chunk_left <= 2 and at < len(data):
            if data[at] != b"\r\n"[2 - self._chunk_left]:
                raise Refused(400, "a chunk is longer than its size says")
            at += 1
            self._chunk_left = self._chunk_left - 1 or None
        return at

    def _parse_trailer(self, data: bytes, at: int) -> int:
        """Where the body ends; `at` when that has not come yet. Trailer fields are checked and left out."""
        end = at if data.startswith(b"\r\n", at) else data.find(b"\r\n\r\n", at)
        if (len(data) if end < 0 else end) - at > LONGEST_FIELDS:
            raise Refused(431, f"the trailer fields are longer than {LONGEST_FIELDS} bytes")
        if end < 0:
            if _BARE_NEWLINE.search(data, at):
                raise Refused(400, "a line of the trailer does not end with CR LF")
            self._needed = len(data) - at + 1
            return at
        if end > at:
            _parse_fields(data[at:end].split(b"\r\n"))
            end += 2
        self._in_trailer = False
        self._left = 0
        return end + 2

    def _error(self, text: str) -> bytes:
        status, _, detail = text.partition(" ")
        return problem(int(status), detail, keep_alive=False)


def _chunk_size(line: bytes) -> int:
    found = _CHUNK_LINE.fullmatch(line[:-2]) if line.endswith(b"\r\n") else None
    if found is None or len(line) > LONGEST_CHUNK_LINE:
        raise Refused(400, "a chunk begins with its size, one to eight hexadecimal digits, and CR LF")
    return int(found[1], 16)


def parse_head(text: bytes) -> Head:
    """A head, its empty line included. Raises Refused."""
    line, *lines = text[:-4].split(b"\r\n")
    if len(line) > LONGEST_LINE:
        raise Refused(414, f"the request line is longer than {LONGEST_LINE} bytes")
    if len(text) - len(line) > LONGEST_FIELDS + 4:
        raise Refused(431, f"the header fields are longer than {LONGEST_FIELDS} bytes")
    found = _REQUEST_LINE.fullmatch(line)
    if found is None:
        raise Refused(400, "the first line of a request is METHOD TARGET HTTP/1.1")
    method, target, major, minor = (word.decode("ascii") for word in found.groups())
    if major != "1":
        raise Refused(505, f"HTTP/{major}.{minor} is not spoken here, HTTP/1.1 is")
    fields = _parse_fields(lines)
    is_old = minor == "0"
    path, query = _parse_target(method, target, fields)
    _check_host(fields, is_old)
    connection = {word.strip().lower() for word in fields.get("connection", "").split(",")}
    keep_alive = "close" not in connection and (not is_old or "keep-alive" in connection)
    expected = fields.get("expect", "100-continue")
    if expected.lower() != "100-continue":
        raise Refused(417, "only 100-continue can be expected here")
    return Head(method, path, query, fields, _body_length(fields, is_old), keep_alive, is_old)


def _parse_fields(lines: list[bytes]) -> dict[str, str]:
    fields: dict[str, str] = {}
    if len(lines) > MOST_FIELDS:
        raise Refused(431, f"more than {MOST_FIELDS} header fields")
    for line in lines:
        raw, colon, value = line.partition(b":")
        if not colon or not _NAME.fullmatch(raw):
            raise Refused(400, "a header field is a name, a colon and a value, in one line")
        if _CONTROL.search(value):
            raise Refused(400, f"the header field {raw.decode()[:32]} has a control character")
        name, text = raw.decode("ascii").lower(), value.strip(b" \t").decode("latin-1")
        if name not in fields:
            fields[name] = text
        elif name in _ONLY_ONCE:
            raise Refused(400, f"the header field {name} is there twice")
        else:
            fields[name] += ("; " if name == "cookie" else ", ") + text
    return fields


def _parse_target(method: str, target: str, fields: dict[str, str]) -> tuple[str, str]:
    """Path and query. An absolute target names the host too, and goes before the field (RFC 9112, 3.2.2)."""
    if "#" in target:
        raise Refused(400, "a request has no fragment")
    if target == "*" and method == "OPTIONS":
        return "*", ""
    if not target.startswith("/"):
        absolute = _ABSOLUTE.fullmatch(target)
        if absolute is None or method == "CONNECT":
            raise Refused(400, "the target of a request is a path")
        fields["host"], rest = absolute[1], absolute[2] or "/"
        target = rest if rest.startswith("/") else f"/{rest}"
    path, _, query = target.partition("?")
    return path, query


def _check_host(fields: dict[str, str], is_old: bool) -> None:
    host = fields.get("host")
    if host is None and not is_old:
        raise Refused(400, "a request of HTTP/1.1 has a Host")
    if host is not None and not _HOST.fullmatch(host):
        raise Refused(400, "the Host of a request is a name or an address, perhaps with a port")


def _body_length(fields: dict[str, str], is_old: bool) -> int:
    length, coding = fields.get("content-length"), fields.get("transfer-encoding")
    if coding is not None:
        if length is not None:
            raise Refused(400, "a body has a length or chunks, not both")
        if is_old:
            raise Refused(400, "HTTP/1.0 has no chunks")
        if coding.lower() != "chunked":
            raise Refused(501, "the only transfer encoding that is understood here is chunked")
        return CHUNKED
    if length is None:
        return 0
    if not _LENGTH.fullmatch(length):
        raise Refused(400, "Content-Length is one to twelve digits")
    return int(length)


# Answers.

Fields = Iterable[tuple[str, str]]
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"
PROBLEM: Final = "application/problem+json"
_BREAKS_OUT = re.compile(r"[\r\n\0]")
_STATUS_LINES: Final = {int(each): f"HTTP/1.1 {int(each)} {each.phrase}\r\n" for each in HTTPStatus}


def response(status: int, fields: Fields, body: bytes | None = b"", *, keep_alive: bool = True) -> bytes:
    """A whole answer. Without a body (None) the fields say what follows, or that nothing does."""
    lines = [_STATUS_LINES[status]]
    for name, value in fields:
        if _BREAKS_OUT.search(value):
            raise ValueError(f"the value of {name} would break out of its line")
        lines.append(f"{name}: {value}\r\n")
    if not keep_alive:
        lines.append("Connection: close\r\n")
    if body is None:
        return ("".join(lines) + "\r\n").encode("latin-1")
    lines.append(f"Content-Length: {len(body)}\r\n\r\n")
    return "".join(lines).encode("latin-1") + body


def chunk(data: bytes) -> bytes:
    """A part of a body whose length is not known before. Never empty: that would be the last."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def problem(status: int, detail: str, fields: Fields = (), *, keep_alive: bool = True) -> bytes:
    """A refusal before there is a session to say it (RFC 9457)."""
    text = json.dumps(detail)  # a client's own words may be in it
    body = f'{{"type":"about:blank","title":"{phrase(status)}","status":{status},"detail":{text}}}\n'
    said = [("Content-Type", PROBLEM), ("X-Content-Type-Options", "nosniff"), *fields]
    return response(status, said, body.encode(), keep_alive=keep_alive)


def status_of(said: bytes) -> int:
    """The status of an answer."""
    return int(said[9:12])


def phrase(status: int) -> str:
    """What a status is called."""
    return HTTPStatus(status).phrase
