"""Quotas are counted where things come and go; over one, nothing changes and a sentence says why (A5, A10)."""

import random

import pytest

from fumarole.core.limits import Limits, NamespaceQuotas, Quotas
from fumarole.core.query.cost import price
from fumarole.core.query.parse import parse
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.namespaces import NamespaceRules, Namespaces
from fumarole.exchange.node import Node
from fumarole.exchange.permissions import User, is_loopback
from fumarole.exchange.producers import Producers
from fumarole.exchange.quotas import RESOURCES, Account, QuotaError, Resource, Usage, Watermark
from tests.exchange.fakes import Listener

ANN = User("ann", "lab", quota=Quotas(producers=2))


def identity(number: int) -> str:
    return f"{number:08}-0000-4000-8000-000000000000"


def test_up_to_the_quota_and_not_beyond() -> None:
    usage = Usage("namespace lab", Quotas(consumers=2))
    usage.take("consumers", 2)
    with pytest.raises(QuotaError, match="namespace lab may have 2 consumers, and has 2"):
        usage.take("consumers")
    usage.give_back("consumers")
    usage.take("consumers")
    assert usage.report()["refused"] == {"consumers": 1}


def test_an_account_takes_in_all_of_its_usages_or_in_none() -> None:
    one, other = Usage("one", Quotas()), Usage("other", Quotas(producers=1))
    account = Account(one, user=other)
    account.take("producers")
    with pytest.raises(QuotaError, match="other may have 1 producers"):
        account.take("producers")
    assert (one.used, other.used) == ({"producers": 1}, {"producers": 1})
    account.give_back("producers")
    assert (one.used, other.used) == ({}, {})


def test_random_amounts_leave_nothing_behind() -> None:
    rng, usage = random.Random(1), Usage("it", Quotas(retained_bytes=1_000))
    held: list[tuple[Resource, int]] = []
    for _ in range(2_000):
        what = rng.choice(RESOURCES)
        amount = rng.randrange(1, 400)
        try:
            usage.take(what, amount)
        except QuotaError:
            assert what == "retained_bytes"
            continue
        held.append((what, amount))
        if rng.random() < 0.5:
            usage.give_back(*held.pop(rng.randrange(len(held))))
        assert usage.used == {each: total for each in RESOURCES if (total := sum(n for w, n in held if w == each))}
    for each in held:
        usage.give_back(*each)
    assert usage.used == {}


def test_rates_are_of_a_second() -> None:
    usage = Usage("user ann", Quotas(messages_per_second=2, bytes_per_second=100))
    for _ in range(2):
        usage.check_rates(5.0)
        usage.publish(1, 10)
    with pytest.raises(QuotaError, match="user ann may publish 2 messages a second"):
        usage.check_rates(5.25)
    usage.check_rates(5.5)
    usage.publish(1, 500)
    with pytest.raises(QuotaError, match=r"100 \(bytes\) a second|100 bytes a second"):
        usage.check_rates(6.5)


def test_above_the_watermark_nothing_grows_and_what_is_there_goes_on() -> None:
    memory = Watermark()
    namespaces = Namespaces()
    namespaces.memory = memory
    usage = Usage("it", Quotas(), memory)
    usage.take("producers")
    memory.is_reached = True
    with pytest.raises(QuotaError, match="short of memory"):
        usage.take("producers")
    usage.take("metadata_bytes")
    usage.give_back("producers")
    with pytest.raises(QuotaError, match="short of memory"):
        namespaces.join("new")
    assert namespaces.join("default").connections == 1
    assert memory.refused == 2


def test_producers_and_their_metadata_are_counted_and_given_back() -> None:
    usage = Usage("namespace lab", Quotas(producers=3, metadata_bytes=30))
    producers = Producers(usage=usage)
    ann = Usage("user ann", ANN.quota)
    account = Account(usage, user=ann)
    producers.describe(identity(1), {"Room": "12345"}, 0.0)
    producers.describe(identity(2), {"Room": "1"}, 0.0, account)
    assert usage.used == {"producers": 2, "metadata_bytes": 14}
    assert ann.used == {"producers": 1, "metadata_bytes": 5}
    with pytest.raises(QuotaError, match="may have 30 metadata"):
        producers.describe(identity(2), {"Room": "x" * 20}, 0.0, account)
    assert producers.known[identity(2)].metadata == {"Room": "1", "_online": False}
    producers.describe(identity(2), {"Room": None}, 0.0, account)
    producers.describe(identity(3), {}, 0.0, account)
    with pytest.raises(QuotaError, match=r"user ann may have 2 producers|namespace lab may have 3"):
        producers.describe(identity(4), {}, 0.0, account)
    assert identity(4) not in producers.known
    producers.learn(identity(5), {"Room": "y"}, 0.0)  # another node has taken it
    for number in (1, 2, 3, 5):
        producers.forget(identity(number))
    assert (usage.used, ann.used) == ({}, {})


