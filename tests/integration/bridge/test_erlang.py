"""Seed 004's own encoding: clients that write amqp_msg records, one of them in Erlang itself (B1)."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path
from typing import Any

import msgpack
import pytest

from fumarole.bridge.erlang_terms import Atom, decode, encode
from tests.bridge.test_erlang_messages import EMPTY, MESSAGE, REFUSED, message, random_record
from tests.integration.bridge.bridges import Dealer, RunningBridge, dealers, pack
from tests.integration.bridge.conftest import StartBridge

A = Atom
PROGRAM = Path(__file__).with_name("erlang_client.erl")


def records(dealer: Dealer, count: int) -> list[tuple[bytes, Any]]:
    heard = [dealer.hear() for _ in range(count)]
    assert all(parts[0] == b"msg" for parts in heard)
    return [(parts[1], decode(parts[2])) for parts in heard]


@pytest.mark.parametrize("exchange", ["amq.topic", "amq.direct"])
def test_all_properties_and_every_type_survive(bridge: RunningBridge, exchange: str) -> None:
    """ZeroMQ → AMQP → ZeroMQ, exactly as it was."""
    with dealers(bridge.endpoint) as (dealer,):
        dealer.bind("erlang", "erlang")
        dealer.say(b"send", exchange.encode(), b"erlang", encode(MESSAGE))
        assert records(dealer, 1) == [(b"erlang", MESSAGE)]


def test_each_client_gets_the_form_that_it_uses(bridge: RunningBridge) -> None:
    with dealers(bridge.endpoint, 3) as (erlang, plain, listening):
        for each in (erlang, plain, listening):
            each.bind("", "forms")
        listening.say(b"form", b"erlang")
        listening.flush()
        erlang.say(b"send", b"amq.topic", b"forms", message(payload=b"1"))
        assert records(erlang, 1) == records(listening, 1) == [(b"forms", (A("amqp_msg"), EMPTY, b"1"))]
        assert plain.messages(1) == [("forms", {"payload": b"1", "properties": {}, "headers": {}})]
        plain.say(b"send", b"amq.topic", b"forms", pack(b"2", {"priority": 3}, {"n": 5}))
        expected: list[Any] = list(EMPTY)
        expected[3], expected[5] = [(b"n", A("long"), 5)], 3
        assert records(erlang, 1) == records(listening, 1) == [(b"forms", (A("amqp_msg"), tuple(expected), b"2"))]
        assert plain.messages(1)[0][1]["payload"] == b"2"
        # The last one counts.
        erlang.say(b"send", b"amq.topic", b"forms", pack(b"3"))
        assert erlang.messages(1)[0][1]["payload"] == b"3"
        assert records(listening, 1)[0][1][2] == b"3"
        listening.say(b"form", b"msgpack")
        assert listening.flush() == []
        erlang.say(b"send", b"amq.topic", b"forms", pack(b"4"))
        assert [each["payload"] for _, each in listening.messages(1)] == [b"4"]


def test_calls_in_erlang(bridge: RunningBridge) -> None:
    """As the seed has them: [{replies, 1}, {timeout, 5000}]. The answer is in the form of the question."""
    with dealers(bridge.endpoint, 2) as (caller, responder):
        responder.bind("", "echo.erlang")
        options = encode([(A("replies"), 1), (A("timeout"), 5000)])
        caller.say(b"call", b"1", b"amq.topic", b"echo.erlang", message(payload=b"hello"), options)
        ((_, question),) = responder.messages(1)
        properties = question["properties"]
        answer = pack(b"HELLO", {"correlation_id": properties["correlation_id"]})
        responder.say(b"send", b"", properties["reply_to"].encode(), answer)
        kind, identity, reply = caller.hear()
        assert (kind, identity, decode(reply)[2]) == (b"reply", b"1", b"HELLO")
        assert caller.hear() == [b"done", b"1"]
        options = encode([(A("replies"), A("infinity")), (A("timeout"), 100)])
        assert caller.ask(b"call", b"2", b"amq.topic", b"echo.erlang", message(), options) == [b"done", b"2"]
        kind, text, identity = caller.ask(b"call", b"3", b"amq.topic", b"echo.erlang", message(), encode([1]))
        assert (kind, identity) == (b"error", b"3")
        assert text.startswith(b"the options of a call are [{replies, N}")
        kind, _, status = caller.ask(b"status", b"4")
        assert b"operations" in decode(status)[2]


def test_what_is_refused(bridge: RunningBridge) -> None:
    """Each is an error with a sentence, and nothing else (B5)."""
    with dealers(bridge.endpoint) as (dealer,):
        for name, (part, said) in REFUSED.items():
            kind, text = dealer.ask(b"send", b"amq.topic", b"k", part)
            assert kind == b"error", name
            assert said in text.decode(), name
            assert len(text) < 400
        assert dealer.ask(b"form", b"json") == [b"error", b"form has the name of a form: msgpack or erlang"]
        assert dealer.ask(b"form")[0] == b"error"
        assert dealer.silent(0.1)


def test_random_records_cost_nobody_the_connection(start_bridge: StartBridge) -> None:
    """What goes to RabbitMQ is what RabbitMQ reads: each comes back as it was, or is refused with a sentence."""
    bridge = start_bridge()
    sent = []
    with dealers(bridge.endpoint, rcvhwm=0) as (dealer,):
        dealer.bind("", "random")
        for seed in range(400):
            record = list(random_record(random.Random(seed)))
            # What the bridge refuses of these is in REFUSED.
            record[4], record[8], record[12] = 1 + seed % 2, b"60000", b"guest"
            sent.append((A("amqp_msg"), tuple(record), b"%d" % seed))
            dealer.say(b"send", b"amq.topic", b"random", encode(sent[-1]))
        assert [message for _, message in records(dealer, 400)] == sent
    assert not any("trying again" in line for line in bridge.log)


def test_a_number_that_the_broker_cannot_read_is_refused(bridge: RunningBridge) -> None:
    """It ended the connection, and took other clients' messages with it."""
    with dealers(bridge.endpoint, 2) as (careless, other):
        other.bind("", "nan")
        for value in (float("nan"), float("inf")):
            kind, text = careless.ask(b"send", b"amq.topic", b"nan", pack(b"", {}, {"a": [value]}))
            assert (kind, text) == (b"error", f"a header cannot be {value}: brokers do not take it".encode())
            other.say(b"send", b"amq.topic", b"nan", pack(b"1"))
            assert other.messages(1)[0][1]["payload"] == b"1"
    assert not any("trying again" in line for line in bridge.log)


