"""Events of KubeMQ clients, on every form of the hot path, beside NATS clients of the same namespace."""

import json
from typing import Any

import pytest

from fumarole.core.limits import Limits
from fumarole.core.topic import Grammar
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.outbox import Overflow
from fumarole.fastpath.hot_path import HotPath
from fumarole.protocols.kubemq import Fault
from fumarole.protocols.kubemq_pb2 import Event, EventReceive, Subscribe
from tests.conformance.tables import RECEIVED, RECEIVERS
from tests.desk import Desk
from tests.sessions.kubemq_door import (
    QUERIES,
    QUERY,
    Door,
    answer,
    channels,
    events,
    frames,
)


@pytest.fixture
def door(hot_path: HotPath) -> Door:
    return Door(Desk(hot_path))


def test_an_event_arrives_as_it_was_sent(door: Door) -> None:
    receiver = door.receiver("foo.*")
    door.send("foo.bär", b"\0\xff", EventID="7", Metadata="a\nb", Tags={"site": "north", "a b": ""})
    assert events(receiver) == [
        EventReceive(EventID="7", Channel="foo.bär", Metadata="a\nb", Body=b"\0\xff", Tags={"site": "north", "a b": ""})
    ]


def test_an_event_without_an_id_gets_one(door: Door) -> None:
    receiver, session = door.receiver("a"), door.open()
    assert session.send_event(Event(ClientID="me", Channel="a", Body=b"x")).EventID == "id-1"
    assert [event.EventID for event in events(receiver)] == ["id-1"]


def test_an_event_that_nobody_wants_was_sent(door: Door) -> None:
    result = door.open().send_event(Event(EventID="7", ClientID="me", Channel="nowhere", Body=b"x"))
    assert (result.EventID, result.Sent, result.Error) == ("7", True, "")
    assert door.desk.counters("kubemq")["dropped"] == {"no consumer": 1, "outbox full": 0, "refused": 0}


def test_the_eight_receivers(door: Door) -> None:
    """G4."""
    receivers = {name: door.receiver(*row) for name, row in RECEIVERS.items()}
    for topic, names in RECEIVED.items():
        for _ in range(20):
            door.send(topic)
        got = {name: channels(receiver) for name, receiver in receivers.items()}
        for entity in names.split():
            assert [channel for name in entity.split("|") for channel in got.pop(name)] == [topic] * 20
        assert not any(got.values())


