"""C2 on real nodes: subscribe on one, flush, publish at once on another. Never lost, however often."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.cluster.clients import Client
from tests.integration.cluster.nodes import Nodes, running

TIMES = 3_000
"""`make soak` does it 10,000 times."""


@pytest.fixture(scope="module", params=[False, True], ids=["compiled", "plain"])
def nodes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("cluster"), 3, pure=request.param) as started:
        yield started


Connect = Callable[..., Client]


@pytest.fixture
def connect(nodes: Nodes) -> Iterator[Connect]:
    """A client of one of the nodes, by its number."""
    made: list[Client] = []

    def to(number: int, **options: Any) -> Client:
        made.append(Client(nodes[number].host, nodes[number].port, **options))
        return made[-1]

    yield to
    for client in made:
        client.close()


def subscribe_flush_publish(nodes: Nodes, times: int) -> None:
    """Alone and in a group, on each node in turn; the next node publishes. Any message that is lost never comes."""
    clients = [Client(node.host, node.port) for node in nodes.nodes]
    for number in range(times):
        consumer, publisher = clients[number % 3], clients[(number + 1) % 3]
        group = b" sharing" if number % 2 else b""
        consumer.say(b"SUB loop.%d%b %d\r\n" % (number, group, number))
        consumer.flush()
        publisher.say(b"PUB loop.%d 2\r\nhi\r\n" % number)
        consumer.hear_until(b"MSG loop.%d %d 2\r\nhi\r\n" % (number, number))
        consumer.say(b"UNSUB %d\r\n" % number)
    for client in clients:
        client.close()


def test_never_lost(nodes: Nodes) -> None:
    subscribe_flush_publish(nodes, TIMES)


def test_a_leave_is_confirmed_too(connect: Connect) -> None:
    consumer, publisher = (connect(number, no_responders=True) for number in (0, 1))
    publisher.say(b"SUB inbox 1\r\n")
    publisher.flush()
    for number in range(50):
        consumer.say(b"SUB ask %d\r\n" % number)
        consumer.flush()
        consumer.say(b"UNSUB %d\r\n" % number)
        consumer.flush()
        publisher.say(b"PUB ask inbox 0\r\n\r\n")  # R1: no consumer of the cluster can hear it, and it is said at once
        assert b" 503" in publisher.hear_until(b"\r\n\r\n")


def test_a_request_is_answered_from_another_node(connect: Connect) -> None:
    asking, answering = connect(1), connect(2)
    answering.say(b"SUB time.utc clocks 1\r\n")
    answering.flush()
    for number in range(50):
        # Not flushed: the subscription of the inbox goes before the request, on the same way.
        asking.say(b"SUB inbox.%d %d\r\nPUB time.utc inbox.%d 2\r\nhi\r\n" % (number, number, number))
        answering.hear_until(b"MSG time.utc 1 inbox.%d 2\r\nhi\r\n" % number)
        answering.say(b"PUB inbox.%d 4\r\nnoon\r\n" % number)
        asking.hear_until(b"MSG inbox.%d %d 4\r\nnoon\r\n" % (number, number))


def test_clients_hear_of_all_nodes(nodes: Nodes, connect: Connect) -> None:
    info = connect(0).info
    assert set(info["connect_urls"]) == {f"{node.host}:{node.port}" for node in nodes.nodes}
    assert info["cluster"] == "fumarole"


def test_namespaces_are_kept_apart_across_nodes(connect: Connect) -> None:
    here, there, stranger = connect(0, user="lab"), connect(1, user="lab"), connect(1, user="field")
    for client in (there, stranger):
        client.say(b"SUB a.> 1\r\n")
        client.flush()
    here.say(b"PUB a.b 2\r\nhi\r\n")
    there.hear_until(b"MSG a.b 1 2\r\nhi\r\n")
    assert stranger.flush() == b""
