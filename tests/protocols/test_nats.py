import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.limits import Limits
from fumarole.protocols import nats
from fumarole.protocols.nats import (
    ClientProtocol,
    Connect,
    Event,
    Info,
    Message,
    Okay,
    Ping,
    Pong,
    Publish,
    Refusal,
    ServerProtocol,
    Subscribe,
    Unsubscribe,
)
from fumarole.protocols.stream import End
from tests.desk import events_of

LIMITS = Limits(control_line=128, payload=1000)


FROM_CLIENTS: list[tuple[str, bytes, list[Event]]] = [
    ("ping", b"PING\r\n", [Ping()]),
    ("pong in lower case, line feed only", b"pong\n", [Pong()]),
    ("spaces around", b"  PING \t\r\n", [Ping()]),
    ("connect", b'CONNECT {"user":"lab","n":[{}]}\r\n', [Connect({"user": "lab", "n": [{}]})]),
    ("publish", b"PUB a.b 2\r\nhi\r\n", [Publish(b"a.b", b"", b"", b"hi")]),
    ("publish nothing", b"PUB a 0\r\n\r\n", [Publish(b"a", b"", b"", b"")]),
    ("publish with reply", b"PUB a r.1 2\r\nhi\r\n", [Publish(b"a", b"r.1", b"", b"hi")]),
    ("publish with a number as reply", b"PUB a 7 2\r\nhi\r\n", [Publish(b"a", b"7", b"", b"hi")]),
    ("spaces and tabs", b"pUb \t a\t \t2 \r\nhi\r\n", [Publish(b"a", b"", b"", b"hi")]),
    ("two spaces, as some clients write it", b"PUB a  2\r\nhi\r\n", [Publish(b"a", b"", b"", b"hi")]),
    ("leading zeros", b"PUB a 0002\r\nhi\r\n", [Publish(b"a", b"", b"", b"hi")]),
    ("line ends in the payload", b"PUB a 6\r\n\r\nPING\r\n", [Publish(b"a", b"", b"", b"\r\nPING")]),
    ("headers", b"HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", [Publish(b"a", b"", b"NATS/1.0\r\n\r\n", b"hi")]),
    ("headers and reply", b"HPUB a r 8 9\r\nNATS/1.0d\r\n", [Publish(b"a", b"r", b"NATS/1.0", b"d")]),
    ("subscribe", b"SUB a.> 1\r\n", [Subscribe(b"a.>", b"", b"1")]),
    ("subscribe in a group", b"sub a  g\t1\r\n", [Subscribe(b"a", b"g", b"1")]),
    ("unsubscribe", b"UNSUB 1\r\n", [Unsubscribe(b"1", 0)]),
    ("unsubscribe later", b"UNSUB 1 5\r\n", [Unsubscribe(b"1", 5)]),
    ("unsubscribe much later", b"UNSUB 1 999999999\r\n", [Unsubscribe(b"1", 999_999_999)]),
    ("the longest line", b"SUB " + b"a" * 122 + b" 1\r\n", [Subscribe(b"a" * 122, b"", b"1")]),
    ("the longest line, line feed only", b"SUB " + b"a" * 122 + b" 1\n", [Subscribe(b"a" * 122, b"", b"1")]),
]


@pytest.mark.parametrize(("data", "expected"), [row[1:] for row in FROM_CLIENTS], ids=[row[0] for row in FROM_CLIENTS])
def test_clients(data: bytes, expected: list[Event]) -> None:
    """Whole, byte by byte, and with something behind it."""
    assert events_of(ServerProtocol(LIMITS), data) == expected
    assert events_of(ServerProtocol(LIMITS), *(bytes([byte]) for byte in data)) == expected
    assert events_of(ServerProtocol(LIMITS), data + b"PING\r\nPI") == [*expected, Ping()]


def test_at_the_prompt() -> None:
    """Without a server, and with the usual limits."""
    protocol = ServerProtocol()
    protocol.receive_data(b"PUB volcanoes.usa 4\r\n21.5\r\nPI")
    assert protocol.events_received() == [Publish(b"volcanoes.usa", b"", b"", b"21.5")]
    assert ClientProtocol().events_received() == []


