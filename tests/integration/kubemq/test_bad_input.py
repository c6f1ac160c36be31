"""Whatever a KubeMQ client sends: the documented error, and no other client is disturbed (L1). The oracle watches."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from fumarole.protocols.kubemq_pb2 import Event, EventReceive, Request, Response, Subscribe
from tests.integration.conftest import Brokers
from tests.integration.kubemq.calls import SECONDS, SERVICE, Calls, fault_of
from tests.integration.kubemq.conftest import DOOR, kubemq_port
from tests.integration.oracle import Target
from tests.sessions.test_kubemq import BAD_EVENTS, BAD_SUBSCRIPTIONS
from tests.sessions.test_kubemq_requests import BAD_REQUESTS, BAD_RESPONSES

SMALL_LIMIT = "the message is larger than 1000"
"""Rows that need another limit."""
EVENT = {"ClientID": "me", "Channel": "a", "Body": b"x"}
SUBSCRIBE = {"SubscribeTypeData": 1, "ClientID": "me", "Channel": "a"}
REQUEST = {"RequestTypeData": 2, "ClientID": "me", "Channel": "a", "Body": b"?", "Timeout": 10}
RESPONSE = {"ClientID": "me", "RequestID": "1", "ReplyChannel": "_INBOX.a"}


def refused(calls: Calls, method: str, message: Any) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as caught:
        calls.unary(method, message)
    return fault_of(caught.value)


def test_bad_messages(target: Target, calls: Calls) -> None:
    """Each row of the tables, over the wire."""
    for _, fields, status, text in BAD_EVENTS:
        if not text.startswith(SMALL_LIMIT):
            said = refused(calls, "SendEvent", Event(**{**EVENT, **fields}))
            assert (said[0], said[1][: len(text)]) == (status, text)
    for _, fields, status, text in BAD_SUBSCRIPTIONS:
        message = Subscribe(**{**SUBSCRIBE, **fields})
        said = calls.subscribe("SubscribeToEvents", message, EventReceive, False).fault()
        assert (said[0], said[1][: len(text)]) == (status, text)
    for _, fields, status, text in BAD_REQUESTS:
        said = refused(calls, "SendRequest", Request(**{**REQUEST, **fields}))
        assert (said[0], said[1][: len(text)]) == (status, text)
    for _, fields, status, text in BAD_RESPONSES:
        said = refused(calls, "SendResponse", Response(**{**RESPONSE, **fields}))
        assert (said[0], said[1][: len(text)]) == (status, text)
    calls.channel.close()


def test_bad_messages_in_a_stream(target: Target, calls: Calls) -> None:
    """Each is answered with a result, and the stream goes on."""
    receiver, stream = calls.receiver("good"), calls.stream()
    for name, fields, _, text in BAD_EVENTS:
        if not text.startswith(SMALL_LIMIT):
            stream.send_bytes(Event(**{**EVENT, "EventID": name, **fields}).SerializeToString())
            result = stream.result()
            assert (result.EventID, result.Sent, result.Error[: len(text)]) == (name, False, text)
    stream.send("good")
    assert receiver.next().Body == b"x"
    assert stream.end() == []
    calls.channel.close()


METHODS = ["Ping", "SendEvent", "SubscribeToEvents", "SubscribeToRequests", "SendRequest", "SendResponse"]
NOT_MESSAGES = {
    "half a field": b"\x0a\x05ab",
    "a text that is not UTF-8": b"\x1a\x02\xff\xfe",
    "a length beyond all": b"\x0a\xff\xff\xff\xff\x0f",
    "a varint without end": b"\x08" + b"\xff" * 11,
    "groups within groups": b"\x0b" * 5000,
    "noise": random.Random(1).randbytes(2000),
}


@pytest.mark.parametrize("data", NOT_MESSAGES.values(), ids=NOT_MESSAGES.keys())
def test_what_is_no_message(target: Target, calls: Calls, data: bytes) -> None:
    for method in METHODS:
        # A ping has no text: to it, that is an unknown field.
        if method != "Ping" or not data.startswith(b"\x1a"):
            assert refused(calls, method, data) == ("INVALID_ARGUMENT", "not a message of this method")
    stream = calls.stream()
    stream.send_bytes(data)
    with pytest.raises(grpc.RpcError) as caught:
        stream.result()
    assert fault_of(caught.value)[0] == "INVALID_ARGUMENT"
    stream.cancel()
    calls.channel.close()


def test_fields_that_nobody_knows_are_passed_over(calls: Calls) -> None:
    receiver = calls.receiver("a")
    calls.unary("SendEvent", Event(**EVENT).SerializeToString() + b"\xa2\x06\x03abc")  # type: ignore[arg-type]
    assert receiver.next().Body == b"x"


def test_messages_that_are_far_too_large(target: Target, calls: Calls) -> None:
    """They are not even read: the call ends, and the connection goes on."""
    target.memory_margin = 64 * 1024 * 1024
    body = b"x" * (6 * 1024 * 1024)
    for _ in range(5):
        status, _ = refused(calls, "SendEvent", Event(ClientID="me", Channel="a", Body=body))
        assert status == "RESOURCE_EXHAUSTED"
        stream = calls.stream()
        stream.send("a", body)
        with pytest.raises(grpc.RpcError) as caught:
            stream.result()
        assert fault_of(caught.value)[0] == "RESOURCE_EXHAUSTED"
        stream.cancel()
    assert calls.send("a").Sent
    calls.channel.close()


@pytest.mark.parametrize("token", ["x" * 30_000, "é".encode("latin-1").decode("latin-1"), "a b c", "-", "x" * 64])
def test_tokens_that_are_none(target: Target, token: str) -> None:
    """Too long for gRPC, not ASCII, not the name of a namespace."""
    target.secrets.append("x" * 64)
    with Calls(kubemq_port(target.broker), token) as calls, pytest.raises((grpc.RpcError, ValueError)) as caught:
        calls.send("a")
    if isinstance(caught.value, grpc.RpcError):
        assert fault_of(caught.value)[0] in ("UNAUTHENTICATED", "RESOURCE_EXHAUSTED", "INTERNAL")


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name: bytes, value: bytes) -> bytes:
    """A header that is in no table and enters none."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")