def test_a_namespace_has_its_own_quota_or_that_of_all() -> None:
    limits = Limits(quota=NamespaceQuotas(consumers=5))
    namespaces = Namespaces(limits, {"plant": NamespaceRules(quota=Quotas(consumers=7))})
    assert namespaces.join("plant").usage.quotas.consumers == 7
    lab = namespaces.join("lab").usage.quotas
    assert (lab.consumers, lab.producers) == (5, 1_000_000)


def test_namespaces_are_bounded_and_those_that_end_make_room() -> None:
    namespaces = Namespaces(Limits(namespaces=3))
    one = namespaces.join("one")
    namespaces.join("two")
    with pytest.raises(QuotaError, match="3 namespaces already"):
        namespaces.join("three")
    namespaces.leave(one)
    namespaces.join("three")


def test_a_user_counts_over_all_connections() -> None:
    node = Node("n", "0")
    exchange = node.namespaces.join("lab")
    first, second = node.account(exchange, ANN), node.account(exchange, ANN)
    first.take("producers")
    second.take("producers")
    with pytest.raises(QuotaError, match="user ann may have 2 producers, and has 2"):
        first.take("producers")


@pytest.mark.parametrize(
    ("authentication", "user", "address", "is_admin"),
    [
        (False, None, "127.0.0.1", True),
        (False, None, "::1", True),
        (False, None, "10.0.0.7", False),
        (True, None, "127.0.0.1", False),
        (True, ANN, "127.0.0.1", False),
        (True, User("root", "lab", roles=frozenset({"admin"})), "10.0.0.7", True),
    ],
)
def test_who_is_admin(authentication: bool, user: User | None, address: str, is_admin: bool) -> None:
    """A4."""
    assert Node("n", "0", authentication=authentication).is_admin(user, address) is is_admin


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.2", True),
        ("::1", True),
        ("", True),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("nonsense", False),
    ],
)
def test_loopback(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected


REGEX = "K MATCHES '.*a.{12}b'"
COST = price(parse(REGEX)).worst()


def where(exchange: Exchange, text: str, account: Account | None) -> Consumer:
    consumer = exchange.consumer(Listener(), ">", "", b"1", None, account)
    exchange.subscribe(consumer, parse(text))
    return consumer


def test_a_standing_query_costs_its_namespace_once_and_each_client_all_of_it() -> None:
    node = Node("n", "0", Limits(standing_cost=2 * COST), Namespaces())
    exchange = node.namespaces.open("lab")
    one, other = (node.account(exchange, None) for _ in range(2))
    consumers = [where(exchange, REGEX, account) for account in (one, one, other)]
    assert exchange.usage.used["standing_cost"] == COST
    assert [account.usages[0].used["standing_cost"] for account in (one, other)] == [2 * COST, COST]
    with pytest.raises(QuotaError, match=f"this connection may have {2 * COST} of the cost of standing queries"):
        where(exchange, "K = 'a'", one)
    assert (len(exchange.producers.queries), exchange.usage.used["consumers"]) == (1, 3)
    where(exchange, "K = 'a'", other)
    for consumer in consumers:
        exchange.unsubscribe(consumer)
    assert one.usages[0].used == {}
    price_of_other = other.usages[0].used["standing_cost"]
    assert exchange.usage.used == {"consumers": 1, "standing_cost": price_of_other}


def test_a_connection_counts_only_what_it_has_a_quota_of() -> None:
    """There are very many: what nothing is compared with takes no memory."""
    node = Node("n", "0", Limits(standing_cost=COST), Namespaces())
    exchange = node.namespaces.open("lab")
    account, other = node.account(exchange, None), node.account(exchange, None)
    account.take("connections")
    consumers = [where(exchange, "K = 'a'", account) for _ in range(3)]
    own = account.usages[0]
    assert set(own.used) == {"standing_cost"}
    assert exchange.usage.used["consumers"] == 3
    assert own.quotas is other.usages[0].quotas
    for consumer in consumers:
        exchange.unsubscribe(consumer)
    assert (own.used, other.usages[0].used, other.usages[0].refused) == ({}, {}, {})


def test_a_namespace_takes_no_more_cost_than_its_quota() -> None:
    node = Node("n", "0", Limits(quota=NamespaceQuotas(standing_cost=COST)), Namespaces(Limits()))
    exchange = node.namespaces.open("lab")
    exchange.usage.quotas = node.limits.quota
    where(exchange, REGEX, node.account(exchange, None))
    where(exchange, REGEX, node.account(exchange, None))
    with pytest.raises(QuotaError, match=f"namespace lab may have {COST} of the cost of standing queries"):
        where(exchange, "K = 'a'", node.account(exchange, None))
    where(exchange, "K = 'a'", None)  # another node has accepted it
    assert exchange.usage.used["standing_cost"] > COST


def test_a_user_pays_for_the_queries_of_all_connections() -> None:
    node = Node("n", "0", Limits(), Namespaces())
    exchange = node.namespaces.open("lab")
    ann = User("ann", "lab", quota=Quotas(standing_cost=COST))
    where(exchange, REGEX, node.account(exchange, ann))
    with pytest.raises(QuotaError, match="user ann"):
        where(exchange, "K = 'a'", node.account(exchange, ann))
