"""The compiled reader of the web door, and of lines of JSON, against the session that is its definition: equal in all that is seen."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fumarole.core.limits import Limits
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.permissions import Permissions, User
from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled
from tests.desk import Desk
from tests.random_examples import examples
from tests.sessions.http.web import Web

pytestmark = pytest.mark.skipif(compiled() is None, reason="the fast path is not built")
LIMITS = Limits(payload=300, control_line=60)
RULES = {"default": NamespaceRules(last="all"), "other": NamespaceRules()}

topic = st.sampled_from(
    ["a", "a/b", "a.b", "a/c/d", "none", "b", "_x", "$SYS.x", "_FORGOTTEN", "", "a%20b", "a..b", "x" * 61]
)
payload = st.one_of(st.binary(max_size=12), st.sampled_from([b"", b"21.5", b"x" * 100, b"x" * 290, b"x" * 301]))
field = st.sampled_from(
    [
        "",
        "",
        "",
        "Content-Type: application/json\r\n",
        "Fumarole-Header-Unit: C\r\n",
        "Connection: close\r\n",
        "Expect: 100-continue\r\n",
        "Origin: http://page.example\r\n",
        "Origin: http://other.example\r\n",
        "Fumarole-Producer: 2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60\r\n",
        "Authorization: Bearer ann\r\n",
        "Authorization: Bearer bob\r\n",
        "Authorization: Bearer eve\r\n",
    ]
)
query = st.sampled_from(["", "", "", "?retain=1", "?namespace=other", "?namespace=-"])


@st.composite
def posts(draw: st.DrawFn) -> list[bytes]:
    """Requests of one client, mostly with one head."""
    head = f"POST /v1/topics/{draw(topic)}{draw(query)} HTTP/1.1\r\nHost: localhost\r\n{draw(field)}".encode()
    bodies = draw(st.lists(payload, min_size=1, max_size=4))
    made = [head + b"Content-Length: %d\r\n\r\n" % len(body) + body for body in bodies]
    return [each for each in made for _ in range(draw(st.integers(1, 4)))]


def chunked(body: bytes) -> bytes:
    return b"POST /v1/topics/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (
        len(body),
        body,
    )


other = st.one_of(
    st.sampled_from(
        [
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET /v1/session HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"POST /v1/topics/a HTTP/1.0\r\nContent-Length: 1\r\n\r\nx",
            b"\r\n",
            b"nonsense\r\n\r\n",
        ]
    ),
    st.binary(min_size=1, max_size=5).map(chunked),
)
step = st.tuples(
    st.integers(0, 1), st.one_of(posts(), posts(), posts(), other.map(lambda one: [one])), st.integers(0, 2**32)
)
repeated = st.lists(step, min_size=1, max_size=4).flatmap(lambda some: st.lists(st.sampled_from(some), max_size=8))
subscriptions = st.lists(
    st.sampled_from([b"SUB a.> 1\r\n", b"SUB > 2\r\n", b"SUB a g 3\r\n", b"SUB a g 4\r\n", b"UNSUB 2\r\n"]), max_size=4
)


def reads(requests: list[bytes], cuts: int) -> list[bytes]:
    """How the requests come in: one in each read, two, all in one, or cut anywhere."""
    together = (1, 1, 2, 3, len(requests))[cuts % 5]
    whole = [b"".join(requests[at : at + together]) for at in range(0, len(requests), together)]
    return whole if cuts % 7 else [piece for each in whole for piece in pieces(each, cuts // 7)]


def pieces(data: bytes, cuts: int) -> list[bytes]:
    places = sorted({(cuts >> (8 * n)) % (len(data) + 1) for n in range(cuts % 5)})
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def play(
    hot_path: HotPath, subscribed: list[bytes], steps: list[tuple[int, list[bytes], int]], has_users: bool
) -> list[object]:
    """Everything that can be seen from outside."""
    desk = Desk(hot_path, LIMITS, RULES)
    users = {
        "ann": User("ann", "default"),
        "bob": User("bob", "other", publish=Permissions(("a.>",))),
    }
    web = Web(desk, users if has_users else None, origins=("http://page.example",))
    listeners = [desk.connect(), desk.connect(headers=False)]
    for number, line in enumerate(subscribed):
        listeners[number % 2].say(line)
    desk.node.authentication = has_users
    browsers = [web.connect(), web.connect()]
    seen: list[object] = []
    for who, requests, cuts in steps:
        for piece in reads(requests, cuts):
            browsers[who].says(piece)
            if browsers[who].session.claim is not None:
                browsers[who].session.admit(None)
                while browsers[who].reader.unfinished:
                    browsers[who].reader.go_on()
            if cuts % 3:
                seen.append([browser.hears() for browser in browsers])
        seen.append([browser.hears() for browser in browsers])
        seen.append([listener.hears() for listener in listeners])
    seen.append([(each.session.close_expected(), each.session.outbox.overflowed) for each in browsers])
    seen.append([each.report() for each in desk.node.namespaces])
    seen.append(dict(web.service.answered))
    seen.insert(0, desk.last_values())
    return seen


@examples(300)
@given(subscriptions, repeated, st.booleans())
def test_the_same_answers(subscribed: list[bytes], steps: list[tuple[int, list[bytes], int]], has_users: bool) -> None:
    fast = compiled()
    assert fast is not None
    got, wanted = play(fast, subscribed, steps, has_users), play(PLAIN, subscribed, steps, has_users)
    assert got == wanted


# Lines of a batch.

text = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [
            "a",
            "a.b",
            "none",
            "",
            "$x",
            "_x",
            "x" * 61,
            "a b",
            "21.5",
            'quo"te',
            "back\\slash",
            "é",
            "\t",
            "x" * 299,
            "x" * 300,
        ]
    ),
)
number = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-1000, max_value=1000).map(float),
    st.sampled_from([0, -0.0, 1.0, 1e16, 1e-5, 0.0001, 0.00012, 123456789012345, 1234567890123456, 123456.123456789]),
)
shown_number = st.one_of(
    number.map(json.dumps), st.sampled_from(["-0", "1.50", "01", "1e5", "0.000", "-", "1.", "00", ".5", "-0.0"])
)


@st.composite
def member(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(["topic", "topic", "payload", "payload", "value", "producer", "retain", "x"]))
    if name == "value" or draw(st.integers(0, 20)) == 0:
        shown = draw(shown_number)
    else:
        shown = json.dumps(draw(text), ensure_ascii=draw(st.booleans()))
    colon = draw(st.sampled_from([":", ": ", " : ", "\t:"]))
    return f'"{name}"{colon}{shown}'


@st.composite
def line(draw: st.DrawFn) -> bytes:
    members = draw(st.lists(member(), min_size=1, max_size=3))
    if draw(st.integers(0, 2)):
        members = [f'"topic":{json.dumps(draw(text))}', *members[1:]]
    between = draw(st.sampled_from([",", ", ", " , "]))
    begin, end = draw(st.sampled_from([("{", "}"), ("{", "}"), ("{ ", " }"), (" {", "} "), ("[", "]"), ("{", "")]))
    return (begin + between.join(members) + end).encode("utf-8", "surrogatepass")


lines = st.lists(
    st.one_of(line(), line(), line(), st.just(b'{"topic":"a","payload":"21.5"}'), st.binary(max_size=6)), max_size=8
).flatmap(
    lambda some: st.lists(
        st.sampled_from([b"\n", b"\n", b"\r\n", b"\n\n"]), min_size=len(some), max_size=len(some)
    ).map(lambda ends: b"".join(each + end for each, end in zip(some, ends, strict=True)))
)


@examples(500)
@given(lines, st.booleans(), st.integers(0, 2**32))
@example(b'{"topic":"a","payload":"x"}', False, 0)
@example(b'{"topic":"a","value":1.0}\n{"value":0.0001,"topic":"a"}\n', True, 0)
@example(b'{"topic":"' + b"x" * 700 + b"\n" + b'{"topic":"a"}\n', True, 400)
def test_the_same_lines(body: bytes, is_chunked: bool, cuts: int) -> None:
    def published(hot_path: HotPath) -> list[object]:
        desk = Desk(hot_path, LIMITS)
        web = Web(desk)
        listener = desk.connect().say(b"SUB > 1\r\nSUB a.> g 2\r\n")
        head = b"POST /v1/topics HTTP/1.1\r\nHost: localhost\r\n"
        if is_chunked:
            parts = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in pieces(body, cuts) if each)
            request = head + b"Transfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n"
        else:
            request = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
        browser = web.connect()
        for piece in pieces(request, cuts):
            browser.says(piece)
        return [browser.hears(), listener.hears(), desk.counters()]

    fast = compiled()
    assert fast is not None
    assert published(fast) == published(PLAIN)
