"""Random schedules of clients and faults over a whole cluster. A seed that fails is named, and replays exactly.

`make soak` runs thousands; here are enough to notice a mistake. That a mistake would be noticed is tried too: each of the
bugs below, put back, must be found within a few seeds.
"""

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from fumarole.cluster import contacts
from fumarole.cluster.cluster import Cluster
from fumarole.cluster.fresh_state import FreshState
from fumarole.cluster.lane import Lane
from fumarole.cluster.metadata import Metadata
from fumarole.cluster.peer import SAID_AHEAD, Peer
from fumarole.cluster.pulse import Pulse
from fumarole.cluster.whereabouts import Whereabouts
from fumarole.core.limits import MIB
from fumarole.core.publication import Publication
from fumarole.core.stable_hash import stable_hash
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.gathering import Gathering
from fumarole.exchange.plans import Plan
from fumarole.exchange.retained import Kept
from fumarole.exchange.views import LiveView
from fumarole.fastpath.hot_path import PLAIN, compiled
from fumarole.protocols.cluster_protocol import SLICE_BYTES
from tests.cluster.simulation import World, faults, hosts
from tests.cluster.simulation.checks import registry_faults
from tests.cluster.simulation.clients import Ear

SEEDS = 24
FRESH_SEEDS = 8
SEEDS_FOR_A_BUG = 25


def played(seed: int, nodes: int = 3, seconds: float = 12.0, **more: Any) -> World:
    world = World(seed, nodes, **more)
    world.start()
    world.play(seconds)
    return world


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_happens(seed: int) -> None:
    assert played(seed).faults() == [], f"World({seed}) replays this"


@pytest.mark.parametrize("seed", range(FRESH_SEEDS))
def test_fresh_state_whatever_happens(seed: int) -> None:
    """F1, F3, F7 on three nodes, among all faults."""
    assert played(2000 + seed, has_fresh_state=True).faults() == []


def test_fresh_state_of_one_node() -> None:
    world = World(2100, 1, has_fresh_state=True)
    world.start()
    world.play(20.0, fault_every=0.0)
    assert world.faults() == []
    assert sum(is_last for ear in world.history.ears for _, _, is_last in ear.story) > 100


@pytest.mark.parametrize("seed", [101122])
def test_what_was_found_once(seed: int) -> None:
    """101122: a node was gone before all had heard what a producer said to it."""
    world = World(seed)
    world.start()
    world.play(9.0, fault_every=1.5)
    assert world.faults() == []


@pytest.mark.parametrize("nodes", [2, 5, 8])
def test_of_any_size(nodes: int) -> None:
    assert played(1000 + nodes, nodes, 6.0).faults() == []


def test_a_seed_replays_exactly() -> None:
    one, two = (played(7, seconds=5.0) for _ in range(2))
    assert [ear.heard for ear in one.history.ears] == [ear.heard for ear in two.history.ears]
    assert sum(len(ear.heard) for ear in one.history.ears) > 100


def test_without_faults_nothing_is_lost() -> None:
    world = World(3, 4)
    world.start()
    world.play(20.0, fault_every=0.0)
    assert world.history.touched == []
    assert world.faults() == []
    assert sum(len(ear.heard) for ear in world.history.ears) > 1000


def test_a_cut_after_a_long_time_heals_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """C4. Two who know each other only from a third look for each other from when they were cut off, not from when they met."""
    monkeypatch.setattr(contacts, "FORGET_AFTER", 10.0)
    world = World(1, 3)
    world.start()
    world.run(20.0)
    cut = {("n1", "n2"), ("n2", "n1")}
    world.cut |= cut
    world.run(4.0)
    assert [sorted(host.cluster.peers) for host in world.running] == [["n1", "n2"], ["n0"], ["n0"]]
    world.cut -= cut
    world.run(3.0)
    assert [sorted(host.cluster.peers) for host in world.running] == [["n1", "n2"], ["n0", "n2"], ["n0", "n1"]]


@pytest.mark.parametrize("hot_path", [PLAIN, compiled()], ids=["plain", "compiled"])
def test_a_group_is_balanced_over_its_members_wherever_they_are(hot_path: Any) -> None:
    world = World(5, 3, hot_path)
    world.start()
    ears = [world.hosts[name].subscribe("a.>", "g") for name in ("n0", "n0", "n1", "n2")]
    world.run(1.0)
    for number in range(4000):
        world.hosts[f"n{number % 3}"].publish("a.x")
        world.run(0.001)
    world.run(1.0)
    heard = [len(ear.heard) for ear in ears]
    assert sum(heard) == 4000
    assert all(abs(count - 1000) <= 50 for count in heard)  # within 5 %