def head() -> bytes:
    """Of a call of SubscribeToEvents."""
    return b"".join(
        literal(*pair)
        for pair in [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", f"{SERVICE}SubscribeToEvents".encode()),
            (b":authority", b"localhost"),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
        ]
    )


def whole_call() -> bytes:
    """From the first byte of its connection to the last of its message."""
    message = Subscribe(**SUBSCRIBE).SerializeToString()  # type: ignore[arg-type]
    body = b"\0" + struct.pack(">I", len(message)) + message
    return GREETING + frame(1, 4, 1, head()) + frame(0, 1, 1, body)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), SECONDS)


def test_connections_that_break_off_at_every_byte(target: Target) -> None:
    """The whole call, by hand, does subscribe; a part of it does nothing that lasts."""
    port, call = kubemq_port(target.broker), whole_call()
    before = target.broker.observe()["consumers"]["kubemq"]
    with connect(port) as whole:
        whole.sendall(call)
        seen = target.settle(lambda seen: seen["consumers"]["kubemq"] == before + 1)
        assert seen["consumers"]["kubemq"] == before + 1
    for end in range(len(call)):
        with connect(port) as part:
            part.sendall(call[:end])


NOT_HTTP_2 = {
    "HTTP/1": b"POST /send/event HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
    "NATS": b'CONNECT {"verbose":false}\r\nSUB > 1\r\nPING\r\n',
    "TLS": bytes.fromhex("16030100c8010000c40303") + b"\0" * 190,
    "a frame beyond all limits": GREETING + b"\xff\xff\xff\x01\x04\0\0\0\1",
    "a settings frame of odd length": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"12345"),
    "headers that are none": GREETING + frame(1, 5, 1, b"\xff" * 200),
    "data of no stream": GREETING + frame(0, 1, 7, b"x" * 100),
    "noise": random.Random(2).randbytes(5000),
}


