"""What comes over a link, from a peer that is what it says, and from one that has the secret and sends nonsense."""

from __future__ import annotations

from typing import Any

import pytest

from fumarole.core.publication import Publication
from fumarole.fastpath.engine import PLAIN, compiled
from tests.cluster.simulation import World
from tests.cluster.simulation.hosts import Host
from tests.exchange.fakes import Listener

ENGINES = pytest.mark.parametrize("engine", [PLAIN, compiled()], ids=["plain", "compiled"])


def two_nodes(engine: Any) -> tuple[World, Host, Host]:
    world = World(1, 2, engine)
    world.start()
    return world, *world.running


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