@pytest.mark.parametrize("hot_path", [PLAIN, compiled()], ids=["plain", "compiled"])
def test_one_copy_to_each_node_that_has_somebody(hot_path: Any) -> None:
    """C3, by the links' own counters: many consumers and two groups on one node are one copy; no copy goes elsewhere."""
    world = World(6, 3, hot_path)
    world.start()
    there = world.hosts["n1"]
    ears = [there.subscribe(*what) for what in (("a.x", ""), ("a.*", ""), (">", ""), ("a.x", "g"), ("*.x", "h"))]
    world.run(1.0)
    for _ in range(100):
        world.hosts["n0"].publish("a.x")
        world.run(0.001)
    world.run(1.0)
    assert [len(ear.heard) for ear in ears] == [100] * 5
    forwarded = {peer["node"]: peer["forwarded"] for peer in world.hosts["n0"].cluster.report()["peers"]}
    assert forwarded == {"n1": 100, "n2": 0}
    received = {peer["node"]: peer["received"] for peer in there.cluster.report()["peers"]}
    assert received == {"n0": 100, "n2": 0}
    assert [peer["forwarded"] for peer in there.cluster.report()["peers"]] == [0, 0]  # one hop


@pytest.mark.parametrize("hot_path", [PLAIN, compiled()], ids=["plain", "compiled"])
def test_a_group_turns_away_from_members_that_are_nearly_full(hot_path: Any) -> None:
    """G3: the other node says so before anything is lost, and the choice falls on others until it has room again."""
    world = World(12, 3, hot_path)
    world.start()
    slow, quick = (world.hosts[name].subscribe("a.>", "g") for name in ("n1", "n2"))
    world.run(1.0)
    slow.room = 10_000
    for _ in range(1000):
        world.hosts["n0"].publish("a.x")
        world.run(0.001)
    world.run(1.0)
    assert len(slow.heard) < 50
    assert len(slow.heard) + len(quick.heard) == 1000
    slow.room = 1 << 30
    world.run(1.0)
    for _ in range(1000):
        world.hosts["n0"].publish("a.x")
        world.run(0.001)
    world.run(1.0)
    assert 450 < len(slow.heard) < 600


@pytest.mark.parametrize("hot_path", [PLAIN, compiled()], ids=["plain", "compiled"])
def test_a_keyed_group_is_chosen_alike_on_every_node(hot_path: Any) -> None:
    """F8: a topic stays with its member whichever node takes it; only the keys of those who go or come move."""
    world = World(14, 3, hot_path)
    world.start()
    topics = [f"volcanoes.{number}" for number in range(60)]
    ears = [host.subscribe("volcanoes.>", "k@topic") for host in world.running for _ in range(3)]
    world.run(1.0)

    def owners() -> dict[str, Ear]:
        found: dict[str, Ear] = {}
        for host in world.running:
            if host.is_up:
                for topic in topics:
                    before = [len(ear.heard) for ear in ears]
                    host.publish(topic)
                    world.run(0.05)
                    got = [ear for ear, count in zip(ears, before, strict=True) if len(ear.heard) > count]
                    assert len(got) == 1
                    assert found.setdefault(topic, got[0]) is got[0]
        return found

    first = owners()
    assert len(set(first.values())) == len(ears)
    gone = ears[4]
    world.running[1].unsubscribe(gone)
    world.run(1.0)
    second = owners()
    assert {first[topic] for topic in topics if first[topic] is not second[topic]} == {gone}
    new = world.running[1].subscribe("volcanoes.*", "k@topic")
    ears.append(new)
    world.run(1.0)
    third = owners()
    assert {topic for topic in topics if third[topic] is new} == {topic for topic in topics if first[topic] is gone}
    killed = world.running[2]
    killed.kill()
    world.run(3.0)
    fourth = owners()
    moved = {third[topic].host for topic in topics if third[topic] is not fourth[topic]}
    assert moved == {killed}


