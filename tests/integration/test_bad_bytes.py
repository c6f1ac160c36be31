"""Bytes that no client should send, on both hot paths, each under the oracle of oracle.py.

The answer is the protocol's error or a cut connection; nobody else notices.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import NamedTuple

import pytest

from tests.integration.oracle import MIB, Target
from tests.integration.raw import Closed, RawClient

PARSER = rb"-ERR 'Parser Error: [^\r\n]*'\r\n"
UNKNOWN = rb"-ERR 'Unknown Protocol Operation'\r\n"
TOO_LONG = rb"-ERR 'Maximum Control Line Exceeded'\r\n"
TOO_LARGE = rb"-ERR 'Maximum Payload Violation'\r\n"
SUBJECT = rb"-ERR 'Permissions Violation for Subscription to [^\r\n]*: Invalid Subject: [^\r\n]*'\r\n"
PUBLISH = rb"-ERR 'Permissions Violation for Publish to [^\r\n]*: Invalid Publish Subject: [^\r\n]*'\r\n"
READING = rb"-ERR 'Permissions Violation for Publish to [^\r\n]*: Invalid Reading: [^\r\n]*'\r\n"
DENIED = rb"-ERR 'Permissions Violation [^\r\n]*'\r\n"
VIOLATION = rb"-ERR 'Authorization Violation[^\r\n]*'\r\n"


class Bad(NamedTuple):
    name: str
    said: bytes
    answer: bytes
    closed: bool = True


def sizes(verb: str, template: bytes) -> list[Bad]:
    """What Python's int() or a careless parser would take for a size."""
    wrong = {
        "negative": b"-1",
        "plus sign": b"+7",
        "underscore": b"1_0",
        "ten digits": b"1000000000",
        "twenty digits": b"18446744073709551616",
        "hexadecimal": b"0x10",
        "exponent": b"1e3",
        "decimal point": b"5.0",
        "letters": b"five",
        "Arabic digits": "٣".encode(),
        "full-width digits": "５".encode(),
        "superscript": "²".encode(),
        "no-break space": "\N{NO-BREAK SPACE}5".encode(),
        "vertical tab": b"\x0b5",
        "NUL behind it": b"5\0",
        "carriage return behind it": b"5\r",
    }
    return [Bad(f"{verb}: {name}", template % size, PARSER) for name, size in wrong.items()]


INVALID_UTF8 = {
    "lone continuation": b"\x80",
    "overlong": b"\xc0\xaf",
    "surrogate": b"\xed\xa0\x80",
    "cut short": b"\xe2\x82",
}

INVALID_METADATA = {
    "no JSON": b"{",
    "no object": b"[]",
    "nested deep": b"[" * 100_000,
    "not a number": b'{"a": NaN}',
    "half a surrogate pair": rb'{"a": "\ud800"}',
    "half a surrogate pair for a key": rb'{"\udfff": 1}',
    "more than 64 bits": b'{"a": 18446744073709551616}',
    "400 digits": b'{"a": %b}' % (b"9" * 400),
    "5,000 digits": b'{"a": %b}' % (b"9" * 5_000),
}


def reading(metadata: bytes, value: bytes = b"1", others: bytes = b"") -> bytes:
    block = b"NATS/1.0\r\nProducer: 2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60\r\nMetadata: %b\r\n" % metadata
    block += others + b"\r\n"
    return b"HPUB a %d %d\r\n%b%b\r\n" % (len(block), len(block) + len(value), block, value)


