"""HTTP's server end: what it hears whole it hears byte by byte; what is odd is refused; h11 hears the same."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.protocols import http
from fumarole.protocols.http import Body, BodyEnd, Event, Request, ServerProtocol
from fumarole.protocols.stream import End

HOST = b"Host: localhost\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"
NEXT = b"GET /next HTTP/1.1\r\n" + HOST + b"\r\n"


def heard(protocol: ServerProtocol, *pieces: bytes) -> list[Event]:
    """The events of these pieces; parts of a body that follow one another are joined."""
    events: list[Event] = []
    for piece in pieces:
        protocol.receive_data(piece)
        while more := protocol.events_received():
            events += more
    return joined(events)


def joined(events: list[Event]) -> list[Event]:
    """Each request with its whole body, however it came."""
    found: list[Event] = []
    parts: list[bytes] = []
    for event in events:
        if isinstance(event, Body):
            parts.append(event.data)
        elif isinstance(event, BodyEnd):
            last = found.pop()
            assert isinstance(last, Request)
            found.append(Request(last.head, b"".join(parts)))
            parts = []
        else:
            found.append(event)
    return found


def post(*fields: bytes, body: bytes = b"", line: bytes = b"POST /v1/topics/a HTTP/1.1") -> bytes:
    return b"\r\n".join([line, HOST[:-2], *fields, b"", b""]) + body


GOOD = {
    "a GET": (GET, ("GET", "/", "", b"")),
    "a query": (b"GET /a?b=c&d HTTP/1.1\r\n" + HOST + b"\r\n", ("GET", "/a", "b=c&d", b"")),
    "an empty query": (b"GET /a? HTTP/1.1\r\n" + HOST + b"\r\n", ("GET", "/a", "", b"")),
    "a body": (post(b"Content-Length: 4", body=b"21.5"), ("POST", "/v1/topics/a", "", b"21.5")),
    "an empty body": (post(b"Content-Length: 0"), ("POST", "/v1/topics/a", "", b"")),
    "chunks": (
        post(b"Transfer-Encoding: chunked", body=b"2\r\n21\r\n2\r\n.5\r\n0\r\n\r\n"),
        ("POST", "/v1/topics/a", "", b"21.5"),
    ),
    "chunks in capitals": (
        post(b"Transfer-Encoding: CHUNKED", body=b"A\r\n0123456789\r\n0\r\n\r\n"),
        ("POST", "/v1/topics/a", "", b"0123456789"),
    ),
    "chunks with an extension": (
        post(b"Transfer-Encoding: chunked", body=b"2;a=b\r\n21\r\n0;c\r\n\r\n"),
        ("POST", "/v1/topics/a", "", b"21"),
    ),
    "a trailer": (
        post(b"Transfer-Encoding: chunked", body=b"2\r\n21\r\n0\r\nDigest: x\r\nB: y\r\n\r\n"),
        ("POST", "/v1/topics/a", "", b"21"),
    ),
    "an empty line before": (b"\r\n" + GET, ("GET", "/", "", b"")),
    "an absolute target": (b"GET http://localhost/a?b HTTP/1.1\r\n" + HOST + b"\r\n", ("GET", "/a", "b", b"")),
    "an absolute target without a path": (b"GET http://localhost HTTP/1.1\r\n" + HOST + b"\r\n", ("GET", "/", "", b"")),
    "an asterisk": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", ("OPTIONS", "*", "", b"")),
    "space around a value": (b"GET / HTTP/1.1\r\nHost: \t localhost \t \r\n\r\n", ("GET", "/", "", b"")),
    "HTTP/1.0": (b"GET / HTTP/1.0\r\n\r\n", ("GET", "/", "", b"")),
    "an empty field": (b"GET / HTTP/1.1\r\n" + HOST + b"A:\r\n\r\n", ("GET", "/", "", b"")),
    "bytes beyond ASCII in a value": (b"GET / HTTP/1.1\r\n" + HOST + b"A: \xe4\r\n\r\n", ("GET", "/", "", b"")),
}


@pytest.mark.parametrize(("data", "wanted"), GOOD.values(), ids=GOOD)
def test_what_is_heard(data: bytes, wanted: tuple[str, str, str, bytes]) -> None:
    whole = heard(ServerProtocol(), data + NEXT)
    request, following = whole
    assert isinstance(request, Request)
    assert isinstance(following, Request)
    head = request.head
    assert (head.method, head.path, head.query, request.body) == wanted
    assert following.head.path == "/next"
    assert heard(ServerProtocol(), *[data[at : at + 1] for at in range(len(data))], NEXT) == whole


def fields(*lines: bytes) -> bytes:
    return b"".join([b"GET / HTTP/1.1\r\n", HOST, *(line + b"\r\n" for line in lines), b"\r\n"])


def chunked(body: bytes) -> bytes:
    return post(b"Transfer-Encoding: chunked", body=body)


HOSTILE: dict[str, tuple[int, bytes]] = {
    "no request at all": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    "NATS": (400, b'CONNECT {"verbose":false}\r\n\r\n'),
    "no version": (400, b"GET /\r\n\r\n"),
    "two spaces": (400, b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a tab in the first line": (400, b"GET\t/ HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a space in the target": (400, b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a space after the version": (400, b"GET / HTTP/1.1 \r\n" + HOST + b"\r\n"),
    "small letters in the version": (400, b"GET / http/1.1\r\n" + HOST + b"\r\n"),
    "a version of two digits": (400, b"GET / HTTP/1.10\r\n" + HOST + b"\r\n"),
    "a method with a colon": (400, b"GE:T / HTTP/1.1\r\n" + HOST + b"\r\n"),
    "an endless method": (400, b"G" * 40 + b" / HTTP/1.1\r\n" + HOST + b"\r\n"),
    "HTTP/2": (505, b"PRI * HTTP/2.0\r\n\r\n"),
    "HTTP/0.9": (505, b"GET / HTTP/0.9\r\n\r\n"),
    "HTTP/3": (505, b"GET / HTTP/3.0\r\n" + HOST + b"\r\n"),
    "a target without a slash": (400, b"GET a HTTP/1.1\r\n" + HOST + b"\r\n"),
    "an authority": (400, b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n"),
    "an asterisk of GET": (400, b"GET * HTTP/1.1\r\n" + HOST + b"\r\n"),
    "another scheme": (400, b"GET ftp://localhost/ HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a fragment": (400, b"GET /a#b HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a control character in the target": (400, b"GET /a\x01 HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a byte beyond ASCII in the target": (400, b"GET /\xe4 HTTP/1.1\r\n" + HOST + b"\r\n"),
    "NUL in the target": (400, b"GET /\0 HTTP/1.1\r\n" + HOST + b"\r\n"),
    "no Host": (400, b"GET / HTTP/1.1\r\n\r\n"),
    "Host twice": (400, fields(b"Host: other")),
    "a Host with a space": (400, b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
    "a Host with a path": (400, b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    "a Host with a user": (400, b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"),
    "a Host with an endless port": (400, b"GET / HTTP/1.1\r\nHost: a:123456\r\n\r\n"),
    "an absolute target with a user": (400, b"GET http://a@b/ HTTP/1.1\r\n" + HOST + b"\r\n"),
    "two lengths that differ": (400, post(b"Content-Length: 4", b"Content-Length: 5", body=b"21.5")),
    "two lengths that agree": (400, post(b"Content-Length: 4", b"Content-Length: 4", body=b"21.5")),
    "two lengths in one field": (400, post(b"Content-Length: 4, 4", body=b"21.5")),
    "a length and chunks": (400, post(b"Content-Length: 4", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n")),
    "chunks and a length": (400, post(b"Transfer-Encoding: chunked", b"Content-Length: 4", body=b"0\r\n\r\n")),
    "a length with a sign": (400, post(b"Content-Length: +4", body=b"21.5")),
    "a negative length": (400, post(b"Content-Length: -4", body=b"21.5")),
    "a length in hexadecimal": (400, post(b"Content-Length: 0x4", body=b"21.5")),
    "a length with an underscore": (400, post(b"Content-Length: 1_0", body=b"2123456789")),
    "a length of other digits": (400, post("Content-Length: ٤".encode(), body=b"21.5")),
    "an empty length": (400, post(b"Content-Length:", body=b"21.5")),
    "a length beyond reason": (400, post(b"Content-Length: 99999999999999999999", body=b"21.5")),
    "a length with a letter": (400, post(b"Content-Length: 4a", body=b"21.5")),
    "another coding": (501, post(b"Transfer-Encoding: gzip", body=b"0\r\n\r\n")),
    "two codings": (501, post(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n")),
    "chunked twice": (400, post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n")),
    "chunked twice in one field": (501, post(b"Transfer-Encoding: chunked, chunked", body=b"0\r\n\r\n")),
    "identity": (501, post(b"Transfer-Encoding: identity", body=b"21.5")),
    "an x before chunked": (501, post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n")),
    "vertical tab before chunked": (400, post(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n")),
    "a space before the colon": (400, post(b"Transfer-Encoding : chunked", body=b"0\r\n\r\n")),
    "a tab before the colon": (400, post(b"Content-Length\t: 4", body=b"21.5")),
    "chunks in HTTP/1.0": (
        400,
        post(b"Transfer-Encoding: chunked", body=b"0\r\n\r\n", line=b"POST / HTTP/1.0"),
    ),
    "a folded field": (400, fields(b"A: b", b" c")),
    "a field that begins folded": (400, b"GET / HTTP/1.1\r\n Host: localhost\r\n\r\n"),
    "a field without a colon": (400, fields(b"nonsense")),
    "a field without a name": (400, fields(b": b")),
    "a name with a space": (400, fields(b"A B: c")),
    "a name beyond ASCII": (400, fields(b"\xc3\xa4: c")),
    "NUL in a value": (400, fields(b"A: b\0c")),
    "bare CR in a value": (400, fields(b"A: b\rC: d")),
    "bare LF in a value": (400, fields(b"A: b\nC: d")),
    "bare LF everywhere": (400, b"GET / HTTP/1.1\nHost: localhost\n\n"),
    "bare CR everywhere": (400, b"GET / HTTP/1.1\rHost: localhost\r\r"),
    "DEL in a value": (400, fields(b"A: b\x7f")),
    "Expect of something else": (417, fields(b"Expect: the-unexpected")),
    "Authorization twice": (400, fields(b"Authorization: Bearer a", b"Authorization: Bearer b")),
    "a target beyond its limit": (414, b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a first line without end": (414, b"GET /" + b"a" * 20_000),
    "fields beyond their limit": (431, fields(b"A: " + b"b" * 9_000)),
    "fields without end": (431, b"GET / HTTP/1.1\r\nA: " + b"b" * 9_000),
    "a thousand fields": (431, fields(*[b"A: b"] * 1_000)),
    "a chunk size with a sign": (400, chunked(b"+2\r\n21\r\n0\r\n\r\n")),
    "a negative chunk size": (400, chunked(b"-2\r\n21\r\n0\r\n\r\n")),
    "a chunk size with 0x": (400, chunked(b"0x2\r\n21\r\n0\r\n\r\n")),
    "a chunk size with a space before": (400, chunked(b" 2\r\n21\r\n0\r\n\r\n")),
    "a chunk size of nine digits": (400, chunked(b"000000002\r\n21\r\n0\r\n\r\n")),
    "no chunk size": (400, chunked(b"\r\n21\r\n0\r\n\r\n")),
    "a chunk size beyond reason": (400, chunked(b"fffffffff\r\n21")),
    "bare LF after a chunk size": (400, chunked(b"2\n21\r\n0\r\n\r\n")),
    "bare LF after a chunk": (400, chunked(b"2\r\n21\n0\r\n\r\n")),
    "bare CR after a chunk": (400, chunked(b"2\r\n21\rx0\r\n\r\n")),
    "a chunk longer than its size": (400, chunked(b"2\r\n215\r\n0\r\n\r\n")),
    "an extension without end": (400, chunked(b"2;" + b"a" * 400 + b"\r\n21\r\n0\r\n\r\n")),
    "a control character in an extension": (400, chunked(b"2;a\x01\r\n21\r\n0\r\n\r\n")),
    "bare CR in an extension": (400, chunked(b"2;a\rb\r\n21\r\n0\r\n\r\n")),
    "a folded trailer": (400, chunked(b"0\r\nA: b\r\n c\r\n\r\n")),
    "a trailer without a colon": (400, chunked(b"0\r\nnonsense\r\n\r\n")),
    "a trailer with bare LF": (400, chunked(b"0\r\nA: b\n\n")),
    "a trailer without end": (431, chunked(b"0\r\nA: " + b"b" * 9_000)),
}


@pytest.mark.parametrize(("status", "data"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_requests_are_refused_and_close(status: int, data: bytes) -> None:
    protocol = ServerProtocol()
    events = heard(protocol, data + NEXT)
    assert all(isinstance(event, Request) and event.head.path != "/next" for event in events)
    assert protocol.close_expected()
    assert protocol.data_to_send().startswith(b"HTTP/1.1 %d " % status)
    slowly = ServerProtocol()
    heard(slowly, *[data[at : at + 7] for at in range(0, len(data), 7)], NEXT)
    assert slowly.close_expected()


def test_there_are_at_least_sixty_of_them() -> None:
    assert len(HOSTILE) >= 60


def test_the_end() -> None:
    protocol = ServerProtocol()
    protocol.receive_data(GET)
    protocol.receive_eof()
    (request,) = protocol.events_received()
    assert isinstance(request, Request)
    assert protocol.events_received() == [End()]
    assert protocol.close_expected()


def test_the_same_head_again_is_the_same_object() -> None:
    first, second, third = heard(ServerProtocol(), GET + GET + NEXT)
    assert isinstance(first, Request)
    assert isinstance(second, Request)
    assert first.head is second.head
    assert isinstance(third, Request)
    assert third.head.path == "/next"


@pytest.mark.parametrize(
    ("line", "field", "keeps"),
    [
        ("HTTP/1.1", "", True),
        ("HTTP/1.1", "Connection: close\r\n", False),
        ("HTTP/1.1", "Connection: Upgrade, Close\r\n", False),
        ("HTTP/1.0", "", False),
        ("HTTP/1.0", "Connection: keep-alive\r\n", True),
    ],
)
def test_whether_the_connection_stays(line: str, field: str, keeps: bool) -> None:
    (request,) = heard(ServerProtocol(), f"GET / {line}\r\nHost: a\r\n{field}\r\n".encode())
    assert isinstance(request, Request)
    assert request.head.keep_alive is keeps


def test_fields_that_are_repeated() -> None:
    (request,) = heard(ServerProtocol(), fields(b"Cookie: a=1", b"Cookie: b=2", b"X: 1", b"x: 2"))
    assert isinstance(request, Request)
    assert request.head.fields["cookie"] == "a=1; b=2"
    assert request.head.fields["x"] == "1, 2"


# h11 hears the same.

TOKENS = st.text(alphabet="abcXYZ019-_.", min_size=1, max_size=8)
VALUES = st.text(alphabet="abc 019;=/", max_size=12).map(str.strip)
BODIES = st.binary(max_size=40)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Well-formed ones, and some that are not quite."""
    names = draw(st.lists(st.tuples(TOKENS, VALUES), max_size=3))
    lines = [f"X-{name}: {value}".encode() for name, value in names]
    body = draw(BODIES)
    kind = draw(st.sampled_from(["none", "length", "chunks", "short", "both"]))
    if kind in ("length", "short", "both"):
        lines.append(b"Content-Length: %d" % len(body))
    if kind in ("chunks", "both"):
        lines.append(b"Transfer-Encoding: chunked")
        cut = draw(st.integers(0, len(body)))
        body = b"".join(http.chunk(part) for part in (body[:cut], body[cut:])) + http.LAST_CHUNK
    data = b"\r\n".join([b"POST /" + draw(TOKENS).encode() + b" HTTP/1.1", b"Host: a", *lines, b"", b""])
    data += b"" if kind == "none" else body
    if draw(st.booleans()) and draw(st.booleans()):
        at = draw(st.integers(0, len(data) - 1))
        data = data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
    return data