@pytest.mark.parametrize("hot_path", [PLAIN, compiled()], ids=["plain", "compiled"])
def test_a_link_that_is_full_loses_what_is_oldest_counts_it_and_recovers(
    hot_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a second nothing gets through to one node. It is forgiven, others lose nothing, and a group goes elsewhere."""
    monkeypatch.setattr(hosts, "WINDOW", 2_000)
    world = World(14, 3, hot_path, link_limit=5_000)
    world.start()
    sender, stuck, well = (world.hosts[name] for name in ("n0", "n1", "n2"))
    ears = [host.subscribe(*what) for host in (stuck, well) for what in (("a.x", ""), ("a.*", "g"))]
    world.run(1.0)
    faults.partition(world, [stuck], 1.0, one_way=False)
    late = sender.subscribe("b.>", "")
    for _ in range(1000):
        sender.publish("a.x")
        world.run(0.001)
    assert late.confirmed is None  # C2: the node that is stuck is live, and does not know
    world.run(2.0)
    assert late.confirmed is not None
    assert [host.cluster.evicted for host in world.running] == [0, 0, 0]
    (to_stuck, to_well) = (sender.cluster.peers[host.called].traffic() for host in (stuck, well))
    assert (to_well["forwarded"], to_well["outbox full"]) == (1000, 0)
    at_stuck, member_at_stuck, at_well, member_at_well = (len(ear.heard) for ear in ears)
    assert at_well == 1000
    assert 0 < at_stuck == 1000 - to_stuck["outbox full"] < 1000  # S11
    assert ears[0].heard[-1][1] == 999  # the newest
    assert member_at_well > 800  # G3
    assert 1000 - to_stuck["outbox full"] <= member_at_stuck + member_at_well <= 1000
    assert registry_faults(world) == []


def test_a_pause_of_a_second_evicts_nobody() -> None:
    world = World(8, 3)
    world.start()
    for name in ("n0", "n1", "n2") * 3:
        faults.pause(world, world.hosts[name], 1.0)
        world.run(2.0)
    assert [host.cluster.evicted for host in world.running] == [0, 0, 0]


def test_very_much_that_a_node_said_before_it_was_gone_is_told_again_in_time() -> None:
    """More than a link would take at once. One of the others has heard nothing of it."""
    world = World(15, 3, PLAIN, link_limit=MIB)
    world.start()
    talks, deaf, hears = (world.hosts[name] for name in ("n0", "n1", "n2"))
    world.cut |= {("n0", "n1"), ("n1", "n0")}
    for number in range(3_000):
        metadata = {f"Key{key}": f"what is said here is {number} {key} {'x' * 60}" for key in range(10)}
        talks.describe(str(UUID(int=number, version=4)), metadata)
        if not number % 500:
            world.run(0.1)
    world.run(0.4)
    said = hears.described()
    assert (len(said), deaf.described()) == (3_000, {})
    talks.kill()
    world.delay, most = 0.02, 0
    while len(deaf.described()) < len(said):
        assert world.now < 20.0
        world.run(0.01)
        most = max(most, hears.cluster.peers["n1"].outbox.size)
    world.run(4.0)  # until the grace of those that were connected there is over
    offline = {identity: {**metadata, "_online": False} for identity, metadata in said.items()}
    assert deaf.described() == hears.described() == offline
    assert MIB // 2 < most < SAID_AHEAD + SLICE_BYTES + 64 * 1024
    assert hears.cluster.evicted == 1


def test_a_node_that_leaves_takes_nothing_with_it() -> None:
    world = World(9, 3)
    world.start()
    ears = [world.hosts[name].subscribe("a.x", "g") for name in ("n1", "n2")]
    world.run(1.0)
    for number in range(300):
        world.hosts["n0"].publish("a.x")
        world.run(0.001)
        if number == 100:
            world.hosts["n1"].cluster.leave()
            world.hosts["n1"].flush()
    world.run(1.0)
    assert sum(len(ear.heard) for ear in ears) == 300
    assert 0 < len(ears[0].heard) < 100


def test_two_nodes_may_change_places() -> None:
    """Machines, or containers, that are made anew may get each other's addresses."""
    world = World(13, 4)
    world.start()
    one, two = world.hosts["n1"], world.hosts["n2"]
    for host in (one, two):
        host.kill()
    one.called, two.called = two.called, one.called
    world.run(0.5)
    for host in (one, two):
        host.start(["n0"])
    world.run(4.0)
    assert registry_faults(world) == []


def test_a_stranger_and_a_wrong_secret_stay_outside() -> None:
    world = World(10, 3)
    world.hosts["n2"].secret = b"another"
    world.start()
    assert sorted(world.hosts["n0"].cluster.peers) == ["n1"]
    assert world.hosts["n2"].cluster.peers == {}
    assert world.hosts["n0"].cluster.refused + world.hosts["n1"].cluster.refused > 0


def test_twenty_nodes_find_each_other() -> None:
    world = World(11, 20, PLAIN)
    world.start()
    world.hosts["n3"].subscribe("a.x", "")
    world.run(1.0)
    assert registry_faults(world) == []


# The checker is checked.


def heartbeats_do_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Pulse, "silence", lambda self, now: 0.0)


def no_fence_before_what_is_old(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lane, "is_stale", lambda self: False)
    patch.setattr(Cluster, "wake", lambda self, now: setattr(self, "now", now))


def confirmed_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Cluster, "after", lambda self, ticket, call: call())


