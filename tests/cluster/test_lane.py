"""What comes over a link, from a peer that is what it says, and from one that has the secret and sends nonsense."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fumarole.cluster.contacts import MOST_CONTACTS
from fumarole.cluster.identity import BEATS, DATA
from fumarole.cluster.lane import HANDSHAKE_SECONDS
from fumarole.cluster.strangers import MOST_OF_A_HOST, MOST_STRANGERS
from fumarole.core.publication import Publication
from fumarole.core.query.parse import parse
from fumarole.exchange.readings import Reading
from fumarole.fastpath.hot_path import PLAIN, compiled
from fumarole.protocols.cluster_protocol import (
    MOST_ALIKE,
    Beat,
    Changes,
    Counts,
    Described,
    Echo,
    Entry,
    Frame,
    Heard,
    Hello,
    Known,
    Leaving,
    Mark,
    Moved,
    Producers,
    Proof,
    Rest,
    Spoken,
    Whole,
    frame,
)
from tests.cluster.simulation import World
from tests.cluster.simulation.checks import registry_faults
from tests.cluster.simulation.hosts import Host
from tests.exchange.fakes import Listener

HOT_PATHS = pytest.mark.parametrize("hot_path", [PLAIN, compiled()], ids=["plain", "compiled"])


def two_nodes(hot_path: Any) -> tuple[World, Host, Host]:
    world = World(1, 2, hot_path)
    world.start()
    return world, world.running[0], world.running[1]


def publish(host: Host, namespace: str, topic: str) -> None:
    exchange = host.node.namespaces.get(namespace)
    assert exchange is not None
    exchange.publish(exchange.plans().find(topic.encode()), Publication(topic, b"hi"))
    host.flush()


@HOT_PATHS
def test_a_namespace_that_was_gone_is_found_again(hot_path: Any) -> None:
    """A message may come when the last client of its namespace has just left. Those who come later get theirs."""
    world, here, there = two_nodes(hot_path)
    for _ in range(3):
        exchange, ear = there.node.namespaces.join("lab"), Listener()
        consumer = exchange.consumer(ear, "a", "", b"1")
        exchange.subscribe(consumer)
        there.flush()
        world.run(0.1)
        publish(here, "lab", "a")
        world.run(0.1)
        assert ear.heard == [(b"1", "a")]
        publish(here, "lab", "a")
        exchange.unsubscribe(consumer)
        there.node.namespaces.leave(exchange)
        there.flush()
        world.run(0.1)
        assert here.node.namespaces.get("lab") is None
    assert there.cluster.report()["dropped"]["no namespace"] == 3  # S11


@HOT_PATHS
def test_a_message_for_very_many_groups_is_one_like_others(hot_path: Any) -> None:
    """Its first line names all of them: clients who choose many and long names must not break a link."""
    world, here, there = two_nodes(hot_path)
    exchange, ears = there.node.namespaces.join("default"), [Listener() for _ in range(100)]
    for number, ear in enumerate(ears):
        exchange.subscribe(exchange.consumer(ear, "a", f"{number}-{'g' * 4000}", b"1"))
    there.flush()
    world.run(0.5)
    publish(here, "default", "a")
    world.run(0.5)
    assert [ear.heard for ear in ears] == [[(b"1", "a")]] * 100
    assert (here.cluster.evicted, there.cluster.evicted) == (0, 0)


@HOT_PATHS
def test_a_node_with_another_limit_takes_what_others_took(hot_path: Any) -> None:
    """Limits are changed one node after the other."""
    world = World(1, 2, hot_path)
    here, there = world.running
    here.start([])
    there.start([here.name])
    there.node.limits = replace(there.node.limits, payload=1_000)
    world.run(1.0)
    exchange, ear = there.node.namespaces.join("default"), Listener()
    exchange.subscribe(exchange.consumer(ear, "a", "", b"1"))
    there.flush()
    world.run(0.1)
    exchange = here.node.namespaces.join("default")
    exchange.publish(exchange.plans().find(b"a"), Publication("a", b"x" * 1_000_000))
    here.flush()
    world.run(0.5)
    assert ear.heard == [(b"1", "a")]
    assert (here.cluster.evicted, there.cluster.evicted) == (0, 0)


@HOT_PATHS
def test_a_snapshot_of_large_things_is_told_in_frames_that_fit(hot_path: Any) -> None:
    """Queries and metadata of the largest size, in letters of three bytes, and many of them."""
    world = World(1, 2, hot_path)
    here, there = world.running
    here.start([])
    exchange = here.node.namespaces.join("default")
    long = "火" * 5_000
    for number in range(600):
        exchange.subscribe(exchange.consumer(Listener(), f"a.{number}", "", b"1"), parse(f"Kind = '{number}{long}'"))
        identity = f"2f1c0a52-6d0f-4c8e-9a5e-{number:012}"
        exchange.producers.hear(Reading(identity, {"Kind": long[:2_700]}, 1), here.now())
    there.start([here.name])
    world.run(3.0)
    peer, known = there.cluster.peers[here.name], there.node.namespaces.get("default")
    assert known is not None
    assert (peer.is_settled(), peer.others.consumers, len(known.producers)) == (True, 600, 600)


class Wire:
    """The owner of a connection of which nothing is read."""

    def flush(self) -> None:
        """What is said stays where it is."""


def test_of_those_who_prove_nothing_there_are_never_too_many() -> None:
    world, here, _ = two_nodes(PLAIN)
    of_one = [here.cluster.accepted(Wire(), "10.0.0.1") for _ in range(2 * MOST_OF_A_HOST)]
    assert sum(not lane.close_expected() for lane in of_one) == MOST_OF_A_HOST
    of_many = [here.cluster.accepted(Wire(), f"10.0.1.{number}") for number in range(MOST_STRANGERS)]
    assert sum(not lane.close_expected() for lane in of_many) == MOST_STRANGERS - MOST_OF_A_HOST
    assert here.cluster.refused == 2 * MOST_OF_A_HOST
    of_one[0].receive_eof()
    assert not here.cluster.accepted(Wire(), "10.0.0.1").close_expected()
    for lane in of_one + of_many:
        lane.tick(here.now() + HANDSHAKE_SECONDS + 0.1)
    assert all(lane.close_expected() for lane in of_one + of_many)
    world.run(1.0)
    assert registry_faults(world) == []


def test_where_there_is_no_secret_only_nodes_of_this_machine_are_let_in() -> None:
    world, here, there = two_nodes(PLAIN)
    lanes = [here.cluster.accepted(Wire(), "10.0.0.1", trusted) for trusted in (True, False)]
    for lane in lanes:
        lane.receive_data(frame(there.cluster.hello(DATA)))
    assert [lane.close_expected() for lane in lanes] == [False, True]
    assert b"only nodes of the same machine are let in" in lanes[1].outbox.take()
    assert here.cluster.refused == 1
    world.run(1.0)
    assert registry_faults(world) == []


def test_where_clients_may_go_instead() -> None:
    """Nodes that let clients in at all their addresses, on the same port, are told apart by where they are."""
    world = World(1, 4, PLAIN)
    world.start()
    here = world.running[0].cluster
    here._siblings = "n1"
    here.identity.clients = ("0.0.0.0:4222",)
    for number, clients in enumerate([("0.0.0.0:4222",), ("0.0.0.0:4222", "10.9.9.9:4223"), ("[::]:4222",)], 1):
        peer = here.peers[f"n{number}"]
        peer.address, peer.clients = f"10.0.0.{number}:6222", clients
    assert here.clients_elsewhere() == [
        "10.0.0.2:4222",
        "10.9.9.9:4223",
        "10.0.0.3:4222",
    ]  # the first is a worker of ours
    here.peers["n2"].leaving = True
    assert here.clients_elsewhere() == ["10.0.0.3:4222"]


def test_of_the_addresses_that_a_peer_tells_there_are_never_too_many() -> None:
    _, here, _ = two_nodes(PLAIN)
    for number in range(2 * MOST_CONTACTS):
        here.cluster.contact(f"10.0.0.1:{number}")
    assert len(here.cluster._contacts) == MOST_CONTACTS
    here.cluster.contact("10.0.0.2:1", given=True)
    assert len(here.cluster._contacts) == MOST_CONTACTS + 1


ENTRY = Entry("default", "a", "g", 1)
DIALED, ACCEPTED = (True, DATA), (False, DATA)
REFUSED: dict[str, tuple[tuple[bool, str], Frame | bytes]] = {
    "garbage": (DIALED, bytes(range(256)) * 10),
    "a NATS client": (DIALED, b"PING\r\n"),
    "four gigabytes announced": (DIALED, b"CTL 4294967295\r\n"),
    "a message of nearly a gigabyte": (DIALED, b"MSG a default 999999999\r\n"),
    "a frame of no kind": (DIALED, b"CTL 6\r\n\x91\xa4what\r\n"),
    "fewer than none": (DIALED, Changes(9, (Entry("default", "a", "g", -1),))),
    "more than there can be": (DIALED, Changes(9, (Entry("default", "a", "g", MOST_ALIKE + 1),))),
    "another hello": (DIALED, Hello(1, "0", "test", "n0", 1, "n0", (), DATA, bytes(32))),
    "another proof": (DIALED, Proof(bytes(32))),
    "everything, and everything again": (DIALED, Whole(0)),
    "an answer to what was not said": (ACCEPTED, Known(1_000_000)),
    "changes as an answer": (ACCEPTED, Changes(9, (ENTRY,))),
    "a message as an answer": (ACCEPTED, b"MSG a default 2\r\nhi\r\n"),
    "a beat among the messages": (DIALED, Beat(1.0)),
    "a message among the beats": ((True, BEATS), b"MSG a default 2\r\nhi\r\n"),
    "changes among the beats": ((True, BEATS), Changes(9, (ENTRY,))),
    "an echo as a beat": ((True, BEATS), Echo(1.0)),
    "leaving twice": (DIALED, frame(Leaving(5)) * 2),
}


@HOT_PATHS
@pytest.mark.parametrize("name", REFUSED)
def test_nonsense_of_a_peer_ends_its_link_and_no_other(hot_path: Any, name: str) -> None:
    """It has the secret. It is refused and counted, others go on, and it may come back."""
    place, said = REFUSED[name]
    world = World(1, 3, hot_path)
    world.start()
    mad, node, other = world.running
    ear = other.subscribe("a", "")
    world.run(0.1)
    mad.cluster.peers[node.name].lanes[place].outbox.push(said if isinstance(said, bytes) else frame(said))
    mad.flush()
    for _ in range(50):
        node.publish("a")
        world.run(0.01)
    assert node.cluster.refused == 1
    assert [peer.name for peer in other.cluster.peers.values()] == [mad.name, node.name]
    assert other.cluster.evicted == 0
    world.run(3.0)
    assert len(ear.heard) == 50
    assert registry_faults(world) == []
    confirmed = node.subscribe("b.>", "")
    assert confirmed.confirmed is None  # no peer can have answered yet
    world.run(0.1)
    assert confirmed.confirmed is not None


NAN, SENSOR = float("nan"), "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
RAW_OF_ANOTHER = msgspec.msgpack.encode([SENSOR, {"Kind": "forged"}, 2])
INJECTED = "r 0\r\n\r\nMSG a 1 3\r\nbad\r\n"
PASSED_OVER: dict[str, tuple[tuple[bool, str], Frame | bytes]] = {
    "a namespace that is none": (DIALED, b"MSG a no/where 2\r\nhi\r\n"),
    "a group that is no text": (DIALED, b"MSG b default\x01\xff\xfe 2\r\nhi\r\n"),
    "a topic that is no text": (DIALED, b"MSG \xff\xfe default 2\r\nhi\r\n"),
    "a topic with wildcards": (DIALED, b"MSG > default 2\r\nhi\r\n"),
    "a pattern that is none": (DIALED, Changes(0, (Entry("default", "a.>.b", "", 1),))),
    "a query that is none": (DIALED, Changes(0, (Entry("default", "a", "", 1, "Kind ="),))),
    "consumers that it never had": (DIALED, Changes(0, (Entry("default", "z", "", 0),))),
    "an old answer": (ACCEPTED, Known(0)),
    "a producer without a name": (DIALED, Producers("default", (Described("me", 1, "n0", {"Kind": "x"}),))),
    "a version beyond all": (DIALED, Producers("default", (Described(SENSOR, (1 << 64) - 1, "n0", {}),))),
    "said beyond all": (DIALED, Producers("default", (Described(SENSOR, 1, "n0", {}, {"K": ((1 << 64) - 1, "n0")}),))),
    "forgotten beyond all": (DIALED, Producers("default", (Described(SENSOR, (1 << 64) - 1, "n0", None),))),
    "metadata that is no number": (DIALED, Producers("default", (Described(SENSOR, 1, "n0", {"Kind": NAN}),))),
    "a topic that is none": (DIALED, Moved("default", SENSOR, "a b\r\n", (1, "n0"))),
    "a topic of an unknown producer": (DIALED, Moved("default", "me", "a", (1, "n0"))),
    "a topic of nowhere": (DIALED, Moved("no/where", SENSOR, "a", (1, "n0"))),
    "a topic described beyond all": (
        DIALED,
        Producers("default", (Described(SENSOR, 1, "n0", {}, topic="a", moved=((1 << 64) - 1, "n0")),)),
    ),
    "producers of nowhere": (DIALED, Producers("no/where", (Described(SENSOR, 1, "n0", {}),))),
    "who was heard nowhere": (DIALED, Heard("no/where", ("me",))),
    "a reading that breaks the line": (DIALED, Spoken(b"default", "b", INJECTED, b"", b"hi", SENSOR, {}, 1, b"")),
    "a reading of nobody": (DIALED, Spoken(b"default", "a", "", b"", b"1", "me", {}, 1, b"")),
    "a reading of no number": (DIALED, Spoken(b"default", "a", "", b"", b"1", SENSOR, {}, NAN, b"")),
    "a reading with metadata that are none": (
        DIALED,
        Spoken(b"default", "a", "", b"", b"1", SENSOR, {"K": NAN}, 1, b""),
    ),
    "a reading with bytes of another": (DIALED, Spoken(b"default", "a", "", b"", b"1", SENSOR, {}, 1, RAW_OF_ANOTHER)),
    "a reading with bytes of none": (DIALED, Spoken(b"default", "a", "", b"", b"1", SENSOR, {}, 1, b"\xc1")),
    "a reading of nowhere": (DIALED, Spoken(b"\xff", "b", "", b"", b"hi", SENSOR, {}, 1, b"")),
    "numbers of a stranger": (DIALED, Counts("default", {"received": 1 << 60})),
    "a rest without end": (ACCEPTED, Rest("default", "g", NAN)),
    "no time": (DIALED, Mark(NAN)),
    "a beat at no time": ((True, BEATS), Beat(NAN)),
    "a beat at the end of time": ((True, BEATS), Beat(float("-inf"))),
    "an echo of no time": ((False, BEATS), Echo(NAN)),
}


@HOT_PATHS
@pytest.mark.parametrize("name", PASSED_OVER)
def test_what_makes_no_sense_here_is_passed_over(hot_path: Any, name: str) -> None:
    """A node of another configuration may say such things. Nothing comes of it, and the link goes on."""
    place, said = PASSED_OVER[name]
    world, odd, node = two_nodes(hot_path)
    ear, member = (node.subscribe(*what) for what in (("a", ""), ("a", "g")))
    world.run(0.1)
    odd.cluster.peers[node.name].lanes[place].outbox.push(said if isinstance(said, bytes) else frame(said))
    odd.flush()
    world.run(2.0)
    for _ in range(10):
        odd.publish("a")
    world.run(0.1)
    assert [len(each.heard) for each in (ear, member)] == [10, 10]
    assert (odd.cluster.evicted, node.cluster.evicted, node.cluster.refused) == (0, 0, 0)
    assert registry_faults(world) == []
    assert node.cluster.peers[odd.name].resting == {}
    for each in (node, odd):
        each.describe(SENSOR, {"Kind": each.name})
        world.run(0.1)
    assert node.described() == odd.described() == {SENSOR: {"Kind": odd.name, "_online": True}}


@HOT_PATHS
def test_a_reading_asks_for_answers_on_any_channel(hot_path: Any) -> None:
    """Only clients use reply topics, so a strict namespace takes them too, from another node as from a client."""
    world, other, node = two_nodes(hot_path)
    ear = node.subscribe("a", "")
    world.run(0.1)
    other.cluster.peers[node.name].lanes[DIALED].outbox.push(
        frame(Spoken(b"default", "a", "_INBOX.me:12", b"", b"1", SENSOR, {}, 1, b""))
    )
    other.flush()
    world.run(0.1)
    assert len(ear.heard) == 1