FAULTS: list[tuple[str, bytes, str]] = [
    ("unknown", b"FOO\r\n", "Unknown Protocol Operation"),
    ("empty line", b"\r\n", "Unknown Protocol Operation"),
    ("a server's word", b"MSG a 1 1\r\nx\r\n", "Unknown Protocol Operation"),
    ("ping with more", b"PING x\r\n", "Unknown Protocol Operation"),
    ("no size", b"PUB a\r\n", "Parser Error"),
    ("too many words", b"PUB a b c 1\r\nx\r\n", "Parser Error"),
    ("negative", b"PUB a -1\r\n", "Parser Error"),
    ("plus", b"PUB a +1\r\n", "Parser Error"),
    ("underscore", b"PUB a 1_0\r\n", "Parser Error"),
    ("not a number", b"PUB a x\r\n", "Parser Error"),
    ("Arabic digits", "PUB a ٣\r\n".encode(), "Parser Error"),
    ("ten digits", b"PUB a 0000000001\r\n", "Parser Error"),
    ("too large", b"PUB a 1001\r\n", "Maximum Payload Violation"),
    ("headers longer than all", b"HPUB a 3 2\r\nab\r\n", "Parser Error"),
    ("no bytes of headers", b"HPUB a 0 5\r\nhello\r\n", "Parser Error: headers begin with NATS/1.0"),
    (
        "headers without their first line",
        b"HPUB a 8 10\r\nA: b\r\n\r\nhi\r\n",
        "Parser Error: headers begin with NATS/1.0",
    ),
    ("unsubscribe, negative", b"UNSUB 1 -5\r\n", "Parser Error: the count of UNSUB"),
    ("unsubscribe, ten digits", b"UNSUB 1 9999999999\r\n", "Parser Error: the count of UNSUB"),
    ("unsubscribe, count not a number", b"UNSUB 1 x\r\n", "Parser Error: the count of UNSUB"),
    ("wrong end of payload", b"PUB a 2\r\nhixxPING\r\n", "Unknown Protocol Operation"),
    ("payload without its end", b"PUB a 2\r\nhi\nPING\r\n", "Unknown Protocol Operation"),
    ("no sid", b"SUB a\r\n", "Parser Error"),
    ("endless sid", b"SUB a " + b"1" * 65 + b"\r\n", "Parser Error"),
    ("not JSON", b"CONNECT {\r\n", "Parser Error"),
    ("not an object", b"CONNECT []\r\n", "Parser Error"),
    ("not UTF-8", b'CONNECT {"a":"\xff"}\r\n', "Parser Error"),
    ("nested", b'CONNECT {"a":' + b"[" * 50 + b"]" * 50 + b"}\r\n", "Parser Error"),
    ("line too long", b"PUB " + b"a" * 200 + b" 1\r\nx\r\n", "Maximum Control Line Exceeded"),
    ("line too long by one", b"SUB " + b"a" * 123 + b" 1\r\n", "Maximum Control Line Exceeded"),
    ("line too long by one, line feed only", b"SUB " + b"a" * 123 + b" 1\n", "Maximum Control Line Exceeded"),
    ("line without end", b"P" * 200, "Maximum Control Line Exceeded"),
]


