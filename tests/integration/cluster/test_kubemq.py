"""The KubeMQ door of three nodes: Events and groups across them, and an answer that comes by yet another node."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import grpc
import pytest

from fumarole.protocols.kubemq_pb2 import Request, Subscribe
from tests.integration.cluster.clients import ask
from tests.integration.cluster.nodes import Nodes, running
from tests.integration.kubemq.calls import Calls

STANDSTILL = 4.6
"""Seconds: what is older than 4 is not delivered."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("kubemq"), 3, flags=("--kubemq", "127.0.0.1:0")) as three:
        yield three


@pytest.fixture
def calls(nodes: Nodes) -> Iterator[list[Calls]]:
    """A client of each node."""
    with ExitStack() as open_calls:
        ports = [int((node.log.parent / "ready").read_text().split()[1].rpartition(":")[2]) for node in nodes.nodes]
        yield [open_calls.enter_context(Calls(port)) for port in ports]


def test_events_and_groups(calls: list[Calls]) -> None:
    alone = calls[1].receiver("sensors.*")
    members = [calls[number].receiver("sensors.*", "archive") for number in (1, 2)]
    for number in range(10):
        assert calls[0].send("sensors.kitchen", b"%d" % number).Sent
    assert [event.Body for event in alone.take(10)] == [b"%d" % number for number in range(10)]
    assert sorted(event.Body for member in members for event in member.take(5)) == [
        b"%d" % number for number in range(10)
    ]
    for receiver in (alone, *members):
        receiver.cancel()


def test_what_was_said_before_a_standstill_is_not_taken_in_after_it(nodes: Nodes, calls: list[Calls]) -> None:
    """C4: the connection ends with all that waited in it, so that clients call again; nothing old is delivered."""
    receiver, elsewhere = calls[0].receiver("sensors.>"), calls[1].receiver("sensors.>")
    refusals: list[grpc.RpcError] = []

    def send() -> None:
        try:
            calls[0].send("sensors.kitchen", b"old")
        except grpc.RpcError as refusal:
            refusals.append(refusal)

    nodes[0].signal(signal.SIGSTOP)
    sending = threading.Thread(target=send)
    sending.start()
    time.sleep(STANDSTILL)
    nodes[0].signal(signal.SIGCONT)
    sending.join(15)
    assert [refusal.code() for refusal in refusals] == [grpc.StatusCode.UNAVAILABLE]
    with pytest.raises(grpc.RpcError) as caught:
        receiver.next()
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    deadline = time.monotonic() + 10
    while [peer["state"] for peer in ask(nodes[0].host, nodes[0].port, b"cluster")["peers"]] != ["live", "live"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert calls[0].send("sensors.kitchen", b"new").Sent
    assert elsewhere.next().Body == b"new"
    elsewhere.cancel()


def test_an_answer_by_another_node(calls: list[Calls]) -> None:
    """C2: when the request arrives, every node knows where the answer is expected."""
    responder = calls[1].responder(Subscribe.Queries, "time.utc")

    def answer() -> None:
        for _ in range(20):
            calls[2].answer(responder.next(), b"noon")

    answering = threading.Thread(target=answer)
    answering.start()
    for _ in range(20):
        assert calls[0].ask(Request.Query, "time.utc").Body == b"noon"
    answering.join(10)
    responder.cancel()