LONG = "x" * 4097
BAD_EVENTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("no client id", {"ClientID": ""}, "INTERNAL", "Error 101: invalid clientID value, cannot be empty"),
    ("no channel", {"Channel": ""}, "INTERNAL", "Error 102: invalid channel value, cannot be empty"),
    ("neither", {"ClientID": "", "Channel": ""}, "INTERNAL", "Error 101: invalid clientID value, cannot be empty"),
    ("a wildcard", {"Channel": "a.*"}, "INTERNAL", "Error 107: invalid channel value, no wildcards are allowed"),
    ("part of a word", {"Channel": "a*"}, "INTERNAL", "Error 107: invalid channel value, no wildcards are allowed"),
    ("the other wildcard", {"Channel": ">"}, "INTERNAL", "Error 107: invalid channel value, no wildcards are allowed"),
    ("a space", {"Channel": "a b"}, "INTERNAL", "Error 108: invalid channel value, no white spaces are allowed"),
    (
        "a line end",
        {"Channel": "a\r\nPING"},
        "INTERNAL",
        "Error 108: invalid channel value, no white spaces are allowed",
    ),
    (
        "a wide space",
        {"Channel": "a\u3000b"},
        "INTERNAL",
        "Error 108: invalid channel value, no white spaces are allowed",
    ),
    ("a trailing dot", {"Channel": "a."}, "INTERNAL", "Error 119: invalid channel value, cannot end with `.`"),
    ("nothing in it", {"Body": b""}, "INTERNAL", "Error 110: invalid message, cannot be empty"),
    ("only tags", {"Body": b"", "Tags": {"a": "b"}}, "INTERNAL", "Error 110: invalid message, cannot be empty"),
    ("a leading dot", {"Channel": ".a"}, "INVALID_ARGUMENT", "invalid channel value: a channel cannot begin or end"),
    ("a control character", {"Channel": "a\x01"}, "INVALID_ARGUMENT", "invalid channel value: '\\x01' is not allowed"),
    ("NUL", {"Channel": "a\0"}, "INVALID_ARGUMENT", "invalid channel value: '\\x00' is not allowed"),
    ("too long a channel", {"Channel": LONG}, "INVALID_ARGUMENT", "a channel or group is at most 4096 bytes long"),
    ("too long in bytes", {"Channel": "é" * 2049}, "INVALID_ARGUMENT", "a channel or group is at most 4096 bytes"),
    ("too large a body", {"Body": b"x" * 1001}, "RESOURCE_EXHAUSTED", "the message is larger than 1000 bytes"),
    ("too large with its tags", {"Tags": {"a": "x" * 999}}, "RESOURCE_EXHAUSTED", "the message is larger than 1000"),
    ("the server's own", {"Channel": "$SYS.a"}, "PERMISSION_DENIED", "Error 412: access denied to resource"),
    ("a command in disguise", {"Channel": "_COMMANDS_.a"}, "PERMISSION_DENIED", "Error 412: access denied to resource"),
    ("a query in disguise", {"Channel": "_QUERIES_.a"}, "PERMISSION_DENIED", "Error 412: access denied to resource"),
    ("an answer in disguise", {"Channel": "_INBOX.a"}, "PERMISSION_DENIED", "Error 412: access denied to resource"),
    ("the empty topic", {"Channel": "$EMPTY"}, "INVALID_ARGUMENT", "invalid channel value: a channel cannot be empty"),
    ("to be stored", {"Store": True}, "UNIMPLEMENTED", "the events store is not offered here"),
]


@pytest.mark.parametrize(
    ("fields", "status", "text"), [row[1:] for row in BAD_EVENTS], ids=[row[0] for row in BAD_EVENTS]
)
def test_bad_events(hot_path: HotPath, fields: dict[str, Any], status: str, text: str) -> None:
    """The fault, nothing delivered, counted, and the next one goes through."""
    door = Door(Desk(hot_path, Limits(payload=1000)))
    receiver, wiretap, session = door.receiver(">"), door.nats(), door.open()
    wiretap.say("SUB > 1\r\n")
    with pytest.raises(Fault) as caught:
        session.send_event(Event(**{"ClientID": "me", "Channel": "a", "Body": b"x", **fields}))
    assert caught.value.status == status
    assert caught.value.text.startswith(text)
    assert door.desk.counters("kubemq")["dropped"]["refused"] == 1
    door.send("a", session=session)
    assert channels(receiver) == ["a"]
    assert wiretap.hears().count(b"MSG") == 1