@pytest.mark.parametrize("data", NOT_HTTP_2.values(), ids=NOT_HTTP_2.keys())
def test_what_is_not_http_2(target: Target, data: bytes) -> None:
    """The connection is closed, by the server or by us; no other is."""
    with connect(kubemq_port(target.broker)) as connection, connect(kubemq_port(target.broker)) as other:
        connection.sendall(data)
        other.sendall(whole_call())
        assert other.recv(9)


def test_silent_connections_are_closed(target: Target) -> None:
    """`limits.handshake`: not one byte, or the beginning of the greeting, and then nothing."""
    connections = [connect(kubemq_port(target.broker)) for _ in range(200)]
    for connection in connections[::2]:
        connection.sendall(b"PRI * HTTP/2.0\r\n")
    for connection in connections:
        while connection.recv(65536):
            pass
        connection.close()


def test_calls_of_which_only_the_beginning_comes(target: Target) -> None:
    """A thousand on one connection: headers, and then nothing. Others are served meanwhile."""
    with connect(kubemq_port(target.broker)) as connection, Calls(kubemq_port(target.broker)) as calls:
        connection.sendall(GREETING + b"".join(frame(1, 4, 2 * number + 1, head()) for number in range(1000)))
        receiver = calls.receiver("meanwhile")
        calls.send("meanwhile")
        assert receiver.next().Body == b"x"


def test_more_connections_than_are_allowed(brokers: Brokers, engine_name: str) -> None:
    """L2: those beyond the limit are closed at once, and those within it go on."""
    broker = brokers.share(DOOR + "limits.connections = 10\n", engine_name)
    with Calls(kubemq_port(broker)) as calls:
        calls.ping()
        others = [connect(kubemq_port(broker)) for _ in range(20)]
        for other in others[9:]:
            assert other.recv(9) == b""
        assert calls.send("a").Sent
        for other in others:
            other.close()


def test_calls_begun_and_broken_off_by_the_hundred(target: Target, calls: Calls) -> None:
    """Subscriptions cancelled before or after they are in force, from several threads."""

    def churn() -> None:
        for number in range(100):
            receiver = calls.receiver("churn.>", "g" if number % 2 else "", confirmed=number % 3 == 0)
            receiver.cancel()

    threads = [threading.Thread(target=churn) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    calls.channel.close()


HOSTILE = {
    "rapid reset": lambda number: frame(1, 4, 2 * number + 1, head()) + frame(3, 0, 2 * number + 1, b"\0\0\0\x08"),
    "pings": lambda _: frame(6, 0, 0, b"12345678") * 2,
    "settings": lambda _: frame(4, 0, 0, b"\0\4\0\0\0\1") * 2,
    "empty data": lambda number: (frame(1, 4, 1, head()) if number == 0 else b"") + frame(0, 0, 1, b""),
    "continuations": lambda number: frame(9 if number else 1, 0, 1, b"" if number else head()),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
def test_floods_that_cost_the_server_more_than_the_client(target: Target, hostile: Callable[[int], bytes]) -> None:
    """The connection is closed soon, and meanwhile others are served."""
    port = kubemq_port(target.broker)
    with connect(port) as connection, Calls(port) as calls:
        receiver = calls.receiver("meanwhile")
        connection.settimeout(30)
        with contextlib.suppress(OSError):
            connection.sendall(GREETING + b"".join(hostile(number) for number in range(30_000)))
            while connection.recv(1 << 20):
                pass
        calls.send("meanwhile")
        assert receiver.next().Body == b"x"
        calls.channel.close()
