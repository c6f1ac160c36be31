"""What comes over a link, from a peer that is what it says, and from one that has the secret and sends nonsense."""

from __future__ import annotations

from typing import Any

import pytest

from fumarole.core.publication import Publication
from fumarole.core.query.parse import parse
from fumarole.exchange.producers import Reading
from fumarole.fastpath.engine import PLAIN, compiled
from tests.cluster.simulation import World
from tests.cluster.simulation.hosts import Host
from tests.exchange.fakes import Listener

ENGINES = pytest.mark.parametrize("engine", [PLAIN, compiled()], ids=["plain", "compiled"])


def two_nodes(engine: Any) -> tuple[World, Host, Host]:
    world = World(1, 2, engine)
    world.start()
    return world, world.running[0], world.running[1]


def publish(host: Host, namespace: str, topic: str) -> None:
    exchange = host.node.namespaces.get(namespace)
    assert exchange is not None
    exchange.publish(exchange.plans().find(topic.encode()), Publication(topic, b"hi"))
    host.flush()


@ENGINES
def test_a_namespace_that_was_gone_is_found_again(engine: Any) -> None:
    """A message may come when the last client of its namespace has just left. Those who come later get theirs."""
    world, here, there = two_nodes(engine)
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


@ENGINES
def test_a_message_for_very_many_groups_is_one_like_others(engine: Any) -> None:
    """Its first line names all of them: clients who choose many and long names must not break a link."""
    world, here, there = two_nodes(engine)
    exchange, ears = there.node.namespaces.join("default"), [Listener() for _ in range(100)]
    for number, ear in enumerate(ears):
        exchange.subscribe(exchange.consumer(ear, "a", f"{number}-{'g' * 4000}", b"1"))
    there.flush()
    world.run(0.5)
    publish(here, "default", "a")
    world.run(0.5)
    assert [ear.heard for ear in ears] == [[(b"1", "a")]] * 100
    assert (here.cluster.lost, there.cluster.lost) == (0, 0)


@ENGINES
def test_a_snapshot_of_large_things_is_told_in_frames_that_fit(engine: Any) -> None:
    """Queries and metadata of the largest size, in letters of three bytes, and many of them."""
    world = World(1, 2, engine)
    here, there = world.running
    here.start([])
    exchange = here.node.namespaces.join("default")
    long = "火" * 5_000
    for number in range(600):
        exchange.subscribe(exchange.consumer(Listener(), f"a.{number}", "", b"1"), parse(f"Kind = '{number}{long}'"))
        identity = f"2f1c0a52-6d0f-4c8e-9a5e-{number:012}"
        exchange.producers.hear(Reading(identity, {"Kind": long}, 1), here.now())
    there.start([here.name])
    world.run(3.0)
    peer, known = there.cluster.peers[here.name], there.node.namespaces.get("default")
    assert known is not None
    assert (peer.is_settled(), peer.others.consumers, len(known.producers)) == (True, 600, 600)
