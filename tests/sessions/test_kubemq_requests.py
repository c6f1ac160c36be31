"""Commands and Queries of KubeMQ clients, beside NATS clients of the same namespace."""

from typing import Any

import pytest

from fumarole.fastpath.hot_path import HotPath
from fumarole.protocols.kubemq import Fault
from fumarole.protocols.kubemq_pb2 import Response
from tests.desk import Desk
from tests.sessions.kubemq_door import (
    COMMAND,
    COMMANDS,
    NOW,
    QUERIES,
    QUERY,
    Door,
    Question,
    answer,
    events,
    request,
    requests,
)

LONG = "x" * 4097


@pytest.fixture
def door(hot_path: HotPath) -> Door:
    return Door(Desk(hot_path))


def test_a_query_and_its_answer(door: Door) -> None:
    responder = door.responder(QUERIES, "rates.*")
    question = door.ask(QUERY, "rates.usd", RequestID="7", Metadata="m", Tags={"a": "b"}, Timeout=5000, Span=b"\1")
    asked = answer(door, responder, b"1.1", Metadata="ok", Tags={"c": "d"})
    assert asked.ReplyChannel.startswith("_INBOX.")
    asked.ClearField("ReplyChannel")
    assert asked == question.asked
    assert question.answer() == Response(
        ClientID="you", RequestID="7", Metadata="ok", Body=b"1.1", Executed=True, Tags={"c": "d"},
        Timestamp=int(NOW) * 10**9,
    )  # fmt: skip


def test_a_command_that_failed(door: Door) -> None:
    responder = door.responder(COMMANDS, "lights")
    question = door.ask(COMMAND, "lights", RequestID="7")
    answer(door, responder, b"lost", Metadata="lost", Executed=False, Error="no power", Timestamp=5)
    assert question.answer() == Response(ClientID="you", RequestID="7", Executed=False, Error="no power", Timestamp=5)


def test_the_three_kinds_of_a_channel_never_mix(door: Door) -> None:
    receiver, command, query = door.receiver("a"), door.responder(COMMANDS, "a"), door.responder(QUERIES, "a")
    door.send("a", b"event")
    door.ask(COMMAND, "a", Body=b"command")
    door.ask(QUERY, "a", Body=b"query")
    assert [event.Body for event in events(receiver)] == [b"event"]
    assert [asked.Body for asked in requests(command)] == [b"command"]
    assert [asked.Body for asked in requests(query)] == [b"query"]


def test_without_a_group_every_responder_is_asked_and_the_first_answer_counts(door: Door) -> None:
    first, second = door.responder(QUERIES, "a"), door.responder(QUERIES, "*")
    question = door.ask(QUERY, "a")
    answer(door, second, b"second")
    answer(door, first, b"first")
    assert question.answer().Body == b"second"


def test_of_a_group_one_is_asked(door: Door) -> None:
    responders = [door.responder(QUERIES, channel, "g") for channel in ("a", "*", ">")]
    for _ in range(30):
        door.ask(QUERY, "a")
    asked = [len(requests(responder)) for responder in responders]
    assert sum(asked) == 30
    assert min(asked) >= 9


def test_a_request_that_nobody_can_hear_says_so_at_once(door: Door) -> None:
    """R1."""
    door.responder(COMMANDS, "a")
    with pytest.raises(Fault, match="Error 301: timeout for request message: nobody is subscribed"):
        door.ask(QUERY, "a")
    assert not door.service.inboxes


def test_an_answer_that_comes_too_late_goes_nowhere(door: Door) -> None:
    responder = door.responder(QUERIES, "a")
    question = door.ask(QUERY, "a")
    other = door.ask(QUERY, "a")
    question.session.close()
    first, second = requests(responder)
    own = door.open()
    for asked in (first, second):
        own.respond(Response(ClientID="you", RequestID=asked.RequestID, ReplyChannel=asked.ReplyChannel))
    assert question.answers == []
    assert len(other.answers) == 1


def test_the_inbox_is_there_while_an_answer_is_expected(door: Door) -> None:
    door.responder(QUERIES, "a")
    questions = [door.ask(QUERY, "a") for _ in range(3)]
    assert door.desk.counters("kubemq")["consumers"] == 2
    for question in questions:
        question.session.close()
    assert door.desk.counters("kubemq")["consumers"] == 1
    assert not door.service.inboxes


def test_a_nats_client_answers_a_query(door: Door) -> None:
    nats = door.nats()
    nats.say("SUB _QUERIES_.rates.* g 1\r\n")
    question = door.ask(QUERY, "rates.usd")
    head, *_, body, _ = nats.hears().split(b"\r\n")
    assert body == b"?"
    _, topic, _, reply, *_ = head.split()
    assert topic == b"_QUERIES_.rates.usd"
    block = b"NATS/1.0\r\nUnit: usd\r\n\r\n"
    nats.say(b"HPUB %b %d %d\r\n%b1.1\r\n" % (reply, len(block), len(block) + 3, block))
    response = question.answer()
    assert (response.Body, response.Executed, dict(response.Tags)) == (b"1.1", True, {"Unit": "usd"})


