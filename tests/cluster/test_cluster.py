"""What is pure about a cluster, piece by piece."""

from functools import partial
from random import Random
from typing import ClassVar

import pytest

from fumarole.cluster.contacts import seen_from_here
from fumarole.cluster.registry import GROWTH, Others, Own
from fumarole.core.limits import DEEPEST_QUERY, KIB, Limits
from fumarole.core.query.parse import parse
from fumarole.core.query.tree import show
from fumarole.exchange.namespaces import Namespaces
from fumarole.exchange.permissions import Permissions
from fumarole.fastpath.hot_path import PLAIN
from fumarole.protocols.cluster_protocol import Entry
from tests.cluster.simulation import World
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
    namespaces, ear, warnings = Namespaces(allowed=frozenset({"lab"})), Listener("peer"), list[str]()
    others = Others(namespaces, Limits(), ear, lambda text, *details: warnings.append(text % details))
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
    unheard = "a consumer of node 'peer' makes no sense here, and gets nothing that is published here:"
    assert [warning.partition(unheard)[2][:9] for warning in warnings] == [" '`>` mus", " 'found t"] * 2
    exchange = namespaces.get("lab")
    assert exchange is not None
    assert (len(exchange), exchange.elsewhere, exchange.queried_elsewhere) == (0, 2, 1)
    plan = exchange.plan("a.b")
    assert (len(plan.consumers), len(plan.couriers), [len(share[1]) for share in plan.groups]) == (0, 1, [2])
    others.apply(Entry("lab", "a.*", "g", 5))
    assert [len(members) for _, members, _ in exchange.plan("a.b").groups] == [5]
    for entry in entries:
        others.apply(Entry(entry.namespace, entry.pattern, entry.group, 0, entry.query, entry.allow, entry.deny))
    assert (len(others), others.consumers) == (0, 0)
    assert [each.name for each in namespaces] == ["default"]


def test_what_makes_no_sense_makes_no_namespace() -> None:
    namespaces = Namespaces()
    others = Others(namespaces, Limits(), Listener("peer"))
    for number, (pattern, query, deny) in enumerate([("a.>.b", "", ()), ("a", "Kind =", ()), ("a", "", ("a.>.b",))]):
        others.apply(Entry(f"lab-{number}", pattern, "", 1, query, None, deny))
    assert [each.name for each in namespaces] == ["default"]


SHORT_NUMBERS = ",".join(f"{digit}e18" for digit in range(1, 10))
WRITTEN = Limits(query_depth=DEEPEST_QUERY, query_tests=600, query_pattern=4 * KIB, query_regexes=20)
"""Those of the node where the client is. The other has the usual ones."""
LARGE = {
    "a decimal beyond 64 bits": "a < 1e20",
    "the largest decimals": "a NOT IN (1.7976931348623157e308, -1e308) OR a BETWEEN -1e300 AND 1e300",
    "as many tests as there may be, each of which becomes two": " OR ".join(
        f"a{number} BETWEEN 1 AND 2" for number in range(500)
    ),
    "more tests than are allowed here": " OR ".join(f"a{number} > 1" for number in range(600)),
    "lists that become one": f"a IN ({','.join(map(str, range(900)))}) OR a IN ({','.join(map(str, range(900, 1800)))})",
    "a key as long as a query, twice": f"`{'k' * (16 * KIB - 20)}` BETWEEN 1 AND 2",
    "numbers of four letters that become one of nineteen": " OR ".join(
        f"a{number} IN({SHORT_NUMBERS})" for number in range(270)
    ),
    "quotes that are doubled": "a=" + '"' + "'" * (16 * KIB - 4) + '"',
    "as deep as can be, and a list": "a=1 AND (b=1 OR " * DEEPEST_QUERY + "a!=1 AND a!=2" + ")" * DEEPEST_QUERY,
    "longer patterns than are allowed here": f"a LIKE '%{'x' * 2 * KIB}' OR a MATCHES '{'x' * 1200}'",
    "more expressions than are allowed here": " OR ".join(f"a MATCHES '{number}'" for number in range(20)),
}


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_a_query_that_one_node_has_taken_is_known_to_the_others(text: str) -> None:
    """C2, C6: it is told in its canonical form, which may be larger than what the client wrote."""
    here, own, there, warnings = Namespaces().join("lab"), Own(), Namespaces(), list[object]()
    others = Others(there, Limits(), Listener("peer"), lambda *warning: warnings.append(warning))
    asking = here.consumer(Listener(), ">", "g", b"1")
    here.subscribe(asking, parse(text, WRITTEN))
    assert asking.standing is not None
    others.apply(own.change(here, asking, 1))
    told = show(asking.standing.query)
    assert len(told.encode()) < GROWTH * len(text.encode())
    for count in (1, 3):
        others.apply(Entry("lab", ">", "g", count, told))
        assert (len(others), others.consumers, warnings) == (1, count, [])
        (known,) = others.members("lab", "g")
        assert known.standing is not None
        assert known.standing.query == asking.standing.query
    others.apply(Entry("lab", ">", "g", 0, told))
    assert (len(others), [each.name for each in there]) == (0, ["default"])


BEYOND = {
    "too long": f"a = '{'x' * GROWTH * 16 * KIB}'",
    "too deep": "(" * 5_000 + "a = 1" + ")" * 5_000,
    "denied too often": "NOT " * 5_000 + "a = 1",
}


@pytest.mark.parametrize("text", BEYOND.values(), ids=BEYOND)
def test_an_impossible_query_of_a_peer_is_warned_about(text: str) -> None:
    """A peer that has the secret may still send nonsense."""
    namespaces, warnings = Namespaces(), list[str]()
    others = Others(namespaces, Limits(), Listener(), lambda text, *details: warnings.append(text % details))
    others.apply(Entry("default", "a", "", 1, text))
    assert (len(others), len(warnings)) == (0, 1)
    assert len(warnings[0]) < 250


class Ticket(int):
    """One that counts how often it is looked at."""

    looks: ClassVar = 0

    def __lt__(self, other: int) -> bool:
        Ticket.looks += 1
        return int(self) < int(other)

    def __le__(self, other: int) -> bool:
        Ticket.looks += 1
        return int(self) <= int(other)

    def __eq__(self, other: object) -> bool:
        Ticket.looks += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_confirmations_come_in_turn_and_are_not_looked_at_again_and_again() -> None:
    """C2: tickets of different clients cross, some are waited for by several, and very many may wait at once."""
    world, waiting = World(1, 2, PLAIN), 2_000
    world.start()
    cluster = world.running[0].cluster
    (peer,) = cluster.peers.values()
    first = cluster.ticket() + 1
    world.cut |= {("n0", "n1"), ("n1", "n0")}
    for number in range(waiting):
        world.running[0].subscribe(f"a.{number}", "")
    tickets = [*range(first, first + waiting), *range(first, first + 10)]
    Random(1).shuffle(tickets)
    asked, told = [(ticket, number) for number, ticket in enumerate(tickets)], list[tuple[int, int]]()
    Ticket.looks = 0
    for each in asked:
        cluster.after(Ticket(each[0]), partial(told.append, each))
    for known in range(first, first + waiting):
        peer.known = known
        cluster.advance()
        assert told[-1][0] == known
    assert told == sorted(asked)
    assert Ticket.looks < 100 * waiting
