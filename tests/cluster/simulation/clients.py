"""Clients of the simulation: consumers that write down what they hear, and a client that does anything at random."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fumarole.core.publication import FORGOTTEN, Publication
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.gathering import Last
from fumarole.exchange.readings import reading_topic
from tests.cluster.simulation.fresh_state import number_of

if TYPE_CHECKING:
    from tests.cluster.simulation.hosts import Host
    from tests.cluster.simulation.world import World

TOPICS = ["a.x", "a.y", "b.x", "b.y.z", "c"]
PATTERNS = ["a.*", "a.x", "b.>", "*.x", ">", "c", "b.y.z"]
PRODUCERS = [f"2f1c0a52-6d0f-4c8e-9a5e-{number:012}" for number in range(3)]
KEYS = ["Room", "Floor", "Kind"]
READINGS = reading_topic("")
LASTS = (Last.NONE, Last.RETAINED, Last.ALL)
MOST_CONSUMERS = 12
"""Of one node."""
DESCRIBE, HANG_UP, FORGET = 0.03, 0.01, 0.005
"""How often it is a producer of which something is said."""
RETAIN, REMOVE = 0.15, 0.2
"""How often a message is to be retained, and how often it removes instead, where fresh state is played."""


class Ear:
    """A consumer's connection, as an outlet that writes down what it hears."""

    echo = True

    def __init__(self, host: Host, name: int, pattern: str, group: str, last: Last = Last.NONE) -> None:
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
        """Live messages."""
        self.last = last
        self.story: list[tuple[float, int, bool]] = []
        """The same and the last values among them: True."""
        self.lives = host.world.lives()
        """Of the nodes that were up when it asked."""
        self.consumer: Consumer | None = None

    def has_room(self, weight: int) -> bool:
        return weight <= self.room

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        consumer.accepted += 1
        if publication.topic != FORGOTTEN and not publication.topic.startswith(READINGS):
            number, is_last = number_of(publication), publication.age is not None
            self.story.append((self.host.world.now, number, is_last))
            if not is_last:
                self.heard.append((self.host.world.now, number))


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
        topic = random.choice(TOPICS)
        retain = world.has_fresh_state and random.random() < RETAIN
        host.publish(topic, retain, retain and random.random() < REMOVE)
    elif chance < 1 - world.churn / 3 or not host.ears:
        if len(host.ears) < MOST_CONSUMERS:
            pattern, group = random.choice(PATTERNS), random.choice(["", "", "g", "h", "k@topic"])
            host.subscribe(pattern, group, random.choice(LASTS) if world.has_fresh_state else Last.NONE)
    else:
        host.unsubscribe(random.choice(host.ears))


def ask_for_last(world: World) -> None:
    """On each node that is up new consumers ask for last values, by every pattern."""
    for host in world.running:
        if host.is_up:
            for last in (Last.RETAINED, Last.ALL):
                for pattern in PATTERNS:
                    host.subscribe(pattern, "", last)
