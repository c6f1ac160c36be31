"""CURVE, the server's end: the handshake, what travels afterwards, and what does not get in. libzmq's own client is tried
in tests/integration/bridge."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.bindings import crypto_box_keypair

from fumarole.bridge.curve import CurveKeys, CurveMechanism
from fumarole.bridge.zmtp import (
    COMMAND,
    MessageLimits,
    Opened,
    Received,
    ServerProtocol,
    encode_frame,
    read_metadata,
)
from tests.bridge.curve_client import GREETING, CurveClient, command

LIMITS = MessageLimits(part=1000, message=2000, parts=50)
SERVER = crypto_box_keypair()
GREETING_SIZE = 64


class Pair:
    """A server and a client that talk to each other in memory."""

    def __init__(self, clients: frozenset[bytes] | None = None, own: tuple[bytes, bytes] | None = None) -> None:
        self.client = CurveClient(SERVER[0], own)
        self.protocol = ServerProtocol(LIMITS, CurveMechanism(CurveKeys(SERVER[0], SERVER[1], clients)))
        self.events: list[Any] = []

    def say(self, data: bytes, step: int = 10_000) -> bytes:
        for at in range(0, len(data), step):
            self.protocol.receive_data(data[at : at + step])
            self.events += self.protocol.events_received()
        return self.protocol.data_to_send()

    def greet(self) -> None:
        assert self.say(GREETING)[12:32].rstrip(b"\0") == b"CURVE"

    def shake_hands(self) -> None:
        self.greet()
        self.client.take_welcome(body_of(self.say(command(self.client.hello()))))
        ready = self.client.take_ready(body_of(self.say(command(self.client.initiate()))))
        assert read_metadata(ready)[b"socket-type"] == b"ROUTER"

    @property
    def ended(self) -> bool:
        return self.protocol.close_expected()


def body_of(frame: bytes) -> bytes:
    return frame[2:] if not frame[0] & 2 else frame[9:]


def test_parts_and_commands_travel_both_ways() -> None:
    for step in (1, 7, 10_000):
        other = Pair()
        other.shake_hands()
        sent = b"".join(other.client.frame(flags, body) for flags, body in ((1, b"bind"), (1, b""), (0, bytes(1000))))
        assert other.say(sent, step) == b""
        assert other.events == [Opened(b""), Received([b"bind", b"", bytes(1000)])]
    pair = Pair()
    pair.shake_hands()
    client = pair.client
    answer = body_of(pair.say(client.frame(2, b"\x04PING\x00\x00context")))
    assert client.read(answer) == (2, b"\x04PONGcontext")
    pair.protocol.send_message((b"msg", bytes(300)))
    out = pair.protocol.data_to_send()
    first = 2 + out[1]
    assert client.read(body_of(out[:first])) == (1, b"msg")
    assert client.read(body_of(out[first:])) == (0, bytes(300))


def test_only_keys_that_are_let_in() -> None:
    friend, stranger = crypto_box_keypair(), crypto_box_keypair()
    pair = Pair(frozenset({friend[0]}), friend)
    pair.shake_hands()
    assert pair.events == [Opened(b"")]
    refused = Pair(frozenset({friend[0]}), stranger)
    refused.greet()
    refused.client.take_welcome(body_of(refused.say(command(refused.client.hello()))))
    assert refused.say(command(refused.client.initiate())) == encode_frame(COMMAND, b"\x05ERROR\x03400")
    assert (refused.events, refused.ended) == ([], True)


def test_a_client_that_knows_another_servers_key_is_not_answered() -> None:
    pair = Pair()
    pair.greet()
    assert pair.say(command(CurveClient(crypto_box_keypair()[0]).hello())) == b""
    assert pair.ended


def test_a_peer_of_another_mechanism_or_version_does_not_get_in() -> None:
    null = GREETING[:12] + b"NULL".ljust(20, b"\0") + bytes(32)
    for hello in (null, GREETING[:10] + b"\x01\x05\x00\x00", b"\x01\x00"):
        pair = Pair()
        pair.say(hello)
        assert (pair.ended, pair.events) == (True, [])


def test_a_client_that_vouches_for_anothers_short_key() -> None:
    """The lasting key of the INITIATE must have signed this very connection."""
    pair = Pair()
    pair.greet()
    client = pair.client
    client.take_welcome(body_of(pair.say(command(client.hello()))))
    client.public = crypto_box_keypair()[0]
    assert pair.say(command(client.initiate())) == b""
    assert pair.ended


def test_a_cookie_of_another_connection() -> None:
    one, other = Pair(), Pair()
    for pair in (one, other):
        pair.greet()
        pair.client.take_welcome(body_of(pair.say(command(pair.client.hello()))))
    assert other.say(command(one.client.initiate())) == b""
    assert other.ended


@pytest.mark.parametrize("name", [b"\x08INITIATE", b"\x05READY", b"\x07MESSAGE", b"\x05ERROR", b"\x05HELLO", b"\x00"])
def test_commands_out_of_order(name: bytes) -> None:
    for after_hello in (False, True):
        pair = Pair()
        pair.greet()
        if after_hello:
            pair.say(command(pair.client.hello()))
        assert pair.say(command(name + bytes(200))) == b""
        assert (pair.ended, pair.events) == (True, [])


def test_a_second_hello_and_a_second_initiate() -> None:
    pair = Pair()
    pair.greet()
    pair.client.take_welcome(body_of(pair.say(command(pair.client.hello()))))
    assert pair.say(command(pair.client.hello())) == b""
    assert pair.ended


def test_nothing_is_taken_twice_and_nothing_unencrypted() -> None:
    for say in (
        lambda client: client.frame(0, b"a", (2).to_bytes(8, "big")),  # the nonce of the INITIATE
        lambda client: client.frame(0, b"a") + client.frame(0, b"b", (3).to_bytes(8, "big")),
        lambda client: encode_frame(0, b"bind"),
        lambda client: encode_frame(0, b"\x07MESSAGE"),
        lambda client: encode_frame(0, b"\x07MESSAGE" + bytes(7)),
        lambda client: encode_frame(0, b"\x07MESSAGE" + b"\xff" * 40),
    ):
        pair = Pair()
        pair.shake_hands()
        pair.say(say(pair.client))
        assert pair.ended
        assert len(pair.events) <= 2


def test_an_empty_box() -> None:
    from nacl.bindings import crypto_box

    pair = Pair()
    pair.shake_hands()
    client = pair.client
    nonce = client.next_nonce()
    box = crypto_box(b"", b"CurveZMQMESSAGEC" + nonce, client.short_server, client.short_secret)
    pair.say(encode_frame(0, b"\x07MESSAGE" + nonce + bytes(box)))
    assert pair.ended


def test_limits_hold_for_what_is_inside() -> None:
    for flood in ([(1, b"")] * 51, [(1, bytes(1000))] * 3, [(0, bytes(1001))]):
        pair = Pair()
        pair.shake_hands()
        pair.say(b"".join(pair.client.frame(flags, body) for flags, body in flood))
        assert (pair.ended, pair.events) == (True, [Opened(b"")])


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_in_the_handshake(data: bytes, long: bool) -> None:
    for name in (b"\x05HELLO", b"\x08INITIATE", b""):
        pair = Pair()
        pair.greet()
        if long:
            pair.say(command(pair.client.hello()))
        pair.say(command(name + data))
        assert pair.ended
        assert pair.events == []