def by_h11(data: bytes) -> list[tuple[str, str, bytes]] | None:
    """Method, target and body of each request; None: refused."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    connection.receive_data(data)
    found: list[tuple[str, str, bytes]] = []
    head, body = None, b""
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            return None
        if event is h11.NEED_DATA or event is h11.PAUSED:
            return found
        if isinstance(event, h11.Request):
            head, body = event, b""
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            found.append((head.method.decode(), head.target.decode(), body))
            return found


def by_us(data: bytes) -> list[tuple[str, str, bytes]] | None:
    protocol = ServerProtocol()
    events = heard(protocol, data)
    if protocol.close_expected():
        return None
    return [
        (event.head.method, event.head.path + (f"?{event.head.query}" if event.head.query else ""), event.body)
        for event in events
        if isinstance(event, Request) and event.body is not None
    ][:1]


@given(data=requests())
def test_h11_hears_the_same_or_we_refuse(data: bytes) -> None:
    ours = by_us(data)
    if ours is not None:
        assert ours == by_h11(data)


@given(data=requests(), cuts=st.lists(st.integers(1, 200), max_size=4))
def test_pieces_are_heard_as_the_whole(data: bytes, cuts: list[int]) -> None:
    pieces, at = [], 0
    for cut in sorted(set(cuts)):
        pieces.append(data[at:cut])
        at = max(at, cut)
    pieces.append(data[at:])
    whole, parts = ServerProtocol(), ServerProtocol()
    assert heard(whole, data) == heard(parts, *pieces)
    assert whole.close_expected() == parts.close_expected()


def test_answers() -> None:
    assert http.response(200, [("A", "b")], b"cd") == b"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 2\r\n\r\ncd"
    assert http.response(204, [], None, keep_alive=False) == b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
    assert http.chunk(b"") == b""
    with pytest.raises(ValueError, match="break out"):
        http.response(200, [("A", "b\r\nC: d")])
