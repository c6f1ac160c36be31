"""Every node answers for all, and `?node=` for one (H4): three nodes in this process, with the web door of each."""

from __future__ import annotations

import pytest

from fumarole.fastpath.hot_path import PLAIN
from fumarole.sessions.http.status import added_up
from tests.cluster.simulation import World
from tests.desk import Desk
from tests.sessions.http.web import Answer, Web, answer


class Nodes:
    """Three nodes of a simulated network, each with a web door."""

    def __init__(self) -> None:
        self.world = World(7, 3, PLAIN)
        self.world.start()
        self.webs = [Web(self._desk(name)) for name in self.world.names]
        for number, host in enumerate(self.world.hosts.values()):
            host.cluster.open_doors((f"http://127.0.0.1:{8000 + number}",))
        self.world.run(0.5)

    def _desk(self, name: str) -> Desk:
        desk = Desk(PLAIN)
        desk.node, desk.now = self.world.hosts[name].node, self.world.hosts[name].now()
        desk.node.cluster = self.world.hosts[name].cluster
        return desk

    def asks(self, number: int, method: str, target: str, body: str = "") -> Answer:
        browser = self.webs[number].connect().sends(method, target, body)
        said = browser.hears()
        if not said:  # other nodes are asked first
            self.world.run(0.1)
            said = browser.hears()
        return answer(said)


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


def test_the_numbers_of_all_nodes_and_of_one(nodes: Nodes) -> None:
    for number, count in enumerate((1, 2, 4)):
        for _ in range(count):
            assert nodes.asks(number, "POST", "/v1/topics/a", "x").status == 202
    assert nodes.asks(0, "POST", "/v1/topics/b%20c", "x").status == 400
    nodes.world.run(2.5)
    for number, name in enumerate(nodes.world.names):
        told = nodes.asks(number, "GET", "/v1/stats").json()
        assert told["node"] == name
        assert (told["received"], told["dropped"]["no consumer"], told["dropped"]["refused"]) == (7, 7, 1)
        assert {each["node"]: each["received"] for each in told["nodes"]} == {"n0": 1, "n1": 2, "n2": 4}
        mine = nodes.asks(number, "GET", f"/v1/stats?node={name}").json()
        assert (mine["node"], mine["received"]) == (name, (1, 2, 4)[number])
        assert "nodes" not in mine


def test_a_node_that_leaves_takes_its_numbers_along(nodes: Nodes) -> None:
    nodes.asks(2, "POST", "/v1/topics/a", "x")
    nodes.world.run(2.5)
    nodes.world.hosts["n2"].kill()
    nodes.world.run(5.0)
    told = nodes.asks(0, "GET", "/v1/stats").json()
    assert (told["received"], [each["node"] for each in told["nodes"]]) == (0, ["n0", "n1"])


@pytest.mark.parametrize("path", ["/v1/stats", "/v1/connections", "/v1/producers", "/v1/topics/a.>"])
def test_what_another_node_knows_it_says_itself(path: str, nodes: Nodes) -> None:
    said = nodes.asks(0, "GET", f"{path}?node=n1&namespace=default")
    address = next(each for each in (nodes.world.hosts["n0"].cluster.web_address("n1"),) if each)
    assert address.endswith(":8001")
    assert (said.status, said.fields["location"]) == (307, f"{address}{path}?node=n1&namespace=default")
    assert nodes.asks(1, "GET", f"{path}?node=n1").status == 200
    assert nodes.asks(0, "GET", f"{path}?node=nobody").status == 404


def test_last_values_of_one_node(nodes: Nodes) -> None:
    """Of a producer the node that heard it has the last reading."""
    producer = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
    browser = nodes.webs[1].connect()
    assert browser.asks("POST", "/v1/topics/a", "21.5", Fumarole_Producer=producer).status == 202
    nodes.world.run(1.0)
    assert nodes.asks(0, "GET", f"/v1/producers/{producer}").json()["value"] == 21.5
    assert "value" not in nodes.asks(0, "GET", f"/v1/producers/{producer}?node=n0").json()
    assert nodes.asks(1, "GET", f"/v1/producers/{producer}?node=n1").json()["value"] == 21.5


def test_without_a_cluster_there_is_one_node() -> None:
    web = Web(Desk(PLAIN))
    assert web.asks("GET", "/v1/stats?node=desk").json()["node"] == "desk"
    assert web.asks("GET", "/v1/stats?node=other").status == 404


def test_numbers_of_different_nodes_are_added_by_name() -> None:
    first = {"a": 1, "dropped": {"x": 1}}
    assert added_up(first, {"a": 2, "b": 3, "dropped": {"x": 4, "y": 5}}) == {
        "a": 3,
        "b": 3,
        "dropped": {"x": 5, "y": 5},
    }
    assert first == {"a": 1, "dropped": {"x": 1}}