STORE_OPTIONS = "Error 118: event store parameters were set but subscribe type is not event store"
BAD_SUBSCRIPTIONS: list[tuple[str, dict[str, Any], str, str]] = [
    ("no type", {"SubscribeTypeData": 0}, "INTERNAL", "Error 207: invalid subscribe type"),
    ("another method's type", {"SubscribeTypeData": 3}, "INTERNAL", "Error 207: invalid subscribe type"),
    ("an unknown type", {"SubscribeTypeData": 99}, "INTERNAL", "Error 207: invalid subscribe type"),
    ("a negative type", {"SubscribeTypeData": -1}, "INTERNAL", "Error 207: invalid subscribe type"),
    ("no client id", {"ClientID": ""}, "INTERNAL", "Error 101: invalid clientID value, cannot be empty"),
    ("no channel", {"Channel": ""}, "INTERNAL", "Error 102: invalid channel value, cannot be empty"),
    ("a space", {"Channel": "a b"}, "INTERNAL", "Error 108: invalid channel value, no white spaces are allowed"),
    ("a trailing dot", {"Channel": "a."}, "INTERNAL", "Error 119: invalid channel value, cannot end with `.`"),
    ("options of the store", {"EventsStoreTypeData": 1}, "INTERNAL", STORE_OPTIONS),
    ("a leading dot", {"Channel": ".a"}, "INVALID_ARGUMENT", "invalid channel value: a channel cannot begin or end"),
    ("`>` inside", {"Channel": "a.>.b"}, "INVALID_ARGUMENT", "invalid channel value: `>` must be the last word"),
    ("too long a channel", {"Channel": LONG}, "INVALID_ARGUMENT", "a channel or group is at most 4096 bytes long"),
    ("too long a group", {"Group": LONG}, "INVALID_ARGUMENT", "a channel or group is at most 4096 bytes long"),
    ("white space in a group", {"Group": "a b"}, "INVALID_ARGUMENT", "invalid group value: ' ' is not allowed"),
    ("a line end in a group", {"Group": "a\r\n"}, "INVALID_ARGUMENT", "invalid group value: '\\r' is not allowed"),
    ("requests", {"Channel": "_QUERIES_.>"}, "PERMISSION_DENIED", "Error 412: access denied to resource"),
    ("answers", {"Channel": "_INBOX.a"}, "PERMISSION_DENIED", "Error 412: access denied to resource"),
    ("the store", {"SubscribeTypeData": 2}, "UNIMPLEMENTED", "the events store is not offered here"),
]


@pytest.mark.parametrize(
    ("fields", "status", "text"), [row[1:] for row in BAD_SUBSCRIPTIONS], ids=[row[0] for row in BAD_SUBSCRIPTIONS]
)
def test_bad_subscriptions(door: Door, fields: dict[str, Any], status: str, text: str) -> None:
    session = door.open()
    with pytest.raises(Fault) as caught:
        session.subscribe_to_events(
            Subscribe(**{"SubscribeTypeData": 1, "ClientID": "me", "Channel": "a", **fields}), door
        )
    assert caught.value.status == status
    assert caught.value.text.startswith(text)
    assert door.desk.counters("kubemq")["consumers"] == 0


@pytest.mark.parametrize("kind", [0, 1, 2, 99])
def test_requests_have_types_of_their_own(door: Door, kind: int) -> None:
    with pytest.raises(Fault, match="Error 207"):
        door.responder(kind, "a")


def test_a_receiver_of_everything_gets_events_only(door: Door) -> None:
    """Requests and answers are under way on topics of the same exchange, but are no events."""
    receivers = [door.receiver(pattern) for pattern in (">", "*.*", "_*.>", "_COMMANDS_*.a")]
    responder = door.responder(QUERIES, "a")
    question = door.ask(QUERY, "a")
    answer(door, responder, b"!")
    assert question.answer().Body == b"!"
    assert [frames(receiver) for receiver in receivers] == [[], [], [], []]
    door.send("a.b")
    assert [channels(receiver) for receiver in receivers] == [["a.b"], ["a.b"], [], []]


def test_a_grammar_of_the_namespaces_own(hot_path: HotPath) -> None:
    """T1, T9: where the grammar is strict, so are channels; and the empty topic has a name."""
    door = Door(Desk(hot_path, rules={"kubemq": NamespaceRules(Grammar.STRICT)}))
    receiver, everything, nats = door.receiver("$EMPTY"), door.receiver(">"), door.nats()
    with pytest.raises(Fault, match="invalid channel value: 'ä' is not allowed"):
        door.send("ä")
    door.send("$EMPTY")
    nats.say("PUB $EMPTY 1\r\nx\r\n")
    assert channels(receiver) == ["$EMPTY", "$EMPTY"]
    assert channels(everything) == ["$EMPTY", "$EMPTY"]


# Beside NATS clients.


