"""The KubeMQ door as gRPC sees it: streams, their beginnings and ends."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from fumarole.protocols.kubemq_pb2 import EventReceive, Request, Response, Subscribe
from tests.integration.conftest import Brokers, StartBroker
from tests.integration.kubemq.calls import SECONDS, SERVICE, Calls, fault_of
from tests.integration.kubemq.conftest import DOOR, kubemq_port
from tests.integration.oracle import Target
from tests.integration.raw import RawClient
from tests.integration.running import RunningBroker


def test_ping(calls: Calls) -> None:
    result = calls.ping()
    assert result.Version.startswith("2.6.0-fumarole-")
    assert result.Host.startswith("fumarole-")
    assert result.ServerStartTime > 1_700_000_000


def test_events(calls: Calls) -> None:
    receiver, everything = calls.receiver("foo.*"), calls.receiver(">")
    result = calls.send("foo.bär", b"hi", EventID="7", Metadata="m", Tags={"a": "b"})
    assert (result.EventID, result.Sent, result.Error) == ("7", True, "")
    expected = EventReceive(EventID="7", Channel="foo.bär", Body=b"hi", Metadata="m", Tags={"a": "b"})
    assert receiver.next() == everything.next() == expected


def test_a_subscription_is_in_force_when_it_is_confirmed(calls: Calls) -> None:
    """D5: and what was sent before is not seen."""
    for number in range(20):
        calls.send("confirmed", b"before")
        receiver = calls.receiver("confirmed")
        calls.send("confirmed", b"%d" % number)
        assert receiver.next().Body == b"%d" % number
        receiver.cancel()


def test_a_stream_of_events_answers_only_faults(calls: Calls) -> None:
    """And what a client wanted stored, because it waits for that. D4: in order."""
    receiver, stream = calls.receiver("s.>"), calls.stream()
    for number in range(100):
        stream.send("s.a", b"%d" % number, EventID=f"good-{number}")
    stream.send("s.", EventID="dot")
    assert (stream.result().EventID, [event.Body for event in receiver.take(100)]) == (
        "dot",
        [b"%d" % number for number in range(100)],
    )
    stream.send("s.a", Store=True, EventID="store")
    stored = stream.result()
    assert (stored.EventID, stored.Sent) == ("store", False)
    assert stored.Error.startswith("the events store is not offered")
    stream.send("s.b", b"last")
    assert receiver.next().Body == b"last"
    assert stream.end() == []


def test_requests(calls: Calls) -> None:
    responder = calls.responder(Subscribe.Queries, "rates.*")
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(calls.ask, Request.Query, "rates.usd", Metadata="now")
        asked = responder.next()
        assert (asked.Channel, asked.Metadata, asked.Timeout) == ("rates.usd", "now", 5000)
        calls.answer(asked, b"1.1")
        response: Response = asking.result()
    assert (response.Executed, response.Body, response.RequestID) == (True, b"1.1", asked.RequestID)


def test_a_request_that_is_not_answered(calls: Calls) -> None:
    """And its answer, when it comes at last, does no harm."""
    responder = calls.responder(Subscribe.Commands, "slow")
    with pytest.raises(grpc.RpcError) as caught:
        calls.ask(Request.Command, "slow", timeout=50)
    assert fault_of(caught.value) == ("INTERNAL", "Error 301: timeout for request message")
    calls.answer(responder.next())
    with pytest.raises(grpc.RpcError) as caught:
        calls.ask(Request.Query, "slow", timeout=60_000)
    status, text = fault_of(caught.value)
    assert (status, text) == (
        "INTERNAL",
        "Error 301: timeout for request message: nobody is subscribed to this channel",
    )


def test_a_nats_client_and_a_kubemq_client(calls: Calls, nats: RawClient) -> None:
    """K2: they meet, both ways, and a group of both shares."""
    receiver = calls.receiver("both.*")
    nats.talk(b"SUB both.> 1\r\n")
    calls.send("both.a", b"hi", EventID="7")
    assert nats.read_until(b"hi\r\n").startswith(b"HMSG both.a 1 ")
    nats.talk(b"PUB both.b 3\r\nyou\r\n")
    assert [event.Body for event in receiver.take(2)] == [b"hi", b"you"]


def test_a_nats_client_answers_a_query(calls: Calls, nats: RawClient) -> None:
    nats.talk(b"SUB _QUERIES_.of.nats 1\r\n")
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(calls.ask, Request.Query, "of.nats")
        reply = nats.read_until(b"?\r\n").split()[3]
        nats.talk(b"PUB %b 4\r\nhere\r\n" % reply)
        response: Response = asking.result()
    assert (response.Body, response.Executed) == (b"here", True)


OTHER_METHODS = [
    "SendQueueMessage", "SendQueueMessagesBatch", "ReceiveQueueMessages", "StreamQueueMessage", "AckAllQueueMessages",
    "QueuesDownstream", "QueuesUpstream", "QueuesInfo", "Whatever",
]  # fmt: skip


@pytest.mark.parametrize("method", OTHER_METHODS)
def test_what_is_not_offered_says_so(calls: Calls, method: str) -> None:
    """K2. Called with one message, and as a stream that stays open, as the SDKs do."""
    for message in (b"", b"\x0a\x01x"):
        with pytest.raises(grpc.RpcError) as caught:
            calls.unary(method, message)
        status, text = fault_of(caught.value)
        assert status == "UNIMPLEMENTED"
        assert text.startswith("queues are not offered here")
    ended = threading.Event()
    call = calls.channel.stream_stream(SERVICE + method)((b"" for _ in iter(ended.wait, True)), timeout=SECONDS)
    with pytest.raises(grpc.RpcError) as caught:
        next(call)
    ended.set()
    assert fault_of(caught.value)[0] == "UNIMPLEMENTED"


def test_another_service_is_none(calls: Calls) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        calls.channel.unary_unary("/other.other/Ping")(b"", timeout=10)
    assert fault_of(caught.value)[0] == "UNIMPLEMENTED"


def test_the_store_is_not_offered(calls: Calls) -> None:
    subscribe = Subscribe(SubscribeTypeData=Subscribe.EventsStore, ClientID="me", Channel="a", EventsStoreTypeData=1)  # type: ignore[arg-type]
    status, text = calls.subscribe("SubscribeToEvents", subscribe, EventReceive, False).fault()
    assert (status, text[:28]) == ("UNIMPLEMENTED", "the events store is not offe")
    with pytest.raises(grpc.RpcError) as caught:
        calls.send("a", Store=True)
    assert fault_of(caught.value)[0] == "UNIMPLEMENTED"


def test_calls_that_end_leave_nothing_behind(target: Target, calls: Calls) -> None:
    """Cancelled, half closed, and all at once with their connection."""
    before = target.broker.observe()
    calls.ping()
    receivers = [calls.receiver(f"left.{number % 10}", "g" if number % 2 else "") for number in range(50)]
    responder = calls.responder(Subscribe.Queries, "left")
    stream, half = calls.stream(), calls.stream()
    for open_stream in (stream, half):
        open_stream.send("left.", EventID="open")
        open_stream.result()
    asking = calls.channel.unary_unary("/kubemq.kubemq/SendRequest").future(
        Request(RequestTypeData=Request.Query, ClientID="me", Channel="left", Body=b"?", Timeout=60_000)
        .SerializeToString()
    )  # fmt: skip
    responder.next()
    seen = target.broker.observe()
    assert seen["consumers"]["kubemq"] - before["consumers"]["kubemq"] == 52
    assert seen["connections"] == before["connections"] + 1  # for all the calls
    assert half.end() == []
    for receiver in receivers[:25]:
        receiver.cancel()
    stream.cancel()
    asking.cancel()
    seen = target.settle(lambda seen: seen["consumers"]["kubemq"] - before["consumers"]["kubemq"] == 26)
    assert seen["consumers"]["kubemq"] - before["consumers"]["kubemq"] == 26
    calls.channel.close()


def test_too_many_calls(brokers: Brokers, engine_name: str) -> None:
    """L2: the limits of connections hold for calls too."""
    broker = brokers.share(DOOR + "limits.connections_per_address = 3\n", engine_name)
    with Calls(kubemq_port(broker)) as calls:
        receivers = [calls.receiver("a") for _ in range(3)]
        with pytest.raises(grpc.RpcError) as caught:
            calls.send("a")
        assert fault_of(caught.value) == ("RESOURCE_EXHAUSTED", "too many calls are under way")
        status, _ = calls.receiver("a", confirmed=False).fault()
        assert status == "RESOURCE_EXHAUSTED"
        assert calls.ping().Host
        receivers[0].cancel()
        _until_accepted(calls)
        assert receivers[1].next().Body == b"x"


def _until_accepted(calls: Calls) -> None:
    """A cancellation has no answer: the place is free soon, not at once."""
    for _ in range(1000):
        try:
            calls.send("a")
        except grpc.RpcError as error:
            if fault_of(error)[0] != "RESOURCE_EXHAUSTED":
                raise
        else:
            return
    raise AssertionError("still too many")


def test_a_broker_that_stops_says_goodbye(start_broker: StartBroker) -> None:
    """What is in the outboxes leaves first; then clients are told to try again elsewhere or later."""
    broker = start_broker(DOOR)
    with Calls(kubemq_port(broker)) as calls, ThreadPoolExecutor(1) as pool:
        receiver, responder, stream = calls.receiver("a"), calls.responder(Subscribe.Commands, "c"), calls.stream()
        stream.send("a.", EventID="open")
        stream.result()
        asking = pool.submit(calls.ask, Request.Command, "c", timeout=60_000)
        responder.next()
        with RawClient(broker.port) as nats:
            nats.connect(user="kubemq")
            nats.talk(b"PUB a 1\r\nx\r\n" * 100)
            began = broker.ask_to_end()
            assert [event.Body for event in receiver.take(100)] == [b"x"] * 100
        goodbye = ("UNAVAILABLE", "Error 409: server is in shutdown mode")
        assert receiver.fault() == responder.fault() == goodbye
        for wait in (asking.result, stream.result):
            with pytest.raises(grpc.RpcError) as caught:
                wait()
            assert fault_of(caught.value) == goodbye
    assert broker.await_end(began) < 5


def test_two_brokers_do_not_share_a_port(broker: RunningBroker, tmp_path: Path) -> None:
    address = f"127.0.0.1:{kubemq_port(broker)}"
    command = [
        sys.executable,
        "-m",
        "fumarole.cli.main",
        "serve",
        "--kubemq",
        address,
        "--data",
        str(tmp_path / "data"),
    ]
    ended = subprocess.run(command, capture_output=True, timeout=20, text=True, check=False)
    assert ended.returncode == 1
    assert f"cannot listen on {address}: " in ended.stderr
    assert "already in use" in ended.stderr


def counters(nats: RawClient) -> dict[str, Any]:
    """What the namespace has counted."""
    nats.talk(b"SUB inbox.stats 9\r\n")
    nats.talk(b"PUB $FUM.stats inbox.stats 0\r\n\r\n", until=b"MSG inbox.stats 9 ")
    report: dict[str, Any] = json.loads(nats.read_until(b"}\r\n").split(b"\r\n", 1)[1])
    return report


def test_counters(start_broker: StartBroker) -> None:
    """L3: everything that was sent was delivered or is counted as dropped."""
    broker = start_broker(DOOR)
    with Calls(kubemq_port(broker)) as calls, RawClient(broker.port) as nats:
        nats.connect(user="kubemq")
        receivers = [calls.receiver("a"), calls.receiver("*")]
        for channel in ("a", "b", "nobody.there"):
            calls.send(channel, b"12345678", EventID="1")
        with pytest.raises(grpc.RpcError):
            calls.send("a.")
        assert [event.Channel for event in receivers[1].take(2)] == ["a", "b"]
        report = counters(nats)
    assert (report["namespace"], report["received"], report["delivered"]) == ("kubemq", 3, 3)
    assert report["dropped"] == {"no consumer": 1, "outbox full": 0, "refused": 1}
