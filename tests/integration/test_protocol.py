"""The NATS protocol over a real socket: what is said, what is heard, and whether the connection survives it.

Each case is said in one write and again byte by byte, to both hot paths. The client has said CONNECT with the options of the
case (quiet, headers, no responders unless it says otherwise); None: it says nothing but what the case says.
A `~` in what is heard stands for any text within a line.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest

from tests.integration.raw import Closed, RawClient
from tests.integration.running import RunningBroker

QUIET: dict[str, Any] = {}
HEADERS = b"NATS/1.0\r\n\r\n"
WITH_UNIT = b"NATS/1.0\r\nUnit: celsius\r\n\r\n"
NOBODY = b"NATS/1.0 503\r\nNats-Subject: nobody\r\n\r\n"
A_LONG_LINE = b"x" * 5000


class Case(NamedTuple):
    name: str
    said: bytes
    heard: bytes
    closed: bool = False
    options: dict[str, Any] | None = QUIET


SPELLINGS = [
    Case("plain", b"SUB a 1\r\nPUB a 2\r\nhi\r\n", b"MSG a 1 2\r\nhi\r\n"),
    Case("lower case", b"sub a 1\r\npub a 2\r\nhi\r\n", b"MSG a 1 2\r\nhi\r\n"),
    Case("mixed case", b"Sub a 1\r\npUb a 2\r\nhi\r\nPing\r\n", b"MSG a 1 2\r\nhi\r\nPONG\r\n"),
    Case("many spaces", b"SUB   a    1\r\nPUB  a   2\r\nhi\r\n", b"MSG a 1 2\r\nhi\r\n"),
    Case("tabs", b"SUB\ta\t1\r\nPUB\ta\t2\r\nhi\r\n", b"MSG a 1 2\r\nhi\r\n"),
    Case("spaces and tabs in turn", b"SUB \t a\t \t1\r\nPUB\t  a \tr\t 2\r\nhi\r\n", b"MSG a 1 r 2\r\nhi\r\n"),
    Case("spaces before the line end", b"SUB a 1 \r\nPUB a 2 \t\r\nhi\r\n", b"MSG a 1 2\r\nhi\r\n"),
    Case("spaces before the verb", b" SUB a 1\r\n\tPUB a 2\r\nhi\r\n", b"MSG a 1 2\r\nhi\r\n"),
    Case("line feed only", b"SUB a 1\nPUB a 2\nhi\r\nPING\n", b"MSG a 1 2\r\nhi\r\nPONG\r\n"),
    Case("leading zeros", b"SUB a 1\r\nPUB a 000000002\r\nhi\r\n", b"MSG a 1 2\r\nhi\r\n"),
    Case(
        "leading zeros with headers",
        b"SUB a 1\r\nHPUB a 012 014\r\n" + HEADERS + b"hi\r\n",
        b"HMSG a 1 12 14\r\n" + HEADERS + b"hi\r\n",
    ),
    Case("a sid that is no number", b"SUB a left-hand\r\nPUB a 2\r\nhi\r\n", b"MSG a left-hand 2\r\nhi\r\n"),
]

PUBLISHING = [
    Case("no payload", b"SUB a 1\r\nPUB a 0\r\n\r\n", b"MSG a 1 0\r\n\r\n"),
    Case("payload of line ends", b"SUB a 1\r\nPUB a 4\r\n\r\n\r\n\r\n", b"MSG a 1 4\r\n\r\n\r\n\r\n"),
    Case(
        "payload that looks like an operation",
        b"SUB a 1\r\nPUB a 9\r\nPUB a 0\r\n\r\n",
        b"MSG a 1 9\r\nPUB a 0\r\n\r\n",
    ),
    Case(
        "payload of every byte",
        b"SUB a 1\r\nPUB a 256\r\n" + bytes(range(256)) + b"\r\n",
        b"MSG a 1 256\r\n" + bytes(range(256)) + b"\r\n",
    ),
    Case("reply topic", b"SUB a 1\r\nPUB a re.ply 2\r\nhi\r\n", b"MSG a 1 re.ply 2\r\nhi\r\n"),
    Case("reply topic of digits", b"SUB a 1\r\nPUB a 7 2\r\nhi\r\n", b"MSG a 1 7 2\r\nhi\r\n"),
    Case(
        "headers", b"SUB a 1\r\nHPUB a 27 29\r\n" + WITH_UNIT + b"hi\r\n", b"HMSG a 1 27 29\r\n" + WITH_UNIT + b"hi\r\n"
    ),
    Case(
        "headers and reply topic",
        b"SUB a 1\r\nHPUB a r 12 14\r\n" + HEADERS + b"hi\r\n",
        b"HMSG a 1 r 12 14\r\n" + HEADERS + b"hi\r\n",
    ),
    Case(
        "headers without payload",
        b"SUB a 1\r\nHPUB a 12 12\r\n" + HEADERS + b"\r\n",
        b"HMSG a 1 12 12\r\n" + HEADERS + b"\r\n",
    ),
    Case(
        "headers to one who does not take them",
        b"SUB a 1\r\nHPUB a 27 29\r\n" + WITH_UNIT + b"hi\r\n",
        b"MSG a 1 2\r\nhi\r\n",
        options={"headers": False},
    ),
    Case("nobody listens", b"PUB a 2\r\nhi\r\n", b""),
    Case("no subscription, no history (D5)", b"PUB a 2\r\nhi\r\nSUB a 1\r\n", b""),
    Case(
        "order",
        b"SUB a 1\r\nPUB a 1\r\n1\r\nPUB a 1\r\n2\r\nPUB a 1\r\n3\r\n",
        b"MSG a 1 1\r\n1\r\nMSG a 1 1\r\n2\r\nMSG a 1 1\r\n3\r\n",
    ),
    Case("echo off", b"SUB a 1\r\nPUB a 2\r\nhi\r\n", b"", options={"echo": False}),
    Case("echo off in a group", b"SUB a g 1\r\nPUB a 2\r\nhi\r\n", b"", options={"echo": False}),
    Case("the empty topic (T9)", b"SUB $EMPTY 1\r\nPUB $EMPTY 2\r\nhi\r\n", b"MSG $EMPTY 1 2\r\nhi\r\n"),
    Case("the empty topic under > (T6)", b"SUB > 1\r\nPUB $EMPTY 2\r\nhi\r\n", b"MSG $EMPTY 1 2\r\nhi\r\n"),
    Case("the empty topic under * (T6)", b"SUB * 1\r\nPUB $EMPTY r 2\r\nhi\r\n", b"MSG $EMPTY 1 r 2\r\nhi\r\n"),
    Case(
        "empty words (T3)",
        b"SUB a..b 1\r\nSUB a.*.b 2\r\nPUB a..b 0\r\n\r\n",
        b"MSG a..b 1 0\r\n\r\nMSG a..b 2 0\r\n\r\n",
    ),
    Case("part of a word (T5)", b"SUB foo* 1\r\nPUB foo1 0\r\n\r\nPUB fo 0\r\n\r\n", b"MSG foo1 1 0\r\n\r\n"),
    Case("case counts (T1)", b"SUB foo 1\r\nPUB FOO 0\r\n\r\n", b""),
]

SUBSCRIBING = [
    Case("group", b"SUB a g 1\r\nPUB a 2\r\nhi\r\n", b"MSG a 1 2\r\nhi\r\n"),
    Case(
        "the same pattern twice (D2)", b"SUB a 1\r\nSUB a 2\r\nPUB a 0\r\n\r\n", b"MSG a 1 0\r\n\r\nMSG a 2 0\r\n\r\n"
    ),
    Case(
        "the same sid twice: the first holds",
        b"SUB a 1\r\nSUB b 1\r\nPUB b 0\r\n\r\nPUB a 0\r\n\r\n",
        b"MSG a 1 0\r\n\r\n",
    ),
    Case("UNSUB", b"SUB a 1\r\nUNSUB 1\r\nPUB a 0\r\n\r\n", b""),
    Case(
        "UNSUB, then SUB with the same sid", b"SUB a 1\r\nUNSUB 1\r\nSUB b 1\r\nPUB b 0\r\n\r\n", b"MSG b 1 0\r\n\r\n"
    ),
    Case("UNSUB of nothing", b"UNSUB 7\r\nUNSUB 7 7\r\n", b""),
    Case("UNSUB after two", b"SUB a 1\r\nUNSUB 1 2\r\n" + b"PUB a 0\r\n\r\n" * 3, b"MSG a 1 0\r\n\r\n" * 2),
    Case(
        "UNSUB after fewer than there were",
        b"SUB a 1\r\n" + b"PUB a 0\r\n\r\n" * 3 + b"UNSUB 1 2\r\nPUB a 0\r\n\r\n",
        b"MSG a 1 0\r\n\r\n" * 3,
    ),
    Case("UNSUB after none is at once", b"SUB a 1\r\nUNSUB 1 0\r\nPUB a 0\r\n\r\n", b""),
    Case("UNSUB after two, group", b"SUB a g 1\r\nUNSUB 1 2\r\n" + b"PUB a 0\r\n\r\n" * 3, b"MSG a 1 0\r\n\r\n" * 2),
    Case("UNSUB after two, then at once", b"SUB a 1\r\nUNSUB 1 2\r\nUNSUB 1\r\nPUB a 0\r\n\r\n", b""),
    Case("> in the middle", b"SUB a.>.b 1\r\n", b"-ERR 'Permissions Violation for Subscription to ~position 2'\r\n"),
    Case("> inside a word", b"SUB a.b> 1\r\n", b"-ERR 'Permissions Violation for Subscription to ~position 3'\r\n"),
    Case("wildcard in a group name", b"SUB a g* 1\r\n", b"-ERR 'Permissions Violation for Subscription to ~'\r\n"),
    Case(
        "character that no topic has",
        b"SUB a/b 1\r\n",
        b"-ERR 'Permissions Violation for Subscription to ~position 1'\r\n",
    ),
    Case("the server's own topics", b"SUB $SYS.> 1\r\n", b"-ERR 'Permissions Violation for Subscription to ~'\r\n"),
]

ANSWERS = [
    Case("PING", b"PING\r\nPING\r\n", b"PONG\r\nPONG\r\n"),
    Case("PONG that nobody asked for", b"PONG\r\nPONG\r\n", b""),
    Case("nobody can hear the request (R1)", b"SUB in 1\r\nPUB nobody in 2\r\nhi\r\n", b"HMSG in 1 38 38\r\n" + NOBODY + b"\r\n"),
    Case("nobody can hear, the answer under a wildcard", b"SUB in.* 7\r\nPUB nobody in.x 0\r\n\r\n", b"HMSG in.x 7 38 38\r\n" + NOBODY + b"\r\n"),
    Case("nobody can hear, HPUB", b"SUB in 1\r\nHPUB nobody in 12 12\r\n" + HEADERS + b"\r\n", b"HMSG in 1 38 38\r\n" + NOBODY + b"\r\n"),
    Case("nobody can hear, UNSUB does not count it", b"SUB in 1\r\nUNSUB 1 1\r\n" + b"PUB nobody in 0\r\n\r\n" * 2 + b"PUB in 0\r\n\r\n" * 2, (b"HMSG in 1 38 38\r\n" + NOBODY + b"\r\n") * 2 + b"MSG in 1 0\r\n\r\n"),
    Case("nobody can hear, nor does a group hear of that", b"SUB in g 1\r\nPUB nobody in 0\r\n\r\n", b""),
    Case("nobody can hear, nor asked for the answer", b"PUB nobody in 0\r\n\r\n", b""),
    Case("nobody can hear, no_responders off", b"SUB in 1\r\nPUB nobody in 0\r\n\r\n", b"", options={"no_responders": False}),
    Case("nobody can hear, headers off", b"SUB in 1\r\nPUB nobody in 0\r\n\r\n", b"", options={"headers": False}),
    Case("verbose", b"SUB a 1\r\nPUB a 2\r\nhi\r\nUNSUB 1\r\n", b"+OK\r\nMSG a 1 2\r\nhi\r\n+OK\r\n+OK\r\n", options={"verbose": True}),
    Case("verbose, nobody listens", b"PUB a 2\r\nhi\r\n", b"+OK\r\n", options={"verbose": True}),
    Case("verbose, refused", b"SUB a.>.b 1\r\n", b"-ERR '~'\r\n", options={"verbose": True}),
    Case("CONNECT is verbose unless told otherwise", b"CONNECT {}\r\n", b"+OK\r\n", options=None),
    Case("CONNECT again", b'CONNECT {"verbose":true}\r\nPUB a 0\r\n\r\n', b"+OK\r\n+OK\r\n"),
    Case("CONNECT again cannot change the namespace", b'CONNECT {"verbose":false,"user":"b","echo":false}\r\nPUB a 0\r\n\r\n', b""),
    Case("without CONNECT", b"SUB a 1\r\nPUB a 2\r\nhi\r\n", b"+OK\r\nMSG a 1 2\r\nhi\r\n+OK\r\n", options=None),
    Case("CONNECT behind SUB", b'SUB a 1\r\nCONNECT {"verbose":false}\r\nPUB a 0\r\n\r\n', b"+OK\r\nMSG a 1 0\r\n\r\n", options=None),
    Case("CONNECT and all else in one go", b'CONNECT {"verbose":false}\r\nSUB a 1\r\nPUB a 0\r\n\r\n', b"MSG a 1 0\r\n\r\n", options=None),
    Case("wildcard in a topic", b"PUB a.* 0\r\n\r\n", b"-ERR 'Permissions Violation for Publish to ~position 2'\r\n"),
    Case("wildcard in a topic, >", b"PUB > 0\r\n\r\n", b"-ERR 'Permissions Violation for Publish to ~position 0'\r\n"),
    Case("wildcard in a reply topic", b"SUB a 1\r\nPUB a r.> 0\r\n\r\n", b"-ERR 'Permissions Violation for Publish to ~'\r\n"),
    Case("a refused publication takes its payload with it", b"PUB a.* 9\r\nPUB b 0\r\n\r\n", b"-ERR 'Permissions Violation for Publish to ~'\r\n"),
    Case("the server's own topics cannot be published to (T9)", b"PUB $SYS.x 0\r\n\r\n", b"-ERR 'Permissions Violation for Publish to \"$SYS.x\"'\r\n"),
    Case("a namespace that cannot be is the default one (N3)", b'CONNECT {"user":"-x"}\r\n', b"+OK\r\n", options=None),
]  # fmt: skip

LAST_WORDS = [
    Case("unknown operation", b"FOO\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", True),
    Case("an empty line", b"\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", True),
    Case("what a server says", b"MSG a 1 0\r\n\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", True),
    Case("HTTP", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", True),
    Case("unknown operation before CONNECT", b"FOO\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", True, None),
    Case("PUB without a size", b"PUB a\r\n", b"-ERR 'Parser Error: ~'\r\n", True),
    Case("PUB with too many words", b"PUB a b c 1\r\n", b"-ERR 'Parser Error: ~'\r\n", True),
    Case("HPUB with one size", b"HPUB a 1\r\n", b"-ERR 'Parser Error: ~'\r\n", True),
    Case("HPUB, headers longer than all", b"HPUB a 5 4\r\n", b"-ERR 'Parser Error: ~'\r\n", True),
    Case("SUB without a sid", b"SUB a\r\n", b"-ERR 'Parser Error: ~'\r\n", True),
    Case("SUB with too many words", b"SUB a b c d\r\n", b"-ERR 'Parser Error: ~'\r\n", True),
    Case("a sid of 65 bytes", b"SUB a " + b"1" * 65 + b"\r\n", b"-ERR 'Parser Error: ~'\r\n", True),
    Case("UNSUB without a sid", b"UNSUB\r\n", b"-ERR 'Parser Error: ~'\r\n", True),
    Case("payload too large", b"PUB a 1048577\r\n", b"-ERR 'Maximum Payload Violation'\r\n", True),
    Case("payload too large with headers", b"HPUB a 12 1048577\r\n", b"-ERR 'Maximum Payload Violation'\r\n", True),
    Case("a line too long", A_LONG_LINE, b"-ERR 'Maximum Control Line Exceeded'\r\n", True),
    Case("a topic too long", b"PUB " + A_LONG_LINE + b" 0\r\n\r\n", b"-ERR 'Maximum Control Line Exceeded'\r\n", True),
    Case("wrong end of payload", b"PUB a 2\r\nhiXX", b"-ERR 'Unknown Protocol Operation'\r\n", True),
    Case("payload longer than announced", b"PUB a 2\r\nhi!\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", True),
    Case("payload shorter than announced", b"PUB a 3\r\nhi\r\nPING\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", True),
    Case("line feed only behind a payload", b"PUB a 2\r\nhi\nPING\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", True),
    Case("what came before still counts", b"SUB a 1\r\nPUB a 0\r\n\r\nFOO\r\n", b"MSG a 1 0\r\n\r\n-ERR '~'\r\n", True),
]  # fmt: skip

CASES = SPELLINGS + PUBLISHING + SUBSCRIBING + ANSWERS + LAST_WORDS


def test_every_case_has_a_name_of_its_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("way", ["in one write", "byte by byte"])
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_what_is_said_and_heard(broker: RunningBroker, case: Case, way: str) -> None:
    with RawClient(broker.port) as client:
        if case.options is not None:
            client.connect(**case.options)
        said = case.said if case.closed else case.said + b"PING\r\n"
        (client.send if way == "in one write" else client.send_each_byte)(said)
        if case.closed:
            heard = client.read_to_end()
        else:
            wanted = 1 + case.heard.count(b"PONG\r\n")
            heard = b"".join(client.read_until(b"PONG\r\n") for _ in range(wanted))[: -len(b"PONG\r\n")]
        expected = re.escape(case.heard).replace(rb"\~", rb"[^\r\n]*").replace(b"~", rb"[^\r\n]*")
        assert re.fullmatch(expected, heard), (heard, case.heard)


def test_the_largest_payload(broker: RunningBroker) -> None:
    payload = b"x" * (1 << 20)
    with RawClient(broker.port) as client:
        client.connect()
        assert client.info["max_payload"] == len(payload)
        heard = client.talk(b"SUB a 1\r\nPUB a %d\r\n%b\r\n" % (len(payload), payload))
        assert heard == b"MSG a 1 %d\r\n%b\r\nPONG\r\n" % (len(payload), payload)


def test_the_longest_line(broker: RunningBroker) -> None:
    topic = b"x" * (4096 - len(b"PUB  0"))
    with RawClient(broker.port) as client:
        client.connect()
        assert client.talk(b"SUB %b 1\r\n" % topic) == b"PONG\r\n"
        assert client.talk(b"PUB %b 0\r\n\r\n" % topic) == b"MSG %b 1 0\r\n\r\nPONG\r\n" % topic
        with pytest.raises(Closed, match="Maximum Control Line"):
            client.talk(b"PUB %bx 0\r\n\r\n" % topic)


def test_a_thousand_operations_in_one_write(broker: RunningBroker) -> None:
    with RawClient(broker.port) as client:
        client.connect()
        heard = client.talk(b"SUB a.* 1\r\n" + b"".join(b"PUB a.%d 3\r\n%03d\r\n" % (n, n) for n in range(1000)))
        assert heard == b"".join(b"MSG a.%d 1 3\r\n%03d\r\n" % (n, n) for n in range(1000)) + b"PONG\r\n"


def test_half_closed_client_gets_its_answers(broker: RunningBroker) -> None:
    """`printf … | nc` closes its side at once, and still wants to read."""
    with RawClient(broker.port) as client:
        client.connect()
        client.send(b"SUB a 1\r\nPUB a 2\r\nhi\r\n")
        client.socket.shutdown(1)
        assert client.read_to_end() == b"MSG a 1 2\r\nhi\r\n"