def test_a_form_is_forgotten_with_its_connection(bridge: RunningBridge) -> None:
    with dealers(bridge.endpoint, routing_id=b"erlang-1") as (dealer,):
        dealer.bind("", "forgotten")
        dealer.say(b"form", b"erlang")
        dealer.flush()
    bridge.wait_for(lambda status: status["connections"]["open"] == 0)
    with dealers(bridge.endpoint, 1, routing_id=b"erlang-1") as (again,):
        again.bind("", "forgotten")
        with dealers(bridge.endpoint) as (other,):
            other.say(b"send", b"amq.topic", b"forgotten", pack(b"1"))
            assert again.messages(1)[0][1]["payload"] == b"1"


def test_a_client_in_erlang(bridge: RunningBridge, tmp_path: Path) -> None:
    """Erlang's own sockets, its own terms, its own patterns: it binds, sends, and hears what another client sends."""
    host, port = bridge.endpoint.removeprefix("tcp://").split(":")
    with dealers(bridge.endpoint) as (dealer,):
        dealer.bind("", "erl.#")
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        client = subprocess.Popen(
            ["escript", str(PROGRAM), host, port],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            ((key, heard),) = dealer.messages(1)
            assert (key, heard["payload"]) == ("erl.to", b"from Erlang")
            assert heard["properties"]["content_type"] == "text/plain"
            assert heard["properties"]["timestamp"] == msgpack.Timestamp(1_700_000_000, 0)
            assert heard["headers"] == {
                "n": -5,
                "price": msgpack.ExtType(1, b"\x02\x00\x00\x07\xcf"),
                "list": ["a", None],
            }
            dealer.say(
                b"send", b"amq.topic", b"erl.from", pack(b"from Python", {"priority": 7}, {"pi": 3.5, "ok": True})
            )
            output, _ = client.communicate(timeout=20)
        finally:
            client.kill()
            client.wait()
    assert output.decode() == 'heard <<"from Python">> 7 [{<<"pi">>,double,3.5},{<<"ok">>,bool,true}]\n'
    assert client.returncode == 0
