"""What must not have happened, by the numbers of the invariants S1 to S9, from all that clients of the simulation saw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fumarole.cluster.registry import _key_of
from fumarole.core.topic import matches, parse_wildcards
from fumarole.protocols.cluster_protocol import Entry

if TYPE_CHECKING:
    from tests.cluster.simulation.clients import Ear
    from tests.cluster.simulation.hosts import Host
    from tests.cluster.simulation.world import World

NOTICED = 2.3
"""Seconds after which a fault is noticed by all nodes, ticks and delays included."""
HEALED = 3.0
"""Seconds after which all is as if there had been no fault (C4)."""


@dataclass
class Published:
    at: float
    host: Host
    topic: str
    life: int
    retain: bool = False
    is_removal: bool = False
    lives: dict[str, int] = field(default_factory=dict)
    """Of the nodes that were up."""


@dataclass
class History:
    """All that clients saw, and what faults there were."""

    published: list[Published] = field(default_factory=list)
    ears: list[Ear] = field(default_factory=list)
    touched: list[tuple[float, float, frozenset[str]]] = field(default_factory=list)
    """From when to when which nodes were not themselves; a cut touches both of its sides."""

    def publish(self, host: Host, topic: str, retain: bool = False, is_removal: bool = False) -> int:
        lives = host.world.lives() if retain else {}
        self.published.append(Published(host.world.now, host, topic, host.life, retain, is_removal, lives))
        return len(self.published) - 1

    def is_calm(self, at: float, names: set[str], before: float = HEALED, after: float = 0.5) -> bool:
        """Was no fault near these nodes, before or just after?"""
        return not any(begin - after <= at <= end + before and names & nodes for begin, end, nodes in self.touched)

    def is_noticed(self, at: float, names: set[str]) -> bool:
        """The same, or has the fault been there for so long that all nodes have noticed?"""
        return not any(
            (begin - 0.5 <= at <= begin + NOTICED or end - 0.5 <= at <= end + HEALED) and names & nodes
            for begin, end, nodes in self.touched
        )

    def faults(self) -> list[str]:
        found: list[str] = []
        got: dict[int, list[Ear]] = defaultdict(list)
        for ear in self.ears:
            waited = (ear.confirmed or ear.left or ear.host.world.now) - ear.asked
            if waited > NOTICED and self.is_calm(ear.asked, {ear.host.name}, before=0.0, after=waited):
                found.append(f"C2 consumer {ear.name} waited {waited:.1f} s to be confirmed")
            latest: dict[Host, int] = {}
            for at, number in ear.heard:
                message = self.published[number]
                got[number].append(ear)
                if not matches(parse_wildcards(ear.pattern), message.topic.split(".")):
                    found.append(f"S2 message {number} on {message.topic} went to {ear.pattern}")
                if latest.get(message.host, -1) >= number:
                    found.append(f"S4 or S1 consumer {ear.name} heard {number} after {latest[message.host]}")
                latest[message.host] = number
                if at - message.at > 5.0:
                    found.append(f"S9 message {number} came {at - message.at:.1f} s late to consumer {ear.name}")
        groups: dict[str, list[Ear]] = defaultdict(list)
        for ear in self.ears:
            if ear.group:
                groups[ear.group].append(ear)
        found += self._keyed(got)
        for number, message in enumerate(self.published):
            found += self._one(number, message, got[number], groups)
        return found

    def _one(self, number: int, message: Published, got: list[Ear], groups: dict[str, list[Ear]]) -> list[str]:
        found = []
        words = message.topic.split(".")
        for ear in self.ears:
            missed = not ear.group and ear not in got and self._was_there(ear, message, words)
            if missed and self.is_calm(message.at, {message.host.name, ear.host.name}):
                where = f"message {number} of {message.host.name} missed consumer {ear.name} of {ear.host.name}"
                found.append(f"S6/S8 {where}")
        for group, members in groups.items():
            served = [ear for ear in got if ear.group == group]
            if len(served) > 1:
                found.append(f"S1 message {number} went to group {group} {len(served)} times")
            there = [ear for ear in members if self._was_there(ear, message, words)]
            if there and not served:
                # The choice may fall on any member, and one whose node has just failed takes the message with it.
                about = {
                    ear.host.name for ear in members if ear.confirmed is not None and ear.confirmed <= message.at + 1
                }
                stable = all(ear in there for ear in members if _overlaps(ear, message.at))
                healthy = any(self.is_calm(message.at, {ear.host.name, message.host.name}) for ear in there)
                if stable and healthy and self.is_noticed(message.at, about | {message.host.name}):
                    found.append(f"S5 message {number} of {message.host.name} missed group {group}")
        return found

    def _keyed(self, got: dict[int, list[Ear]]) -> list[str]:
        """F8: while the members of a keyed group stay, a topic stays with one of them, whichever node takes it."""
        found = []
        for group in {ear.group for ear in self.ears if ear.group.endswith("@topic")}:
            changes = [
                at for ear in self.ears if ear.group == group for at in (ear.asked, ear.confirmed, ear.left) if at
            ]
            last: dict[str, tuple[float, Ear]] = {}
            for number, message in enumerate(self.published):
                served = [ear for ear in got[number] if ear.group == group]
                if len(served) != 1:
                    continue
                ear = served[0]
                before = last.get(message.topic)
                last[message.topic] = message.at, ear
                if before is None or before[1] is ear:
                    continue
                begin, end = before[0] - 0.1, message.at + 1.0
                touched = any(since - 0.5 <= end and begin <= until + HEALED for since, until, _ in self.touched)
                if not any(begin <= at <= end for at in changes) and not touched:
                    found.append(f"F8 {message.topic} went to {before[1].name} at {before[0]:.2f}, then to {ear.name}")
        return found

    def _was_there(self, ear: Ear, message: Published, words: list[str]) -> bool:
        return (
            ear.confirmed is not None
            and ear.confirmed <= message.at
            and (ear.left is None or ear.left > message.at + 1.0)
            and matches(parse_wildcards(ear.pattern), words)
        )


def _overlaps(ear: Ear, at: float) -> bool:
    """Was this consumer, or could a node think that it was, there about this time?"""
    return ear.left is None or ear.left > at - 1.0


def registry_faults(world: World) -> list[str]:
    """S7: each node knows the consumers of all nodes, and no others."""
    found = []
    up = [host for host in world.running if host.is_up]
    for host in up:
        there = _alike({entry: entry.count for entry in host.cluster.own})
        exchange = host.node.namespaces.get("default")
        assert exchange is not None
        if exchange.elsewhere != sum(len(peer.others) for peer in host.cluster.peers.values()):
            found.append(f"S7 {host.name} remembers consumers of a node that is gone")
        live: dict[tuple[str, str, str], int] = defaultdict(int)
        for ear in host.ears:
            live["default", ear.pattern, ear.group] += 1
        if there != dict(live):
            found.append(f"S7 {host.name} counts {there}, but has {dict(live)}")
        for other in up:
            peer = other.cluster.peers.get(host.called)
            if other is host:
                continue
            if peer is None or not peer.is_linked():
                found.append(f"S7 {other.name} does not see {host.name}")
            elif (known := _alike(peer.others.entries())) != there:
                found.append(f"S7 {other.name} thinks {host.name} has {known}, not {there}")
            elif _seats(peer.others.entries()) != _seats({_key_of(entry): 1 for entry in host.cluster.own}):
                found.append(f"S7 {other.name} thinks that the members of {host.name} sit elsewhere than they do")
    return found


def _alike(entries: Mapping[Any, int]) -> dict[tuple[str, str, str], int]:
    """By namespace, pattern and group: members of a keyed group are an entry each."""
    found: dict[tuple[str, str, str], int] = defaultdict(int)
    for entry, count in entries.items():
        key = (entry.namespace, entry.pattern, entry.group) if isinstance(entry, Entry) else entry[:3]
        found[key] += count
    return dict(found)


def _seats(keys: Iterable[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    return {(*key[:3], key[6]) for key in keys if len(key) > 3}


def metadata_faults(world: World) -> list[str]:
    """S7 too: what producers say of themselves is known to all, and the same (C6)."""
    up = [host for host in world.running if host.is_up]
    known = [host.described() for host in up]
    topics = [host.whereabouts() for host in up]
    online = set().union(*(host.spoken_for() for host in up))
    return (
        [
            f"F5 {host.name} says that {sorted(here)} are online, but {sorted(online)} are"
            for host, metadata in zip(up, known, strict=True)
            if (here := {identity for identity, said in metadata.items() if said["_online"]}) != online
        ]
        + [
            f"C6 {host.name} knows {here}, but {up[0].name} {known[0]}"
            for host, here in zip(up, known, strict=True)
            if here != known[0]
        ]
        + [
            f"A3 {host.name} has the latest readings on {here}, but {up[0].name} on {topics[0]}"
            for host, here in zip(up, topics, strict=True)
            if here != topics[0]
        ]
    )
