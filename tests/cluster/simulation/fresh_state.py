"""Fresh state in the simulation: who asks for `last`, what is retained, views; and what must hold of them (F1, F3, F7)."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from fumarole.core.query.holds import holds
from fumarole.core.query.view import View, arrays, content, parse_view
from fumarole.core.topic import matches, parse_wildcards
from fumarole.exchange.gathering import Last
from fumarole.exchange.views import LiveView
from tests.cluster.simulation.checks import HEALED, History, Published

if TYPE_CHECKING:
    from tests.cluster.simulation.clients import Ear
    from tests.cluster.simulation.hosts import Host
    from tests.cluster.simulation.world import World

GATHERED = 1.5
"""Seconds after which a confirmed consumer has its last values."""
VIEWS = ["select Room, count(*) where Kind = 1 or _online", "select Room, Floor where not Kind = 2"]


class Viewer:
    """A client with a view, that keeps it from the changes that it is told."""

    def __init__(self, host: Host, text: str) -> None:
        self.view: View = parse_view(text)
        self.entries: list[list[Any]] = []
        self.faults: list[str] = []
        exchange = host.node.namespaces.get("default")
        assert exchange is not None
        live = LiveView(exchange, self.view, "view", self.hear)
        live.begin(exchange.subscribe_view(live), self.introduce)

    def introduce(self, change: dict[str, Any]) -> None:
        self.entries = change["New"]

    def hear(self, change: dict[str, Any]) -> bool:
        for entry in change["Del"]:
            if entry not in self.entries:
                self.faults.append(f"F7 {entry} is gone, and was not there")
        self.entries = [entry for entry in self.entries if entry not in change["Del"]]
        for entry in change["New"]:
            if entry in self.entries:
                self.faults.append(f"F7 {entry} is new, and was there")
            self.entries.append(entry)
        return True


def demanded(history: History, ear: Ear, topic: str, everyone: set[str]) -> int | None:
    """The definition: the newest message of this topic that was surely kept when the consumer asked; None: none was.

    A last message is on the node that took it. A retained one is on all nodes, if that node could tell them.
    """
    is_open = True
    for number in range(len(history.published) - 1, -1, -1):
        message = history.published[number]
        if message.topic != topic or message.at >= ear.asked:
            continue
        if ear.last is Last.ALL and ear.lives.get(message.host.name) == message.life:
            return number
        if message.retain and is_open:
            is_open = False  # what was retained before is gone
            if not message.is_removal and _is_everywhere(history, message, ear, everyone):
                return number
    return None


def _is_everywhere(history: History, message: Published, ear: Ear, everyone: set[str]) -> bool:
    stayed = any(message.lives.get(name) == life for name, life in ear.lives.items())
    return stayed and history.is_calm(message.at, everyone)


def faults(world: World) -> list[str]:
    """All that is wrong with it, by the rules' numbers."""
    found: list[str] = []
    everyone = set(world.names)
    for ear in world.history.ears:
        found += _told(world.history, ear)
        if ear.last is not Last.NONE and not ear.group:
            found += _missed(world.history, ear, everyone)
    return found + _retained(world, everyone) + _views(world)


def _told(history: History, ear: Ear) -> list[str]:
    """F3, at any time: no last value twice or behind a message as new; members of groups get none."""
    found: list[str] = []
    newest: dict[str, int] = defaultdict(lambda: -1)
    seen: set[int] = set()
    for _, number, is_last in ear.story:
        topic = history.published[number].topic
        if is_last and (ear.group or ear.last is Last.NONE):
            found.append(f"F3 consumer {ear.name} has not asked for {number}")
        if is_last and newest[topic] >= number:
            found.append(f"F3 consumer {ear.name} got {number} as a last value after {newest[topic]}")
        if number in seen:
            found.append(f"F3 consumer {ear.name} got {number} twice")
        seen.add(number)
        newest[topic] = max(newest[topic], number)
    return found


def _missed(history: History, ear: Ear, everyone: set[str]) -> list[str]:
    """F3: nothing that was kept is left out, where no fault was near."""
    if ear.confirmed is None or (ear.left is not None and ear.left < ear.confirmed + GATHERED):
        return []
    if not history.is_calm(ear.asked, everyone, HEALED, ear.confirmed - ear.asked + GATHERED):
        return []
    found, words = [], parse_wildcards(ear.pattern)
    for topic in {message.topic for message in history.published}:
        number = demanded(history, ear, topic, everyone) if matches(words, topic.split(".")) else None
        if number is None:
            continue
        since = history.published[number].at
        told = [each for each in ear.story if history.published[each[1]].topic == topic]
        if not any(other >= number or (not is_last and at >= since) for at, other, is_last in told):
            found.append(f"F3 consumer {ear.name} ({ear.last.value}) of {ear.host.name} missed {number} on {topic}")
    return found


def _retained(world: World, everyone: set[str]) -> list[str]:
    """F1: in the end all nodes retain the same, and of each topic the newest that all could hear of."""
    tables = {}
    for host in world.running:
        exchange = host.node.namespaces.get("default")
        assert exchange is not None
        if host.is_up:
            tables[host.name] = {kept.topic: kept for kept in exchange.retained}
    found = [f"F1 {name} retains {table}, not {first}"
             for first in list(tables.values())[:1] for name, table in tables.items() if table != first]  # fmt: skip
    latest = {each.topic: (number, each) for number, each in enumerate(world.history.published) if each.retain}
    for topic, (number, message) in latest.items():
        stayed = any(host.is_up and message.lives.get(host.name) == host.life for host in world.running)
        if stayed and world.history.is_calm(message.at, everyone):
            found += [
                f"F1 {name} does not retain {number} on {topic}"
                for name, table in tables.items()
                if (kept := table.get(topic)) is None or kept.node != message.host.called or number_of(kept) != number
            ]
    return found


def number_of(message: Any) -> int:
    """Of a publication or of what is kept of one: in the payload, or in a header where that is empty."""
    return int(message.payload or message.headers.split(b"Number: ")[1].split(b"\r\n")[0])


def _views(world: World) -> list[str]:
    """F7: what a client makes of the changes is what the view holds."""
    found = []
    for host in world.running:
        for viewer in host.viewers if host.is_up else []:
            found += viewer.faults
            holding = [each for each in host.described().values() if holds(viewer.view.query, each) is True]
            expected = arrays(content(viewer.view, holding))
            if sorted(map(str, viewer.entries)) != sorted(map(str, expected)):
                found.append(f"F7 {host.name} shows {viewer.entries}, not {expected}")
    return found