@pytest.mark.parametrize(("data", "text"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_faults(data: bytes, text: str) -> None:
    """Told and closed; what stands behind is not heard."""
    for pieces in ([data], [data + b"PING\r\n"], [bytes([byte]) for byte in data]):
        protocol = ServerProtocol(LIMITS)
        assert events_of(protocol, *pieces) == []
        assert protocol.close_expected()
        assert protocol.data_to_send().startswith(b"-ERR '" + text.encode())
        protocol.receive_data(b"PING\r\n")
        assert protocol.events_received() == []
        assert protocol.data_to_send() == b""


def test_a_stranger_may_only_introduce_itself() -> None:
    for data in (b"PUB a 1000\r\n", b"SUB a 1\r\n", b"UNSUB 1\r\n", b"HPUB a 1 1\r\n"):
        protocol = ServerProtocol(LIMITS)
        protocol.greeted = False
        assert events_of(protocol, b"PING\r\n" + data) in ([Ping()], [])
        assert protocol.data_to_send() == b"-ERR 'Authorization Violation'\r\n"


def test_events_stop_behind_connect() -> None:
    protocol = ServerProtocol(LIMITS)
    protocol.receive_data(b"CONNECT {}\r\nPING\r\n")
    assert protocol.events_received() == [Connect({})]
    assert protocol.reclaim() == b"PING\r\n"
    assert protocol.events_received() == []


def test_wanted() -> None:
    protocol = ServerProtocol(LIMITS)
    assert protocol.wanted() == 0
    protocol.receive_data(b"PUB a 5\r\n")
    assert protocol.events_received() == []
    assert protocol.wanted() == 7
    protocol.receive_data(b"hi")
    assert protocol.events_received() == []
    assert protocol.wanted() == 5
    protocol.receive_data(b"you\r\n")
    assert events_of(protocol, b"") == [Publish(b"a", b"", b"", b"hiyou")]
    assert protocol.wanted() == 0


def test_end() -> None:
    protocol = ServerProtocol(LIMITS)
    protocol.receive_data(b"PING\r\nPIN")
    protocol.receive_eof()
    assert protocol.events_received() == [Ping()]
    assert protocol.events_received() == [End()]
    assert protocol.close_expected()


FROM_SERVERS: list[tuple[bytes, list[Event]]] = [
    (b'INFO {"max_payload":9} \r\n', [Info({"max_payload": 9})]),
    (b"MSG a 1 2\r\nhi\r\n", [Message(b"a", b"1", b"", b"", b"hi")]),
    (b"MSG a 1 r 2\r\nhi\r\n", [Message(b"a", b"1", b"r", b"", b"hi")]),
    (b"HMSG a 1 r 3 5\r\nabchi\r\n", [Message(b"a", b"1", b"r", b"abc", b"hi")]),
    (b"PING\r\nPONG\r\n+OK\r\n", [Ping(), Pong(), Okay()]),
    (b"-ERR 'Slow Consumer'\r\n", [Refusal("Slow Consumer")]),
]


@pytest.mark.parametrize(("data", "expected"), FROM_SERVERS)
def test_servers(data: bytes, expected: list[Event]) -> None:
    assert events_of(ClientProtocol(LIMITS), data) == expected
    assert events_of(ClientProtocol(LIMITS), *(bytes([byte]) for byte in data)) == expected


words = st.text("abc.>*$09", min_size=1, max_size=5).map(str.encode)
blocks = st.binary(max_size=20)
header_blocks = st.one_of(st.just(b""), blocks.map(b"NATS/1.0".__add__))


@given(words, blocks, st.one_of(st.just(b""), words), header_blocks)
def test_what_a_client_writes_a_server_reads(topic: bytes, payload: bytes, reply: bytes, headers: bytes) -> None:
    data = nats.publish(topic, payload, reply, headers)
    assert events_of(ServerProtocol(LIMITS), data) == [Publish(topic, reply, headers, payload)]


@given(words, words, blocks, st.one_of(st.just(b""), words), blocks)
def test_what_a_server_writes_a_client_reads(
    topic: bytes, sid: bytes, payload: bytes, reply: bytes, headers: bytes
) -> None:
    data = nats.message(topic, sid, payload, reply, headers)
    assert events_of(ClientProtocol(LIMITS), data) == [Message(topic, sid, reply, headers, payload)]


usual = st.builds(nats.publish, words, st.binary(max_size=8))
odd = st.sampled_from([data for _, data, _ in FROM_CLIENTS + FAULTS] + [b"PU", b"PUB a 3\r\nx"])


@given(st.lists(usual, min_size=1, max_size=5), st.lists(st.one_of(usual, usual, odd), max_size=20))
def test_many_at_once_are_the_same_as_one_by_one(many: list[bytes], rest: list[bytes]) -> None:
    data = b"".join(many) * 20 + b"".join(rest) + b"".join(many)
    whole, slow = ServerProtocol(LIMITS), ServerProtocol(LIMITS)
    assert events_of(whole, data) == events_of(slow, *(bytes([byte]) for byte in data))
    assert whole.data_to_send() == slow.data_to_send()
    assert whole.close_expected() == slow.close_expected()


usual_to_a_client = st.builds(nats.message, words, words, st.binary(max_size=8))
odd_to_a_client = st.sampled_from([data for data, _ in FROM_SERVERS] + [b"MSG a 1\r\n", b"MSG a\t1 0\r\n\r\n"])


@given(
    st.lists(usual_to_a_client, min_size=1, max_size=5),
    st.lists(st.one_of(usual_to_a_client, odd_to_a_client), max_size=20),
)
def test_many_to_a_client_at_once_are_the_same_as_one_by_one(many: list[bytes], rest: list[bytes]) -> None:
    data = b"".join(many) * 20 + b"".join(rest) + b"".join(many)
    whole, slow = ClientProtocol(LIMITS), ClientProtocol(LIMITS)
    assert events_of(whole, data) == events_of(slow, *(bytes([byte]) for byte in data))
    assert whole.data_to_send() == slow.data_to_send()


def test_a_large_payload_in_small_pieces_costs_no_more_than_its_bytes() -> None:
    """A copy of everything so far for each piece would be half a terabyte here."""
    protocol = ServerProtocol(Limits())
    size = 1_000_000
    protocol.receive_data(b"PUB a %d\r\n" % size)
    for number in range(size):
        protocol.receive_data(b"x")
        if number % 100 == 0:
            assert protocol.events_received() == []
    protocol.receive_data(b"\r\n")
    (event,) = events_of(protocol, b"")
    assert isinstance(event, Publish)
    assert len(event.payload) == size


def test_errors_and_options() -> None:
    assert nats.error("x") == b"-ERR 'x'\r\n"
    assert nats.info({"a": 1}) == b'INFO {"a":1}\r\n'
    assert nats.connect({}) == b"CONNECT {}\r\n"
    assert nats.subscribe(b"a", b"1") == b"SUB a 1\r\n"
    assert nats.subscribe(b"a", b"1", b"g") == b"SUB a g 1\r\n"
    assert nats.unsubscribe(b"1") == b"UNSUB 1\r\n"
    assert nats.unsubscribe(b"1", 3) == b"UNSUB 1 3\r\n"
