"""The MQTT door of three nodes: retained messages, groups and client ids are the cluster's, and outlive a node (Q3, G2)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

import pytest

from fumarole.protocols.mqtt_packets import Acknowledged, ConnAck, Disconnect, Publish, Will
from fumarole.protocols.mqtt_reasons import Reason
from tests.integration.cluster.nodes import NodeProcess, Nodes, running
from tests.integration.mqtt.raw_mqtt import PATIENCE, Raw

MESSAGES = 40


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with running(tmp_path, 3, flags=("--mqtt", "127.0.0.1:0")) as three:
        wait_for(lambda: all(states(node) == ["live"] * 2 for node in three.nodes), "the nodes do not find each other")
        yield three


def port(node: NodeProcess) -> int:
    return int((node.log.parent / "ready").read_text().split()[1].rpartition(":")[2])


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def states(node: NodeProcess) -> list[str]:
    """Of the others, as this node sees them."""
    return [peer["state"] for peer in node.ask("cluster")["peers"]]


def numbers_heard(members: list[Raw]) -> list[list[int]]:
    """What each gets, until all numbers have come to any of them."""
    heard: list[list[int]] = [[] for _ in members]

    def listen() -> bool:
        for member, numbers in zip(members, heard, strict=True):
            member.settle()
            numbers += [int(event.payload) for event in member.heard() if isinstance(event, Publish)]
        return sum(map(len, heard)) >= MESSAGES

    wait_for(listen, "messages of a group are missing")
    return heard


def test_a_cluster_goes_on_without_a_node_that_is_killed(nodes: Nodes) -> None:
    with ExitStack() as stack:
        first, second, third = [
            stack.enter_context(Raw(port(node), f"member-{number}")) for number, node in enumerate(nodes.nodes)
        ]
        # One client id, two nodes: the later CONNECT has it.
        older = stack.enter_context(Raw(port(nodes[2]), "atka-7", Will("gone/atka-7", b"", 0, False, {})))
        newer = stack.enter_context(Raw(port(nodes[0]), "atka-7"))
        assert isinstance(newer.connack, ConnAck)
        ended = older.hear()
        assert isinstance(ended, Disconnect)
        assert ended.reason == Reason.TAKEN_OVER

        # A group of MQTT clients of three nodes, and what is retained at one of them.
        for member in (first, second, third):
            assert isinstance(member.subscribe("$share/recorders/volcanoes/#"), Acknowledged)
        third.publish("state/atka", b"erupting", retain=True)
        third.settle()
        for number in range(MESSAGES):
            newer.publish("volcanoes/usa/atka", b"%d" % number)
        newer.settle()
        heard = numbers_heard([first, second, third])
        assert all(heard)
        assert sorted(chain(*heard)) == list(range(MESSAGES))

        nodes[2].kill()
        # It hung up, so its members are out of the group at once; each message finds one of the others.
        with pytest.raises((EOFError, ConnectionResetError)):
            third.hear()
        wait_for(lambda: states(nodes[0]) == ["live"], "the node that was killed is still there")
        for number in range(MESSAGES):
            newer.publish("volcanoes/usa/atka", b"%d" % number)
        newer.settle()
        heard = numbers_heard([first, second])
        assert all(heard)
        assert sorted(chain(*heard)) == list(range(MESSAGES))

        # What was retained there is still known here, by wildcard.
        second.subscribe("state/+")
        kept = second.hear()
        assert isinstance(kept, Publish)
        assert (kept.topic, kept.payload, kept.retain) == ("state/atka", b"erupting", True)