def a_last_leave_overtakes_a_first_join(patch: pytest.MonkeyPatch) -> None:
    """Of changes that follow each other closely, the former is told after the latter."""
    real: Callable[..., None] = Cluster._consumer_changed
    kept: dict[Cluster, tuple[Any, ...]] = {}

    def watch(self: Cluster, exchange: Exchange, consumer: Any, by: int) -> None:
        if by < 0 and self not in kept:
            kept[self] = exchange, consumer, by
            return
        real(self, exchange, consumer, by)
        if self in kept:
            real(self, *kept.pop(self))

    patch.setattr(Cluster, "_consumer_changed", watch)


def a_forwarded_message_is_forwarded_again(patch: pytest.MonkeyPatch) -> None:
    """Every tenth, so that they do not go round for ever."""
    real, numbers = Exchange.deliver, count()

    def deliver(self: Exchange, plan: Plan, publication: Publication, *more: Any) -> int:
        if next(numbers) % 10:
            return real(self, plan, publication, *more)
        return self.publish(plan, publication)

    patch.setattr(Exchange, "deliver", deliver)


def a_lost_peer_is_remembered(patch: pytest.MonkeyPatch) -> None:
    def evict(self: Cluster, peer: Peer, why: str) -> None:
        if self.peers.pop(peer.name, None) is not None:
            peer.close()
            self.advance()

    patch.setattr(Cluster, "evict", evict)


def a_node_that_comes_hears_of_no_producers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Metadata, "everything", lambda self: iter(()))


def a_lost_peer_keeps_producers_online(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Metadata, "evict", lambda self, node: None)


def nobody_is_told_that_the_last_has_gone(patch: pytest.MonkeyPatch) -> None:
    real = Metadata.came
    patch.setattr(Metadata, "came", lambda *said: real(*said) if said[-1] else None)


def a_change_of_topic_is_not_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Whereabouts, "changed", lambda self, exchange, identity, is_described: None)


def all_sit_on_one_node(patch: pytest.MonkeyPatch) -> None:
    """A node takes the seats of others for seats of its own name."""
    patch.setattr("fumarole.cluster.registry.seat_hash", lambda _, seat: stable_hash(str(seat).encode()))


def live_messages_are_not_noted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gathering, "hears", lambda self, publication: True)


def answers_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gathering, "ask", lambda self, nodes: self._unmarked.update(nodes))


def no_node_is_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FreshState, "ask", lambda self, asking: None)


def what_is_retained_is_told_to_no_node(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FreshState, "retained", lambda self, exchange, kept: None)


def a_node_that_comes_hears_of_nothing_retained(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FreshState, "everything", lambda self: iter(()))


def of_two_retained_the_one_heard_of_last_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Kept, "is_newer", lambda self, other: True)


def views_do_not_see_a_change_within_their_set(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LiveView, "look_at", lambda self, producer: None)


Bug = Callable[[pytest.MonkeyPatch], None]
FRESH_BUGS: dict[Bug, str] = {
    live_messages_are_not_noted: "F3",
    answers_are_not_waited_for: "F3",
    no_node_is_asked: "F3",
    what_is_retained_is_told_to_no_node: "F1",
    a_node_that_comes_hears_of_nothing_retained: "F1",
    of_two_retained_the_one_heard_of_last_is_kept: "F1",
    views_do_not_see_a_change_within_their_set: "F7",
}
BUGS: dict[Bug, str] = {
    heartbeats_do_not_count: "C2",
    no_fence_before_what_is_old: "S9",
    confirmed_at_once: "S6/S8",
    a_last_leave_overtakes_a_first_join: "S7",
    a_forwarded_message_is_forwarded_again: "S1",
    a_lost_peer_is_remembered: "S7",
    a_node_that_comes_hears_of_no_producers: "C6",
    all_sit_on_one_node: "F8",
    a_lost_peer_keeps_producers_online: "F5",
    nobody_is_told_that_the_last_has_gone: "F5",
    a_change_of_topic_is_not_told: "A3",
}


FIRST_SEED: dict[Bug, int] = {confirmed_at_once: 81}
"""About one seed in twenty shows this bug."""


@pytest.mark.parametrize("bug", BUGS, ids=[bug.__name__ for bug in BUGS])
def test_a_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    find(BUGS[bug], FIRST_SEED.get(bug, 0))


@pytest.mark.parametrize("bug", FRESH_BUGS, ids=[bug.__name__ for bug in FRESH_BUGS])
def test_a_bug_of_fresh_state_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    find(FRESH_BUGS[bug], 2000, has_fresh_state=True)


def find(rule: str, first: int, **more: Any) -> None:
    """Some seed shows a fault against this rule."""
    kinds: Counter[str] = Counter()
    for seed in range(first, first + SEEDS_FOR_A_BUG):
        kinds.update(fault.split()[0] for fault in played(seed, hot_path=PLAIN, **more).faults())
        if rule in kinds:
            return
    pytest.fail(f"not found in {SEEDS_FOR_A_BUG} seeds; only {kinds}")
