"""Q3 between nodes: a client id belongs to one connection of the cluster, and the later CONNECT has it."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import pytest

from fumarole.cluster.client_ids import ClusterClientIds
from fumarole.exchange.client_ids import ClientClaim, Verdict
from fumarole.exchange.permissions import User
from fumarole.fastpath.hot_path import PLAIN
from fumarole.protocols.cluster_protocol import ClaimedId, ClientsAnswered, ClientsClaimed, Frame
from fumarole.protocols.mqtt_packets import V3, V5, ConnAck, Disconnect, Will
from fumarole.protocols.mqtt_reasons import Reason
from fumarole.sessions.mqtt_clients import Clients, clients_of
from tests.desk import Desk, MqttClient

BOTH = pytest.mark.parametrize("version", [V3, V5])


class Place(Desk):
    """A node, and the ordered connections to it: what is said waits until it is heard."""

    def __init__(self, name: str, places: dict[str, Place]) -> None:
        super().__init__(PLAIN)
        self.name = name
        self.node.namespaces.clock.node = name
        self.places = places
        self.waiting: dict[str, deque[Frame]] = {}
        self.ids = ClusterClientIds(self.node.client_ids, self.peers)  # type: ignore[arg-type]
        clients_of(self.node)
        places[name] = self

    def peers(self) -> list[Wire]:
        return [Wire(self, place) for place in self.places.values() if place is not self]

    def hear(self, name: str) -> bool:
        """The next thing that this node has said. False: there is none."""
        if not self.waiting.get(name):
            return False
        said = self.waiting[name].popleft()
        if isinstance(said, ClientsClaimed):
            self.ids.claimed(Wire(self, self.places[name]), said)  # type: ignore[arg-type]
        elif isinstance(said, ClientsAnswered):
            self.ids.answered(name, said)
        return True

    def connect_mqtt(self, client_id: str, user: str = "", **more: Any) -> Caller:
        caller = Caller(self, more.pop("version", V5), connects=False)
        caller.session._user = User(user, "default") if user else None
        caller.connect(client_id, **more)
        return caller


class Wire:
    """One node as another sees it."""

    leaving = False

    def __init__(self, here: Place, there: Place) -> None:
        self.here, self.there, self.name = here, there, there.name

    def is_linked(self) -> bool:
        return True

    def say(self, frame: Frame) -> None:
        self.there.waiting.setdefault(self.here.name, deque()).append(frame)


class Caller(MqttClient):
    """Its pump is told when the session goes on."""

    goes_on = 0

    def admitted(self) -> None:
        self.goes_on += 1


def settle(places: dict[str, Place], chance: Random | None = None) -> None:
    """Everything that was said is heard, in any order between nodes."""
    chance = chance or Random(0)
    while any(waiting for place in places.values() for waiting in place.waiting.values()):
        place = chance.choice(list(places.values()))
        place.hear(chance.choice(list(places)))


@pytest.fixture
def places() -> dict[str, Place]:
    places: dict[str, Place] = {}
    for name in "abc":
        Place(name, places)
    return places


@BOTH
def test_the_later_connect_has_it(places: dict[str, Place], version: int) -> None:
    first = places["a"].connect_mqtt("atka-7", version=version)
    assert first.connack is None  # not before all nodes have answered
    settle(places)
    assert isinstance(first.hears()[0], ConnAck)
    assert first.goes_on == 1
    second = places["b"].connect_mqtt("atka-7", version=version)
    settle(places)
    assert isinstance(second.hears()[0], ConnAck)
    assert first.session.close_expected()
    assert not second.session.close_expected()
    if version == V5:
        (told,) = first.hears()
        assert isinstance(told, Disconnect)
        assert told.reason == Reason.TAKEN_OVER
    assert [len(clients_of(place.node)) for place in places.values()] == [0, 1, 0]


@BOTH
def test_one_that_another_user_has_is_refused(places: dict[str, Place], version: int) -> None:
    first = places["a"].connect_mqtt("atka-7", "ada", version=version)
    settle(places)
    first.hears()
    second = places["b"].connect_mqtt("atka-7", "grace", version=version)
    settle(places)
    (refused,) = second.hears()
    assert isinstance(refused, ConnAck)
    assert refused.reason == (Reason.CLIENT_ID if version == V5 else 2)
    assert not first.session.close_expected()
    assert second.session.close_expected()


def test_what_follows_the_connect_waits(places: dict[str, Place]) -> None:
    client = places["a"].connect_mqtt("atka-7")
    assert client.publish("a", b"1", qos=1) == []
    settle(places)
    connack, puback = client.hears()
    assert isinstance(connack, ConnAck)
    assert puback.packet_id == 1


def test_a_node_that_is_gone_is_not_waited_for(places: dict[str, Place]) -> None:
    client = places["a"].connect_mqtt("atka-7")
    places["a"].hear("b")
    places["b"].hear("a")
    places["a"].hear("b")
    assert client.hears() == []
    places["a"].ids.evict("c")
    assert isinstance(client.hears()[0], ConnAck)
    places["a"].ids.evict("c")
    assert client.goes_on == 1


def test_a_connection_that_is_gone_meanwhile(places: dict[str, Place]) -> None:
    client = places["a"].connect_mqtt("atka-7")
    client.session.close()
    settle(places)
    assert client.hears() == []
    assert len(clients_of(places["a"].node)) == 0


def test_nodes_that_meet(places: dict[str, Place]) -> None:
    """Both sides of a partition let a client in with the same id: the later one stays."""
    first, second = places["a"].connect_mqtt("atka-7"), places["b"].connect_mqtt("atka-7")
    for place in places.values():
        for peer in "abc":
            place.ids.evict(peer)
        place.waiting.clear()
    assert not first.session.close_expected()
    for place in places.values():
        for frame in place.ids.everything():
            for wire in place.peers():
                wire.say(frame)
    settle(places)
    assert first.session.close_expected()
    assert not second.session.close_expected()


def test_a_delayed_will_is_cancelled_by_a_return_to_another_node(places: dict[str, Place]) -> None:
    will = Will("gone", b"", 0, False, {0x18: 5})
    first = places["a"].connect_mqtt("atka-7", will=will, session_expiry=60)
    settle(places)
    first.session.close()
    places["b"].connect_mqtt("atka-7")
    settle(places)
    clients = clients_of(places["a"].node)
    clients.tick(first.session.now + 100)
    assert clients.wills == 0


@pytest.mark.parametrize("seed", range(30))
def test_one_is_left_in_the_end(places: dict[str, Place], seed: int) -> None:
    """Connections at all nodes with few ids, while what nodes say to each other is on its way."""
    chance = Random(seed)
    callers: dict[str, list[Caller]] = {"x": [], "y": []}
    for _ in range(30):
        client_id = chance.choice("xy")
        callers[client_id].append(chance.choice(list(places.values())).connect_mqtt(client_id))
        for _ in range(chance.randrange(4)):
            chance.choice(list(places.values())).hear(chance.choice("abc"))
    settle(places, chance)
    for client_id, each in callers.items():
        left = [caller for caller in each if not caller.session.close_expected()]
        assert len(left) == (1 if each else 0), client_id
        assert sum(place_has(place, client_id) for place in places.values()) == len(left)
        assert all(isinstance(caller.hears()[0], ConnAck) for caller in left)


def place_has(place: Place, client_id: str) -> bool:
    clients = place.node.client_ids.holder
    assert isinstance(clients, Clients)
    return clients.get(("default", client_id)) is not None


def test_a_claim_of_a_clock_that_is_ahead(places: dict[str, Place]) -> None:
    """It is learned from, so that the next CONNECT here is later."""
    settle(places)
    places["a"].connect_mqtt("atka-7")
    settle(places)
    ahead = ClaimedId("default", "atka-7", None, 30_000_000)
    places["a"].ids.claimed(Wire(places["a"], places["b"]), ClientsClaimed(7, (ahead,)))  # type: ignore[arg-type]
    assert places["b"].waiting["a"].pop() == ClientsAnswered(7, Verdict.GRANTED)
    client = places["a"].connect_mqtt("atka-7")
    assert client.session.claim_time > 30_000_000


def test_no_session_yet() -> None:
    """A node whose MQTT door had no client has no ids."""
    desk = Desk(PLAIN)
    assert desk.node.client_ids.claimed(ClientClaim("default", "a", None, 1), "b") is Verdict.GRANTED
    assert list(desk.node.client_ids.claims()) == []
