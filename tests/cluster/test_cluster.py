"""What is pure about a cluster, piece by piece."""

import pytest

from fumarole.cluster.contacts import seen_from_here
from fumarole.cluster.registry import Others, Own
from fumarole.core.limits import Limits
from fumarole.core.query.parse import parse
from fumarole.exchange.namespaces import Namespaces
from fumarole.exchange.permissions import Permissions
from fumarole.protocols.link import Entry
from tests.exchange.fakes import Listener


@pytest.mark.parametrize(
    ("said", "host", "address"),
    [
        pytest.param("10.0.0.1:6222", "10.9.9.9", "10.0.0.1:6222", id="as it says"),
        pytest.param("0.0.0.0:6222", "10.9.9.9", "10.9.9.9:6222", id="every address of v4"),
        pytest.param("[::]:6222", "fd00::1", "[fd00::1]:6222", id="every address of v6"),
        pytest.param("0.0.0.0:6222", "", "0.0.0.0:6222", id="nothing better is known"),
        pytest.param("", "10.9.9.9", "", id="nowhere"),
    ],
)
def test_where_a_node_is_reached(said: str, host: str, address: str) -> None:
    assert seen_from_here(said, host) == address


def test_own_consumers_that_are_alike_are_one_entry() -> None:
    namespaces, own, ear = Namespaces(), Own(), Listener()
    exchange = namespaces.join("lab")
    plain = [exchange.consumer(ear, "a.*", "g", b"1") for _ in range(2)]
    careful = exchange.consumer(ear, "a.*", "g", b"2", Permissions(("a.>",), ("a.no",)))
    asking = exchange.consumer(ear, ">", "", b"3")
    for consumer in (*plain, careful):
        exchange.subscribe(consumer)
        own.change(exchange, consumer, 1)
    exchange.subscribe(asking, parse("Kind = 'x'"))
    own.change(exchange, asking, 1)
    entries = [
        Entry("lab", "a.*", "g", 2),
        Entry("lab", "a.*", "g", 1, "", ("a.>",), ("a.no",)),
        Entry("lab", ">", "", 1, "Kind = 'x'"),
    ]
    assert (list(own), own.consumers) == (entries, 4)
    assert own.change(exchange, plain[0], -1) == Entry("lab", "a.*", "g", 1)
    assert own.change(exchange, plain[1], -1) == Entry("lab", "a.*", "g", 0)
    assert list(own) == entries[1:]


def test_what_a_peer_says_can_be_heard_twice_and_leaves_nothing_behind() -> None:
    namespaces, ear = Namespaces(allowed=frozenset({"lab"})), Listener("peer")
    others = Others(namespaces, Limits(), ear)
    entries = [
        Entry("lab", "a.*", "g", 2),
        Entry("lab", "a.b", "", 1),
        Entry("lab", ">", "", 1, "Kind = 'x'"),
        Entry("default", "a.no", "", 1, "", None, ("a.no",)),
        Entry("secret", "a", "", 1),  # a namespace that is not allowed here
        Entry("lab", "a.>.b", "", 1),  # no pattern
        Entry("lab", ">", "", 1, "Kind ="),  # no query
    ]
    for entry in (*entries, *entries):
        others.apply(entry)
    assert (len(others), others.consumers) == (4, 5)
    exchange = namespaces.get("lab")
    assert exchange is not None
    assert (len(exchange), exchange.elsewhere, exchange.watched_elsewhere) == (0, 2, 1)
    plan = exchange.plan("a.b")
    assert (len(plan.consumers), len(plan.couriers), [len(share[1]) for share in plan.groups]) == (0, 1, [2])
    others.apply(Entry("lab", "a.*", "g", 5))
    assert [len(members) for _, members, _ in exchange.plan("a.b").groups] == [5]
    for entry in entries:
        others.apply(Entry(entry.namespace, entry.pattern, entry.group, 0, entry.query, entry.allow, entry.deny))
    assert (len(others), others.consumers) == (0, 0)
    assert [each.name for each in namespaces] == ["default"]