LINES = [
    *sizes("PUB", b"PUB a %b\r\n"),
    *sizes("PUB with reply", b"PUB a r %b\r\n"),
    *sizes("HPUB headers", b"HPUB a %b 12\r\n"),
    *sizes("HPUB total", b"HPUB a 12 %b\r\n"),
    *[
        bad._replace(answer=rb"-ERR 'Parser Error: the count of UNSUB is one to nine digits'\r\n")
        for bad in sizes("UNSUB", b"SUB a 1\r\nUNSUB 1 %b\r\nPUB a 0\r\n\r\n")
    ],
    Bad("headers of no bytes", b"HPUB a 0 2\r\nhi\r\n", rb"-ERR 'Parser Error: headers begin with NATS/1.0'\r\n"),
    Bad("the largest size there is", b"PUB a 999999999\r\n", TOO_LARGE),
    Bad("1 MB of line", b"x" * MIB, TOO_LONG),
    Bad("1 MB of topic", b"PUB " + b"x" * MIB + b" 0\r\n\r\n", TOO_LONG),
    Bad("1 MB of spaces", b"PUB" + b" " * MIB + b"a 0\r\n\r\n", TOO_LONG),
    Bad("1 MB of zeros", b"\0" * MIB, TOO_LONG),
    Bad("NUL for a verb", b"\0\r\n", UNKNOWN),
    Bad("NUL in a verb", b"PU\0B a 0\r\n\r\n", UNKNOWN),
    Bad("NUL in a topic", b"PUB a\0b 0\r\n\r\n", PUBLISH, False),
    Bad("NUL in a reply topic", b"PUB a r\0 0\r\n\r\n", PUBLISH, False),
    Bad("NUL in a pattern", b"SUB a\0b 1\r\n", SUBJECT, False),
    Bad("NUL in a group", b"SUB a g\0 1\r\n", SUBJECT, False),
    Bad("carriage return in a topic", b"PUB a\rb 0\r\n\r\n", PUBLISH, False),
    Bad("carriage return in a pattern", b"SUB a\rb 1\r\n", SUBJECT, False),
    Bad("wrong end of payload", b"PUB a 5\r\nhelloXX", UNKNOWN),
    Bad("wrong end of headers", b"HPUB a 12 17\r\nNATS/1.0\r\n\r\nhelloXX", UNKNOWN),
    Bad("one byte of the end wrong", b"PUB a 5\r\nhello\rX", UNKNOWN),
    *[Bad(f"topic, {name}", b"PUB a%b 0\r\n\r\n" % wrong, PUBLISH, False) for name, wrong in INVALID_UTF8.items()],
    *[Bad(f"own topic, {name}", b"PUB $%b 0\r\n\r\n" % wrong, DENIED, False) for name, wrong in INVALID_UTF8.items()],
    *[
        Bad(f"reply topic, {name}", b"PUB a %b 0\r\n\r\n" % wrong, PUBLISH, False)
        for name, wrong in INVALID_UTF8.items()
    ],
    *[Bad(f"pattern, {name}", b"SUB a%b 1\r\n" % wrong, SUBJECT, False) for name, wrong in INVALID_UTF8.items()],
    *[Bad(f"group, {name}", b"SUB a %b 1\r\n" % wrong, SUBJECT, False) for name, wrong in INVALID_UTF8.items()],
    Bad("> in the middle", b"SUB a.>.b 1\r\n", SUBJECT, False),
    Bad("> twice", b"SUB >.> 1\r\n", SUBJECT, False),
    Bad("wildcards in PUB", b"PUB a.*.b 0\r\n\r\nPUB > 0\r\n\r\nPUB a* 0\r\n\r\n", PUBLISH * 3, False),
    Bad("wildcards in HPUB", b"HPUB a.* 12 12\r\nNATS/1.0\r\n\r\n\r\n", PUBLISH, False),
    *[Bad(f"metadata, {name}", reading(wrong), READING, False) for name, wrong in INVALID_METADATA.items()],
    *[
        Bad(f"a value of {digits} digits, which is text", reading(b"{}", b"9" * digits), b"", False)
        for digits in (20, 400, 5_000)
    ],
    Bad("a reading with 1 MB of other headers", reading(b"{}", others=b"a:\r\n" * (MIB // 4 - 50)), b"", False),
    Bad("1 MB of metadata", reading(b"[" + b"[]," * (MIB // 3 - 100) + b"[]]"), READING, False),
    Bad(
        "a value of 1 MB of brackets, which is text",
        reading(b"{}", b"[" + b"[]," * (MIB // 3 - 100) + b"]"),
        b"",
        False,
    ),
    Bad("TLS without having been asked", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n", UNKNOWN),
]


@pytest.mark.parametrize("bad", LINES, ids=[bad.name for bad in LINES])
def test_line(target: Target, bad: Bad) -> None:
    target.sent.append(bad.said.decode("latin-1"))
    with RawClient(target.port) as client:
        client.connect()
        if bad.closed:
            with contextlib.suppress(OSError):
                client.send(bad.said)
            heard = client.read_to_end()
        else:
            heard = client.talk(bad.said).removesuffix(b"PONG\r\n")
        assert re.fullmatch(bad.answer, heard), heard


@pytest.mark.parametrize("topic", [b"$\xff", b"$a\0b", b"$a\rb", b"$SYS.REQ.SERVER.PING", b"$" + b"x" * 4000], ids=repr)
def test_a_request_to_a_topic_of_the_servers_own(target: Target, topic: bytes) -> None:
    """It is answered by a header that repeats the topic, and what is repeated must not break out of it."""
    with RawClient(target.port) as client:
        client.connect()
        heard = client.talk(b"SUB in 1\r\nPUB %b in 0\r\n\r\n" % topic)
        assert re.fullmatch(
            rb"HMSG in 1 (\d+) \1\r\nNATS/1.0 503\r\nNats-Subject: [!-~]+\r\n\r\n\r\n" + DENIED + b"PONG\r\n", heard
        ), heard


DEEP = b"[" * 2000 + b"]" * 2000
CONNECTS = [
    Bad("not JSON", b"CONNECT hello\r\n", PARSER),
    Bad("no options", b"CONNECT\r\n", PARSER),
    Bad("half of JSON", b'CONNECT {"user":\r\n', PARSER),
    Bad("two values", b"CONNECT {} {}\r\n", PARSER),
    Bad("a list", b"CONNECT []\r\n", PARSER),
    Bad("a number", b"CONNECT 5\r\n", PARSER),
    Bad("null", b"CONNECT null\r\n", PARSER),
    Bad("NUL", b'CONNECT {"user":"\0"}\r\n', PARSER),
    Bad("invalid UTF-8", b'CONNECT {"user":"\xff"}\r\n', PARSER),
    Bad("UTF-16", b"CONNECT " + '{"user":"a"}'.encode("utf-16") + b"\r\n", rb"(?s:.*)"),
    Bad("a byte order mark", b'CONNECT \xef\xbb\xbf{"user":"a"}\r\n', PARSER),
    Bad("nested deep, balanced", b'CONNECT {"a":' + DEEP + b"}\r\n", PARSER),
    Bad("nested deep, open", b'CONNECT {"a":' + b'{"a":' * 800 + b"\r\n", PARSER),
    Bad("nested 10,000 deep", b'CONNECT {"a":' + b"[" * 10_000 + b"\r\n", TOO_LONG),
    Bad("10 MB", b'CONNECT {"user":"' + b"x" * 10 * MIB + b'"}\r\n', TOO_LONG),
    Bad("a number of 4,000 digits", b'CONNECT {"a":' + b"9" * 4000 + b"}\r\n", rb"(\+OK\r\n)?", closed=False),
    Bad("NaN", b'CONNECT {"verbose":NaN,"lang":-Infinity}\r\n', rb"(\+OK\r\n)?|" + PARSER, closed=False),
    Bad("a namespace that cannot be", b'CONNECT {"user":"a b"}\r\n', rb"\+OK\r\n", closed=False),  # N3
    Bad("a namespace of 64 letters", b'CONNECT {"user":"' + b"x" * 64 + b'"}\r\n', rb"\+OK\r\n", closed=False),  # N3
    Bad("a line end in the user", b'CONNECT {"user":"a\\r\\nPUB"}\r\n', rb"\+OK\r\n", closed=False),  # N3
    Bad("half a surrogate pair", b'CONNECT {"user":"\\ud800"}\r\n', rb"\+OK\r\n", closed=False),  # N3
    Bad("half a surrogate pair for a token", b'CONNECT {"auth_token":"\\udfff"}\r\n', rb"\+OK\r\n", closed=False),  # N3
    Bad("user is a number", b'CONNECT {"user":5}\r\n', VIOLATION),
    Bad("user is a list", b'CONNECT {"user":["red"]}\r\n', VIOLATION),
    Bad("user is an object", b'CONNECT {"user":{"red":1}}\r\n', VIOLATION),
    Bad("user is true", b'CONNECT {"user":true}\r\n', VIOLATION),
    Bad("token is a number", b'CONNECT {"auth_token":5}\r\n', VIOLATION),
]  # fmt: skip


@pytest.mark.parametrize("bad", CONNECTS, ids=[bad.name for bad in CONNECTS])
def test_connect(target: Target, bad: Bad) -> None:
    with RawClient(target.port) as client:
        with contextlib.suppress(OSError):
            client.send(bad.said if bad.closed else bad.said + b"PING\r\n")
        heard = client.read_to_end() if bad.closed else client.read_until(b"PONG\r\n").removesuffix(b"PONG\r\n")
        assert re.fullmatch(bad.answer, heard), heard


def test_connect_with_the_same_key_twice(target: Target) -> None:
    """As in JSON everywhere, the last one counts; but never both."""
    with RawClient(target.port) as red, RawClient(target.port) as blue, RawClient(target.port) as both:
        red.connect(user="red")
        blue.connect(user="blue")
        both.talk(b'CONNECT {"user":"red","verbose":false,"user":"blue"}\r\n')
        for client in (red, blue):
            client.talk(b"SUB a 1\r\n")
        both.talk(b"PUB a 0\r\n\r\n")
        assert blue.talk(b"") == b"MSG a 1 0\r\n\r\nPONG\r\n"
        assert red.talk(b"") == b"PONG\r\n"


WRONG_TYPES = [1, 0, -1, 1.5, "", "x", "true", [], [1], {}, {"a": 1}, None]


def test_connect_with_options_of_wrong_types(target: Target) -> None:
    """Whatever is not understood is as if it had not been said: the connection works, and does nothing odd."""
    for wrong in WRONG_TYPES:
        with RawClient(target.port) as client:
            options = dict.fromkeys(
                ("echo", "headers", "no_responders", "name", "lang", "version", "pedantic", "protocol"), wrong
            )
            client.talk(b"CONNECT " + json.dumps({**options, "verbose": False}).encode() + b"\r\n")
            assert client.talk(b"SUB a 1\r\nPUB a 2\r\nhi\r\n") == b"MSG a 1 2\r\nhi\r\nPONG\r\n"


def test_a_name_that_is_very_long_or_odd(target: Target) -> None:
    for name in ("x" * 3900, "\ud800", "\r\nPING\r\n", "\0", "\x1b[31m"):
        target.sent.append(name)
        with RawClient(target.port) as client:
            client.connect(name=name)
            assert client.talk(b"SUB a 1\r\nPUB a 0\r\n\r\n") == b"MSG a 1 0\r\n\r\nPONG\r\n"


def test_half_a_line_for_ever(target: Target) -> None:
    """A few hundred clients, each with as much of a line as there may be, and no end of it."""
    clients = [RawClient(target.port) for _ in range(300)]
    memory = target.broker.memory()
    for client in clients:
        client.connect()
        client.send(b"PUB " + b"x" * 4000)
    clients[0].send_each_byte(b"x" * 50)
    assert clients[0].is_quiet(0)
    target.settle(lambda seen: True)
    assert target.broker.memory() - memory < 300 * 32 * 1024
    with pytest.raises(Closed, match="Maximum Control Line"):
        clients[0].talk(b"x" * 100)
    for client in clients:
        client.close()


def test_headers_are_carried_as_they_are(target: Target) -> None:
    """After its version, what an HPUB calls headers may be any bytes. They never leave their frame."""
    block = b"NATS/1.0\r\n\r\n\r\nMSG a 1 5\r\n\0\xff\r\nhello\r\n"
    with RawClient(target.port) as client:
        client.connect()
        heard = client.talk(b"SUB a 1\r\nHPUB a %d %d\r\n%bhi\r\n" % (len(block), len(block) + 2, block))
        assert heard == b"HMSG a 1 %d %d\r\n%bhi\r\nPONG\r\n" % (len(block), len(block) + 2, block)
