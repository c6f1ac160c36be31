"""The exchange of one namespace: who is there, and who gets a publication."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice
from typing import Any

from fumarole.core.index import Index, Node
from fumarole.core.publication import Publication
from fumarole.core.topic import Grammar, literal_prefix, parse_pattern, split
from fumarole.exchange.consumer import Consumer, Outlet, consumer_report
from fumarole.exchange.counters import Counters
from fumarole.exchange.groups import Group
from fumarole.exchange.outbox import Outbox, Overflow
from fumarole.exchange.permissions import Permissions
from fumarole.exchange.plans import Plan, Plans


@dataclass(frozen=True, slots=True)
class Parts:
    """The classes that the hot path is made of: these, or their compiled twins."""

    index: Callable[[], Index] = Index
    consumer: type[Consumer] = Consumer
    counters: type[Counters] = Counters
    group: type[Group] = Group
    outbox: type[Outbox] = Outbox
    plan: type[Plan] = Plan
    plans: type[Plans] = Plans


PURE = Parts()
SHARED_PLANS_KEPT = 4_096
CONSUMERS_LOOKED_AT = 10_000
"""A report must not hold everybody up."""


class Exchange:
    """Consumers by pattern. `publish` hands a message to each entity of its plan once (D1, D2)."""

    def __init__(
        self,
        name: str,
        grammar: Grammar = Grammar.STRICT,
        overflow: Overflow = Overflow.DROP_OLDEST,
        outbox_limit: int = 1 << 22,
        parts: Parts = PURE,
    ) -> None:
        self.name = name
        self.grammar = grammar
        self.overflow = overflow
        self.outbox_limit = outbox_limit
        self.connections = 0
        self.counters = parts.counters()
        self._parts = parts
        self._index = parts.index()
        self._groups: dict[str, Group] = {}
        self.nobody = parts.plan()
        """The plan of every topic that no entity matches."""
        self._shared: dict[Node | tuple[Node, ...], Plan] = {}
        """Topics that the same patterns match share a plan."""
        self._plans: dict[Permissions | None, Plans] = {}

    def __len__(self) -> int:
        return len(self._index)

    def consumer(
        self, outlet: Outlet, pattern: str, group: str, key: bytes, sees: Permissions | None = None
    ) -> Consumer:
        """A new subscription, not yet in force."""
        return self._parts.consumer(outlet, pattern, group, key, sees)

    def subscribe(self, consumer: Consumer) -> None:
        """From here on the consumer gets what is published (D5)."""
        pattern = parse_pattern(consumer.pattern, self.grammar)
        self._index.add(pattern, consumer)
        if consumer.group:
            group = self._groups.get(consumer.group)
            if group is None:
                group = self._groups[consumer.group] = self._parts.group(consumer.group)
            group.size += 1
        self._touch(literal_prefix(pattern))

    def unsubscribe(self, consumer: Consumer) -> None:
        """From here on it gets nothing. Unsubscribing twice is harmless."""
        pattern = parse_pattern(consumer.pattern, self.grammar)
        if not self._index.remove(pattern, consumer):
            return
        if consumer.group:
            group = self._groups[consumer.group]
            group.size -= 1
            if not group.size:
                del self._groups[consumer.group]  # G5
        self._touch(literal_prefix(pattern))

    def plans(self, permissions: Permissions | None = None) -> Plans:
        """The plans for publishers with these permissions."""
        plans = self._plans.get(permissions)
        if plans is None:
            plans = self._plans[permissions] = self._parts.plans(self, permissions)
        return plans

    def plan(self, topic: str) -> Plan:
        """Works out who gets a topic. `plans` remembers it."""
        nodes = self._index.match(split(topic))
        if not nodes:
            return self.nobody
        key = nodes[0] if len(nodes) == 1 else tuple(nodes)
        plan = self._shared.get(key)
        if plan is None:
            plan, depends_on_topic = self._make_plan(nodes, topic)
            if not depends_on_topic:
                if len(self._shared) >= SHARED_PLANS_KEPT:
                    self._shared.clear()
                self._shared[key] = plan
        return plan

    def publish(self, plan: Plan, publication: Publication, origin: Outlet | None = None) -> int:
        """Hands the message to every entity of the plan; how many there were. Never waits (D6)."""
        routed = 0
        for consumer in plan.consumers:
            outlet = consumer.outlet
            if outlet is not origin or outlet.echo:
                outlet.accept(consumer, publication)
                routed += 1
        if plan.groups:
            weight = publication.weight()
            for group, members in plan.groups:
                member = group.choose(members, weight, origin)
                if member is not None:
                    member.outlet.accept(member, publication)
                    routed += 1
        if not routed:
            self.count_unheard(len(publication.payload) + len(publication.headers))
            return 0
        counters = self.counters
        counters.received += 1
        counters.received_bytes += len(publication.payload) + len(publication.headers)
        counters.routed += routed
        return routed

    def count_unheard(self, size: int) -> None:
        """One publication of this size reached nobody (D3)."""
        counters = self.counters
        counters.received += 1
        counters.received_bytes += size
        counters.unheard += 1

    def _make_plan(self, nodes: list[Node], topic: str) -> tuple[Plan, bool]:
        consumers: list[Consumer] = []
        groups: dict[str, list[Consumer]] = {}
        depends_on_topic = False
        for node in nodes:
            for consumer in node.values or ():
                if consumer.sees is not None:
                    depends_on_topic = True
                    if not consumer.sees.allows(topic):
                        continue
                if consumer.group:
                    groups.setdefault(consumer.group, []).append(consumer)
                else:
                    consumers.append(consumer)
        shares = tuple((self._groups[name], tuple(members)) for name, members in groups.items())
        return self._parts.plan(tuple(consumers), shares), depends_on_topic

    def _touch(self, prefix: str) -> None:
        self._shared.clear()
        for plans in self._plans.values():
            plans.touch(prefix)

    def worst_consumers(self, most: int = 100) -> dict[str, Any]:
        """Those who lost most, for people and scripts (L3). Where there are very many, only a part is looked at."""
        some = list(islice(self._index, CONSUMERS_LOOKED_AT))
        worst = nlargest(most, some, key=lambda consumer: (consumer.dropped, consumer.accepted))
        return {
            "namespace": self.name,
            "consumers": len(self),
            "looked_at": len(some),
            "worst": [consumer_report(consumer) for consumer in worst],
        }

    def report(self) -> dict[str, Any]:
        """For people and scripts."""
        return {
            "namespace": self.name,
            "connections": self.connections,
            "consumers": len(self),
            **self.counters.report(),
        }
