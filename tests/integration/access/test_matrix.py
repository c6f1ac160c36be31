"""Permissions hold on every path (A3, A4): each way through each door, under each form of rules, at the node that took
the message and at another.

The ways are in receiving.py, asking.py, publishing.py and linking.py. A part of a door that no way goes through fails a test, so
that whoever adds one adds the way as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest

from fumarole.core.pattern_options import Options
from fumarole.doors import registry
from fumarole.protocols import mqtt_packets, nats
from fumarole.sessions import msgpack
from fumarole.sessions.http.api import ROUTES
from fumarole.sessions.kubemq_calls import METHODS
from fumarole.sessions.services import SERVICES
from tests.integration.access import asking, linking, publishing, receiving
from tests.integration.access.desks import RULES, Stage, two_nodes
from tests.integration.access.paths import PATHS, Path
from tests.ports import free_port

MADE_BY = (receiving, asking, publishing, linking)
"""Importing them fills the matrix."""
NO_MESSAGES = {
    "nats:Unsubscribe": "ends a subscription of its own",
    "nats:Info": "said by the server",
    "nats:Message": "said by the server",
    "nats:Okay": "said by the server",
    "nats:Refusal": "said by the server",
    "mqtt:Unsubscribe": "ends a subscription of its own",
    "mqtt:ConnAck": "said by the server",
    "mqtt:Acknowledged": "said by the server",
    "mqtt:Pong": "said by the server",
    "mqtt:Disconnect": "ends the connection",
    "mqtt:Auth": "refused",
    "http:GET /v1/copies": "the caller's own text in other languages",
    "http:POST /v1/session": "the caller's own name",
    "http:GET /v1/session": "the caller's own name",
    "http:DELETE /v1/session": "the caller's own cookie",
    "http:GET /metrics": "sums for any user (H5)",
    "http:GET /healthz": "the loop answers",
    "http:GET /readyz": "the doors are open",
}
"""Parts of doors that carry neither messages nor producers, and why."""


def parts() -> set[str]:
    """Whatever a client can say to a door."""
    return {
        *(f"door:{name}" for name in registry.DOORS),
        *(f"service:{name.removeprefix('$FUM.')}" for name in SERVICES),
        *(f"http:{route.method} {route.path}" for route in ROUTES),
        *(f"kubemq:{name}" for name in METHODS),
        *(f"nats:{kind.__name__}" for kind in get_args(nats.Operation)),
        *(f"mqtt:{kind.__name__}" for kind in get_args(mqtt_packets.Operation)),
        *(f"msgpack:{key}" for key in msgpack.SUBSCRIPTION | msgpack.READING | msgpack.CLAIM | msgpack.FORGET),
        *(f"option:{name}" for name in Options._fields),
        "bridge:to the namespace",
        "bridge:from the namespace",
    }


def test_every_part_of_a_door_is_in_the_matrix() -> None:
    covered = {part for each in PATHS for part in each.covers} | set(NO_MESSAGES)
    beside = {"msgpack:array", "topic:_FORGOTTEN"}
    assert parts() - covered == set(), (
        "a path that no cell of the matrix goes through: add it to tests/integration/access"
    )
    assert covered - parts() - beside == set(), "there is no such part of a door any more"
    assert len({each.name for each in PATHS}) == len(PATHS)


@pytest.fixture(scope="module", params=["compiled", "plain"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folders = (tmp_path_factory.mktemp("node") for _ in range(2))
    nodes = two_nodes(folders, free_port(), free_port(), request.param)
    made = Stage(nodes, tmp_path_factory.mktemp("rabbitmq"))
    yield made
    made.close()
    for node in reversed(nodes):
        node.stop()


@pytest.mark.parametrize("node", [0, 1], ids=["same node", "other node"])
@pytest.mark.parametrize("way", PATHS, ids=lambda each: str(each.name))
def test_rules(stage: Stage, way: Path, node: int) -> None:
    """Rules change what a user hears, and nothing else does."""
    heard: dict[str, Any] = {}
    for rule in RULES:
        heard[rule] = way.hears(stage, stage.nodes[node], rule, stage.number())
    allowed = {name for name in way.everything if name.startswith("open")}
    assert heard == {rule: (set(way.everything) if rule == "none" else allowed) for rule in RULES}