def test_from_nats_to_kubemq(door: Door) -> None:
    receiver, nats = door.receiver("foo.>"), door.nats()
    block = b"NATS/1.0\r\nUnit: celsius\r\nKubemq-Metadata: m\r\n\r\n"
    nats.say(b"HPUB foo.bar %d %d\r\n%b21.5\r\nPUB foo.x 2\r\nhi\r\n" % (len(block), len(block) + 4, block))
    assert events(receiver) == [
        EventReceive(EventID="id-1", Channel="foo.bar", Metadata="m", Body=b"21.5", Tags={"Unit": "celsius"}),
        EventReceive(EventID="id-2", Channel="foo.x", Body=b"hi"),
    ]


def test_all_receivers_see_one_id(door: Door) -> None:
    receivers, nats = [door.receiver("a"), door.receiver("*")], door.nats()
    nats.say("SUB a 1\r\nPUB a 1\r\nx\r\n")
    assert [[event.EventID for event in events(receiver)] for receiver in receivers] == [["id-1"], ["id-1"]]


def test_from_kubemq_to_nats(door: Door) -> None:
    nats, plain = door.nats(), door.nats(headers=False)
    for client in (nats, plain):
        client.say("SUB foo.> 1\r\n")
    door.send("foo.bär", b"hi", EventID="7", Metadata="celsius", Tags={"site": "north", "a b": "1"})
    assert nats.hears().decode() == (
        "HMSG foo.bär 1 86 88\r\nNATS/1.0\r\nKubemq-Id: 7\r\nKubemq-Metadata: celsius\r\n"
        "Kubemq-Tag: a%20b=1\r\nsite: north\r\n\r\nhi\r\n"
    )
    assert plain.hears().decode() == "MSG foo.bär 1 2\r\nhi\r\n"


def test_a_group_of_both(door: Door) -> None:
    """G1: one of them gets each message, whichever door it came through."""
    receiver, nats = door.receiver("a.*", "g"), door.nats()
    nats.say("SUB a.> g 1\r\n")
    for number in range(50):
        door.send("a.b", b"%d" % number)
        nats.say(f"PUB a.b 2\r\n{number + 50}\r\n")
    got = [int(event.Body) for event in events(receiver)]
    heard = [int(part.rpartition(b"\r\n")[2]) for part in nats.hears().split(b"\r\n") if part.isdigit()]
    assert sorted(got + heard) == list(range(100))
    assert 40 <= len(got) <= 60


def test_nobody_of_another_namespace_hears(door: Door) -> None:
    """N2."""
    other, nats, receiver = door.receiver("a", session=door.open("lab")), door.desk.connect(), door.receiver("a")
    nats.say("SUB a 1\r\n")
    door.send("a")
    assert (channels(other), nats.hears(), channels(receiver)) == ([], b"", ["a"])


# Slow receivers.


def test_a_slow_receiver_gets_the_freshest(hot_path: HotPath) -> None:
    """D6, L3: the oldest go, whole, and are counted, in the namespace and for the receiver."""
    door = Door(Desk(hot_path, rules={"kubemq": NamespaceRules(Grammar.CHANNEL, outbox=1000)}))
    slow, nats = door.receiver("a"), door.nats()
    for number in range(100):
        door.send("a", b"%03d" % number * 30, EventID=str(number))
    got = events(slow)
    assert [event.Body for event in got] == [b"%03d" % number * 30 for number in range(100 - len(got), 100)]
    assert 5 < len(got) < 11
    assert door.desk.counters("kubemq")["dropped"]["outbox full"] == 100 - len(got)
    nats.say("SUB inbox 1\r\n")
    report = json.loads(nats.asks("PUB $FUM.consumers inbox 0\r\n\r\n").split(b"\r\n")[1])
    worst = report["worst"][0]
    assert worst == {
        "connection": "1 me", "pattern": "a", "group": "", "delivered": len(got), "dropped": 100 - len(got), "conflated": 0,
    }  # fmt: skip