def test_a_nats_client_asks_a_responder(door: Door) -> None:
    responder, nats = door.responder(COMMANDS, "lights"), door.nats(no_responders=True)
    nats.say("SUB _INBOX.nats 1\r\nPUB _COMMANDS_.lights _INBOX.nats 2\r\non\r\n")
    asked = answer(door, responder, b"", Executed=False, Error="no power")
    assert (asked.Channel, asked.Body, asked.RequestTypeData) == ("lights", b"on", COMMAND)
    heard = nats.hears()
    assert b"Kubemq-Executed: false\r\nKubemq-Error: no power\r\n" in heard
    nats.say("PUB _COMMANDS_.dishes _INBOX.nats 2\r\non\r\n")
    assert b"503" in nats.hears()


def test_a_nats_client_that_wants_no_answer(door: Door) -> None:
    responder, nats = door.responder(COMMANDS, "lights"), door.nats()
    nats.say("PUB _COMMANDS_.lights 2\r\non\r\n")
    assert answer(door, responder).ReplyChannel == "_INBOX.nobody"


BAD_REQUESTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("no type", {"RequestTypeData": 0}, "INTERNAL", "Error 206: invalid request type"),
    ("an unknown type", {"RequestTypeData": 99}, "INTERNAL", "Error 206: invalid request type"),
    ("no client id", {"ClientID": ""}, "INTERNAL", "Error 101: invalid clientID value, cannot be empty"),
    ("no channel", {"Channel": ""}, "INTERNAL", "Error 102: invalid channel value, cannot be empty"),
    ("a wildcard", {"Channel": "a.>"}, "INTERNAL", "Error 107: invalid channel value, no wildcards are allowed"),
    ("a space", {"Channel": "a b"}, "INTERNAL", "Error 108: invalid channel value, no white spaces are allowed"),
    ("no timeout", {"Timeout": 0}, "INTERNAL", "Error 109: invalid set timeout value, cannot be 0 or negative"),
    (
        "a negative timeout",
        {"Timeout": -1},
        "INTERNAL",
        "Error 109: invalid set timeout value, cannot be 0 or negative",
    ),
    ("nothing in it", {"Body": b""}, "INTERNAL", "Error 115: invalid request, cannot be empty"),
    ("no cache time", {"CacheKey": "a"}, "INTERNAL", "Error 116: invalid cache ttl value, cannot be 0 or negative"),
    ("a trailing dot", {"Channel": "a."}, "INTERNAL", "Error 119: invalid channel value, cannot end with `.`"),
    ("a leading dot", {"Channel": ".a"}, "INVALID_ARGUMENT", "invalid channel value: a channel cannot begin or end"),
    ("a control character", {"Channel": "a\x01"}, "INVALID_ARGUMENT", "invalid channel value: '\\x01' is not allowed"),
    ("too long a channel", {"Channel": LONG}, "INVALID_ARGUMENT", "a channel or group is at most 4096 bytes long"),
    ("too large a body", {"Body": b"x" * 2**20}, "RESOURCE_EXHAUSTED", "the message is larger than 1048576 bytes"),
]


@pytest.mark.parametrize(
    ("fields", "status", "text"), [row[1:] for row in BAD_REQUESTS], ids=[row[0] for row in BAD_REQUESTS]
)
def test_bad_requests(door: Door, fields: dict[str, Any], status: str, text: str) -> None:
    responder = door.responder(QUERIES, ">")
    with pytest.raises(Fault) as caught:
        door.ask(QUERY, "a", **fields) if "Channel" not in fields else Question(door, request(QUERY, fields["Channel"]))
    assert caught.value.status == status
    assert caught.value.text.startswith(text)
    assert requests(responder) == []
    assert not door.service.inboxes


BAD_RESPONSES: list[tuple[str, dict[str, Any], str, str]] = [
    ("no client id", {"ClientID": ""}, "INTERNAL", "Error 101: invalid clientID value, cannot be empty"),
    ("no reply channel", {"ReplyChannel": ""}, "INTERNAL", "Error 102: invalid channel value, cannot be empty"),
    ("a wildcard", {"ReplyChannel": "_INBOX.*"}, "INTERNAL", "Error 107: invalid channel value, no wildcards are"),
    ("a space", {"ReplyChannel": "a b"}, "INTERNAL", "Error 108: invalid channel value, no white spaces are allowed"),
    ("no request id", {"RequestID": ""}, "INTERNAL", "Error 117: invalid request id, cannot be empty"),
    ("a trailing dot", {"ReplyChannel": "a."}, "INTERNAL", "Error 119: invalid channel value, cannot end with `.`"),
    ("a leading dot", {"ReplyChannel": ".a"}, "INVALID_ARGUMENT", "invalid channel value: a channel cannot begin"),
    ("the server's own", {"ReplyChannel": "$FUM.a"}, "PERMISSION_DENIED", "Error 412: access denied to resource"),
    ("a request in disguise", {"ReplyChannel": "_QUERIES_.a"}, "PERMISSION_DENIED", "Error 412: access denied"),
    ("too large a body", {"Body": b"x" * 2**20}, "RESOURCE_EXHAUSTED", "the message is larger than 1048576 bytes"),
]


@pytest.mark.parametrize(
    ("fields", "status", "text"), [row[1:] for row in BAD_RESPONSES], ids=[row[0] for row in BAD_RESPONSES]
)
def test_bad_responses(door: Door, fields: dict[str, Any], status: str, text: str) -> None:
    wiretap = door.nats()
    wiretap.say("SUB > 1\r\n")
    with pytest.raises(Fault) as caught:
        door.open().respond(Response(**{"ClientID": "me", "RequestID": "1", "ReplyChannel": "_INBOX.a", **fields}))
    assert caught.value.status == status
    assert caught.value.text.startswith(text)
    assert wiretap.hears() == b""
