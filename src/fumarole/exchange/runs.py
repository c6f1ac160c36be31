"""Runs: messages of one publisher, one after another, that go to the same entities, handed over all at once.

A busy publisher is read by the buffer, and a buffer holds hundreds of messages, mostly with one plan: whoever hears all
of `volcanoes.>` hears all of it. What `Exchange.publish` does for each of them is then nearly the same, and most of it
can be done once for all: look who is there, count, make frames, put them into an outbox.

    messages   1 2 3 4 5 6 7        one by one                              as a run
    consumer   K                    K1 K2 K3 …                              K gets 1234567
    group      of L and M           L1 or M1, L2 or M2, … in turns          L gets 1357, M gets 246

That must make no difference to anybody. It makes none where every message would meet the same circumstances as the
first one, and where no two of those who get it share a connection (on which their messages would stand in turns, not
one after another). `publish_run` looks at that first, and otherwise does nothing: then they are published one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, cast

from fumarole.core.publication import FRAMING
from fumarole.exchange.consumer import Consumer, Outlet
from fumarole.exchange.counters import Counters
from fumarole.exchange.groups import may_hear, turns
from fumarole.exchange.plans import Plan

SHORTEST_RUN = 4
"""Messages. For fewer, looking who is there takes longer than publishing."""


class Run:
    """Messages with neither reply nor headers."""

    __slots__ = ("forms", "payloads", "topics")

    def __init__(self, topics: list[bytes], payloads: list[bytes]) -> None:
        self.topics = topics
        self.payloads = payloads
        self.forms: dict[bytes, Any] = {}
        """What a door has made of it for a consumer, by the consumer's key: that is often the same for many."""

    def __len__(self) -> int:
        return len(self.topics)

    def size(self) -> int:
        """Bytes that came in."""
        return sum(map(len, self.payloads))

    def weight(self) -> int:
        """Bytes that all of it takes in an outbox, reckoned as for a single one."""
        return sum(map(len, self.topics)) + self.size() + FRAMING * len(self)

    def shares(self, turns: Iterable[int]) -> dict[int, Run]:
        """Dealt out: to each number those messages in whose places it stands."""
        shares: dict[int, Run] = {}
        for turn, topic, payload in zip(turns, self.topics, self.payloads, strict=True):
            share = shares.get(turn)
            if share is None:
                share = shares[turn] = Run([], [])
            share.topics.append(topic)
            share.payloads.append(payload)
        return shares


class RunOutlet(Outlet, Protocol):
    """An outlet that can take a run."""

    def accept_run(self, consumer: Consumer, run: Run) -> None:
        """Takes every message of it, as `accept` would. Nothing else happens."""


def publish_run(counters: Counters, plan: Plan, run: Run, origin: Outlet) -> bool:
    """`Exchange.publish` for each of the run. False: not all at once, and nothing was done."""
    if not _can_run(plan, run, origin):
        return False
    routed = len(plan.groups)
    for consumer in plan.consumers:
        if may_hear(consumer, origin):
            cast(RunOutlet, consumer.outlet).accept_run(consumer, run)
            routed += 1
    for group, members, _ in plan.groups:
        for chosen, share in run.shares(turns(group, len(members), len(run))).items():
            member = members[chosen]
            cast(RunOutlet, member.outlet).accept_run(member, share)
    counters.received += len(run)
    counters.received_bytes += run.size()
    counters.routed += routed * len(run)
    if not routed:
        counters.unheard += len(run)
    return True


def _can_run(plan: Plan, run: Run, origin: Outlet) -> bool:
    everybody = list(plan.consumers)
    if plan.groups:
        weight = run.weight()
        for _, members, _ in plan.groups:
            # Whoever is pointed at gets it, as all are healthy and stay so, even if one should get all of it (G3).
            if not all(_is_healthy(member, weight, origin) for member in members):
                return False
            everybody += members
    if plan.couriers or any(consumer.limit or not hasattr(consumer.outlet, "accept_run") for consumer in everybody):
        return False
    return len(everybody) < 2 or len({id(consumer.outlet) for consumer in everybody}) == len(everybody)


def _is_healthy(member: Consumer, weight: int, origin: Outlet) -> bool:
    is_here = member.courier is None and not member.resting
    return is_here and may_hear(member, origin) and member.outlet.has_room(weight)
