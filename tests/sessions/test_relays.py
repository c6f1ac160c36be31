"""Topics on which the node publishes answers that go on. Most of it is tested with the services that make them."""

import json

import pytest

from fumarole.exchange.permissions import Permissions, User
from fumarole.fastpath.hot_path import HotPath
from tests.desk import Client, Desk


@pytest.mark.parametrize("service", ["where", "view"])
def test_rules_that_change_end_the_relays_of_the_user(hot_path: HotPath, service: str) -> None:
    """A7: a relay has the permissions of the time when it was asked for."""
    desk = Desk(hot_path, authentication=True)
    others, client = admitted(desk, "bob"), admitted(desk, "ann")
    kept, ended = (relay_topic(each, service) for each in (others, client))
    assert [relay.topic for relay in desk.node.relays] == [kept, ended]
    client.session.renew(User("ann", "default", None, Permissions((">",), ("secret.>",))))
    assert [relay.topic for relay in desk.node.relays] == [kept]
    others.session.close()
    client.session.close()
    desk.node.tick(desk.now + 11)
    assert desk.node.relays == []
    assert desk.node.relays_of == {}


def admitted(desk: Desk, name: str) -> Client:
    client = Client(desk)
    client.say(f'CONNECT {{"user":"{name}","pass":"x","verbose":false}}\r\n')
    client.session.admit(User(name, "default"))
    client.hears()
    return client


def relay_topic(client: Client, service: str) -> str:
    """The topic of a relay that the client asks for and subscribes to."""
    asked = {"where": "HAS Kind", "view": "select Kind where HAS Kind"}[service]
    said = client.asks(f"SUB answers 1\r\nPUB $FUM.{service} answers {len(asked)}\r\n{asked}\r\n")
    topic: str = json.loads(said.split(b"\r\n")[1])["topic"]
    client.say(f"SUB {topic} 2\r\n")
    return topic
