"""Each method of KubeMQ's service, as a gRPC client hears it."""

from __future__ import annotations

from typing import Any

import pytest

from fumarole.fastpath.hot_path import HotPath
from fumarole.protocols.kubemq_pb2 import Empty, Event, EventReceive, PingResult, Request, Response, Result, Subscribe
from tests.desk import Desk
from tests.sessions.grpc_client import GrpcDoor

OK = 0, ""


@pytest.fixture
def door(hot_path: HotPath) -> GrpcDoor:
    return GrpcDoor(Desk(hot_path))


def event(body: bytes, **more: Any) -> Event:
    return Event(**{"EventID": "7", "ClientID": "me", "Channel": "a.b", "Body": body, **more})


def events(channel: str = "a.*") -> Subscribe:
    return Subscribe(SubscribeTypeData=Subscribe.Events, ClientID="me", Channel=channel)


def query(**more: Any) -> Request:
    return Request(
        **{"RequestTypeData": Request.Query, "ClientID": "me", "Channel": "q", "Body": b"?", "Timeout": 1000, **more}
    )


def test_an_event(door: GrpcDoor) -> None:
    client, receiver = door.connect(), door.connect()
    receiving = receiver.begin("SubscribeToEvents", events())
    assert receiving in receiver.heads  # the confirmation, before anything has come
    sent = client.begin("SendEvent", event(b"x"))
    assert client.heard(sent, Result) == [Result(EventID="7", Sent=True)]
    assert client.statuses == {sent: OK}
    assert receiver.heard(receiving, EventReceive) == [EventReceive(EventID="7", Channel="a.b", Body=b"x")]
    assert client.heard(client.begin("Ping", Empty()), PingResult)[0].Host == "desk"


def test_a_stream_of_events_answers_faults_only(door: GrpcDoor) -> None:
    client = door.connect()
    receiving = client.begin("SubscribeToEvents", events())
    stream = client.begin("SendEventsStream", *[event(b"%d" % number) for number in range(300)], end=False)
    client.say(stream, event(b""), event(b"last"))
    assert [each.Body for each in client.heard(receiving, EventReceive)] == [b"%d" % n for n in range(300)] + [b"last"]
    assert [each.Error[:9] for each in client.heard(stream, Result)] == ["Error 110"]
    assert client.statuses == {}
    client.http.end_stream(stream)
    client.exchange()
    assert client.statuses == {stream: OK}


def test_a_request_its_answer_and_no_answer_in_time(door: GrpcDoor) -> None:
    asking, answering = door.connect(), door.connect()
    subscribe = Subscribe(SubscribeTypeData=Subscribe.Queries, ClientID="me", Channel="q")
    responding = answering.begin("SubscribeToRequests", subscribe)
    asked = asking.begin("SendRequest", query())
    (request,) = answering.heard(responding, Request)
    response = Response(ClientID="you", RequestID=request.RequestID, ReplyChannel=request.ReplyChannel, Body=b"!")
    response.Executed = True
    answered = answering.begin("SendResponse", response)
    assert answering.statuses == {answered: OK}
    assert asking.heard(asked, Response)[0].Body == b"!"
    assert len(door.timers) == 0
    late = asking.begin("SendRequest", query(Timeout=20))
    door.timers.pass_by(0.01)
    assert late not in asking.statuses
    door.timers.pass_by(0.02)
    asking.exchange()
    assert asking.statuses[late] == (13, "Error 301: timeout for request message")
    nobody = asking.begin("SendRequest", query(Channel="nobody"))
    assert asking.statuses[nobody] == (
        13,
        "Error 301: timeout for request message: nobody is subscribed to this channel",
    )


FAULTS: dict[str, tuple[str, Any, int, str]] = {
    "no message": ("SendEvent", b"\x0a\x05ab", 3, "not a message of this method"),
    "no channel": ("SendEvent", event(b"x", Channel=""), 13, "Error 102"),
    "a channel of the server's": ("SendEvent", event(b"x", Channel="$SYS"), 7, "Error 412"),
    "the events store": ("SendEvent", event(b"x", Store=True), 12, "the events store is not offered"),
    "no such kind": ("SubscribeToEvents", Subscribe(ClientID="me", Channel="a"), 13, "Error 207"),
    "queues": ("SendQueueMessage", Empty(), 12, "queues are not offered here"),
    "another service": ("/other.service/Method", Empty(), 12, "there is no such method here: /other.service/Method"),
}


@pytest.mark.parametrize(("method", "message", "status", "text"), FAULTS.values(), ids=FAULTS.keys())
def test_faults(door: GrpcDoor, method: str, message: Any, status: int, text: str) -> None:
    client = door.connect()
    stream = client.begin(method, message)
    assert client.statuses[stream][0] == status
    assert client.statuses[stream][1].startswith(text)
    assert client.session.calls == {}
    assert not client.session.close_expected()


def test_calls_that_are_cancelled_leave_nothing(door: GrpcDoor) -> None:
    client = door.connect()
    streams = [client.begin("SubscribeToEvents", events(f"a.{number}")) for number in range(10)]
    client.begin("SubscribeToRequests", Subscribe(SubscribeTypeData=Subscribe.Queries, ClientID="me", Channel="q"))
    asked = client.begin("SendRequest", query())
    assert door.desk.counters("kubemq")["consumers"] == 12  # with the inbox
    for stream in [*streams[:5], asked]:
        client.http.reset_stream(stream)
    client.exchange()
    assert door.desk.counters("kubemq")["consumers"] == 6
    assert len(door.timers) == 0
    client.session.receive_eof()
    assert door.surroundings.calls == {}
    assert not [each for each in door.desk.node.namespaces if each.name == "kubemq" and len(each)]
