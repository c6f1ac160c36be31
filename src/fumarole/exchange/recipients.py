"""The consumers that get a topic, sorted by kind: those without a group, members of groups, couriers of other nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from fumarole.exchange.consumer import Consumer, JoiningOutlet
from fumarole.exchange.groups import Group
from fumarole.exchange.plans import Plan, Share

Entities = tuple[tuple[Consumer, ...], tuple[Share, ...], tuple[()], tuple[Consumer, ...]]


class Recipients:
    """Consumers to which a topic goes, sorted by kind."""

    def __init__(self, groups: dict[str, Group], plan: Plan | None = None) -> None:
        self._groups = groups
        self.alone: list[Consumer] = []
        self.shared: dict[str, list[Consumer]] = {}
        self.couriers: dict[Consumer, None] = {}
        self._joined: dict[JoiningOutlet, list[Consumer]] = {}
        """Consumers that are one entity with the others of their outlet."""
        if plan is not None:
            self.alone += plan.consumers
            self.shared.update((group.name, list(members)) for group, members, _ in plan.groups)
            self.couriers.update(dict.fromkeys(plan.couriers))

    def add(self, consumers: Iterable[Consumer], topic: str | None) -> bool:
        """Adds those of these that may see the topic. True: not every consumer may see every topic."""
        depends_on_topic = False
        checked, is_allowed = None, True  # many consumers are of one user
        for consumer in consumers:
            sees = consumer.sees
            if sees is not None:
                depends_on_topic = True
                if sees is not checked:
                    checked, is_allowed = sees, topic is not None and sees.allows(topic)
                if not is_allowed:
                    continue
            if consumer.group:
                # An entry for several members of another node counts several times: the choice is over members.
                self.shared.setdefault(consumer.group, []).extend([consumer] * consumer.count)
            elif consumer.courier is not None:
                self.couriers[consumer.courier] = None
            elif consumer.conflation is None and getattr(consumer.outlet, "joined", None) is not None:
                self._joined.setdefault(cast(JoiningOutlet, consumer.outlet), []).append(consumer)
            else:
                self.alone.append(consumer)
        return depends_on_topic

    def entities(self) -> tuple[Consumer, ...]:
        """Consumers without a group, one for each entity (D2)."""
        if not self._joined:
            return tuple(self.alone)
        return *self.alone, *(outlet.joined(consumers) for outlet, consumers in self._joined.items())

    def shares(self) -> tuple[Share, ...]:
        return tuple([self._share(self._groups[name], tuple(members)) for name, members in self.shared.items()])

    def plan(self) -> Entities:
        """What a plan of these is made of. It comes from no levels of the index."""
        return self.entities(), self.shares(), (), tuple(self.couriers)

    def _share(self, group: Group, members: tuple[Consumer, ...]) -> Share:
        here = tuple([member for member in members if member.courier is None])
        return group, members, members if len(here) == len(members) else here
