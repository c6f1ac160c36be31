"""Clients of the simulation: consumers that write down what they hear, and somebody who does anything at random."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fumarole.core.publication import FORGOTTEN, Publication
from fumarole.exchange.consumer import Consumer

if TYPE_CHECKING:
    from tests.cluster.simulation.hosts import Host
    from tests.cluster.simulation.world import World

TOPICS = ["a.x", "a.y", "b.x", "b.y.z", "c"]
PATTERNS = ["a.*", "a.x", "b.>", "*.x", ">", "c", "b.y.z"]
PRODUCERS = [f"2f1c0a52-6d0f-4c8e-9a5e-{number:012}" for number in range(3)]
KEYS = ["Room", "Floor", "Kind"]
MOST_CONSUMERS = 12
"""Of one node."""
DESCRIBE, HANG_UP, FORGET = 0.03, 0.01, 0.005
"""How often it is a producer of which something is said."""


class Ear:
    """A consumer's connection, as an outlet that writes down what it hears."""

    echo = True

    def __init__(self, host: Host, name: int, pattern: str, group: str) -> None:
        self.host = host
        self.name = name
        self.label = str(name)
        self.pattern = pattern
        self.group = group
        self.asked = host.world.now
        self.confirmed: float | None = None
        self.left: float | None = None
        self.life = host.life
        self.room = 1 << 30
        self.heard: list[tuple[float, int]] = []
        self.consumer: Consumer | None = None

    def has_room(self, weight: int) -> bool:
        return weight <= self.room

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        consumer.accepted += 1
        if publication.topic != FORGOTTEN:
            self.heard.append((self.host.world.now, int(publication.payload)))


def do_something(world: World) -> None:
    """A client of some node publishes, subscribes or unsubscribes, or says something of a producer."""
    up = [host for host in world.running if host.is_up and not host.paused]
    if not up:
        return
    host, random = world.random.choice(up), world.random
    host.cluster.wake(host.now())
    chance = random.random()
    if chance < DESCRIBE:
        host.describe(random.choice(PRODUCERS), {key: random.choice([None, 1, 2]) for key in random.sample(KEYS, 2)})
    elif chance < DESCRIBE + HANG_UP:
        host.hang_up()
    elif chance < DESCRIBE + HANG_UP + FORGET:
        host.forget(random.choice(PRODUCERS))
    elif chance < 1 - world.churn:
        host.publish(random.choice(TOPICS))
    elif chance < 1 - world.churn / 3 or not host.ears:
        if len(host.ears) < MOST_CONSUMERS:
            host.subscribe(random.choice(PATTERNS), random.choice(["", "", "g", "h", "k@topic"]))
    else:
        host.unsubscribe(random.choice(host.ears))