def test_a_slow_receiver_may_be_cut_off(hot_path: HotPath) -> None:
    rules = NamespaceRules(Grammar.CHANNEL, outbox=1000, overflow=Overflow.DISCONNECT)
    door = Door(Desk(hot_path, rules={"kubemq": rules}))
    slow = door.receiver("a")
    for _ in range(20):
        door.send("a", b"x" * 100)
    assert slow.outbox is not None
    assert slow.outbox.overflowed
    assert door in door.desk.node.ready


def test_a_group_passes_its_full_members_over(hot_path: HotPath) -> None:
    """G3."""
    door = Door(Desk(hot_path, rules={"kubemq": NamespaceRules(Grammar.CHANNEL, outbox=1000)}))
    full, well = door.receiver("a", "g"), door.receiver("*", "g")
    for _ in range(3):
        door.send("a", b"x" * 300)
    assert len(events(well)) in (1, 2)
    for _ in range(50):
        door.send("a", b"x" * 600)
        assert len(events(well)) == 1
    assert door.desk.counters("kubemq")["dropped"]["outbox full"] == 0
    assert len(events(full)) in (1, 2)


# Fresh state: options are the first words of a channel, and a tag retains (F1, F3, F4, F8, F9).


def test_retained_with_a_tag_and_known_before(door: Door) -> None:
    door.send("a.b", b"1", Tags={"Retain": "1", "site": "north"})
    door.send("a.c", b"2")
    receiver = door.receiver("$LAST.a.>")
    door.send("a.b", b"3")
    before, live = events(receiver)
    assert (before.Channel, before.Body, before.Tags["site"]) == ("a.b", b"1", "north")
    assert float(before.Tags["Last"]) >= 0
    assert (live.Channel, live.Body, dict(live.Tags)) == ("a.b", b"3", {})
    assert channels(door.receiver("$LAST.a.>", "group")) == []
    nats = door.nats().say("SUB $LAST.a.> 1\r\n").hears()
    assert b"Retain: 1\r\n" in nats
    assert b"Last: " in nats
    door.send("a.b", b"", Metadata="closed", Tags={"Retain": "1"})  # without a body it is removed
    assert channels(door.receiver("$LAST.a.>")) == []


def test_the_newest_of_each_channel_in_a_period(door: Door) -> None:
    receiver, timers = door.receiver("$EVERY.1s.a.>"), door.desk.node.namespaces.timers
    for number in range(5):
        door.send("a.b", b"%d" % number)
    assert [event.Body for event in events(receiver)] == [b"0"]
    timers.run(timers.now() + 1.0)
    assert [event.Body for event in events(receiver)] == [b"4"]
    counters = door.desk.counters("kubemq")
    assert (counters["conflated"], counters["dropped"]["outbox full"]) == (3, 0)


@pytest.mark.parametrize(
    ("channel", "words"),
    [
        ("$EVERY", "without a period"),
        ("$EVERY.1ns.a", "expected seconds"),
        ("$EVERY.876000h.a", "from 1ms to 24h"),
        ("$LAST.$LAST.a", "a second time"),
    ],
)
def test_bad_options_of_a_channel(door: Door, channel: str, words: str) -> None:
    with pytest.raises(Fault, match=words) as caught:
        door.receiver(channel)
    assert caught.value.status == "INVALID_ARGUMENT"
    assert door.desk.counters("kubemq")["consumers"] == 0


def test_a_keyed_group_with_members_at_two_doors(door: Door) -> None:
    receiver, nats = door.receiver("a.*", "workers@topic"), door.nats().say("SUB a.* workers@topic 1\r\n")
    for _ in range(3):
        for number in range(20):
            door.send(f"a.{number}")
    taken = channels(receiver)
    assert len(taken) + nats.hears().count(b"MSG a.") == 60
    assert 0 < len(taken) < 60
    assert all(taken.count(channel) == 3 for channel in taken)
