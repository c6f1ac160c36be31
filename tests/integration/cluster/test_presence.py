"""F5 on three real nodes: a client that moves, a node that is killed, and one that is started again."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cluster.nodes import Nodes, running
from tests.integration.cluster.test_metadata import Speaker, msgpack_port

GRACE = 0.5
ANNE, BEN, CLEO = (str(uuid.uuid4()) for _ in range(3))
NAMES = {ANNE: "anne", BEN: "ben", CLEO: "cleo"}


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    settings = tmp_path / "fumarole.toml"
    settings.write_text(f'[namespaces.default]\npresence_grace = "{GRACE}s"\n')
    with running(tmp_path, 3, flags=("--msgpack", "127.0.0.1:0", "--config", str(settings))) as three:
        yield three


def speak(nodes: Nodes, number: int, identity: str) -> Speaker:
    """A connection to this node that has spoken for the producer, and all nodes know it: the reading has come."""
    listener = Speaker(msgpack_port(nodes, 0))
    listener.say("Kind = 'x'")
    listener.hear()
    speaker, value = Speaker(msgpack_port(nodes, number)), uuid.uuid4().int >> 80
    speaker.say([identity, {"Kind": "x", "Name": NAMES[identity]}, value])
    while not (isinstance(heard := listener.hear(), list) and heard[2] == value):
        pass
    listener.close()
    return speaker


class Viewer:
    """Sees on the first node who is online, and every change of it."""

    def __init__(self, nodes: Nodes) -> None:
        self._speaker = Speaker(msgpack_port(nodes, 0))
        self._speaker.say("select Name, _online where Kind = 'x'")
        self.now: set[tuple[str, bool]] = set()
        self.story: list[tuple[str, bool]] = []
        self._hear()

    def _hear(self) -> None:
        change = self._speaker.hear()
        self.now -= {tuple(entry) for entry in change["Del"]}
        self.now |= {tuple(entry) for entry in change["New"]}
        self.story += [(name, is_online) for name, is_online in change["New"]]

    def wait_for(self, name: str, is_online: bool) -> None:
        while (name, is_online) not in self.now:
            self._hear()

    def close(self) -> None:
        self._speaker.close()


def test_presence_on_three_nodes(nodes: Nodes) -> None:
    viewer = Viewer(nodes)
    first = speak(nodes, 1, ANNE)
    viewer.wait_for("anne", True)
    # Anne moves to another node, and Ben, who is closed after that, is told of when the grace of both is over.
    ben = speak(nodes, 1, BEN)
    viewer.wait_for("ben", True)
    second = speak(nodes, 2, ANNE)
    first.close()
    ben.close()
    viewer.wait_for("ben", False)
    assert viewer.story == [("anne", True), ("ben", True), ("ben", False)]
    # Anne's node is killed. She is at another too by then, and Cleo is not.
    cleo = speak(nodes, 2, CLEO)
    viewer.wait_for("cleo", True)
    third = speak(nodes, 1, ANNE)
    nodes[2].kill()
    viewer.wait_for("cleo", False)
    assert viewer.story[3:] == [("cleo", True), ("cleo", False)]
    # The node is started again: nobody is online there until they speak.
    nodes[2].start()
    again = speak(nodes, 2, CLEO)
    viewer.wait_for("cleo", True)
    third.close()
    viewer.wait_for("anne", False)
    assert viewer.story[5:] == [("cleo", True), ("anne", False)]
    for speaker in (second, cleo, again):
        speaker.close()
    viewer.close()
