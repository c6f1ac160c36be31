"""The user that is charged for what is kept of a topic (A5)."""

from __future__ import annotations

import random

import pytest

from fumarole.core.limits import Quotas
from fumarole.core.publication import Publication
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.namespaces import NamespaceRules, Namespaces
from fumarole.exchange.node import Node
from fumarole.exchange.payers import Payers
from fumarole.exchange.permissions import User
from fumarole.exchange.quotas import Account, QuotaError, Usage
from fumarole.exchange.retained import Kept

LIMITED = Quotas(retained_bytes=1_000, last_bytes=1_000)


def account(name: str, quotas: Quotas = LIMITED) -> Account:
    return Account(user=Usage(f"user {name}", quotas))


def used(of: Account) -> int:
    assert of.user is not None
    return of.user.used.get("retained_bytes", 0)


def test_the_example() -> None:
    payers, ann, bob = Payers("retained_bytes"), account("ann"), account("bob", Quotas())
    payers.charge("a", 600, ann)
    with pytest.raises(QuotaError, match=r"user ann may have 1000 retained \(bytes\), and has 600, 600 more"):
        payers.check("b", 600, ann)
    payers.charge("a", 600, bob)
    assert (used(ann), len(payers)) == (0, 0)
    assert payers.has_room("b", 600, ann)
    assert payers.has_room("b", 1_000, ann), "the same topic anew"
    assert not payers.has_room("b", 1_001, ann)
    assert used(ann) == 1_000


def test_random_charges_leave_nothing_behind() -> None:
    rng, payers = random.Random(1), Payers("retained_bytes")
    users = [account("ann", Quotas(retained_bytes=10**9)), account("bob", Quotas(retained_bytes=10**9)), None]
    charged: dict[str, tuple[Account | None, int]] = {}
    for _ in range(2_000):
        topic, size, user = rng.choice("abcdefgh"), rng.randrange(100), rng.choice(users)
        if rng.random() < 0.3:
            payers.release(topic)
            charged.pop(topic, None)
        else:
            payers.charge(topic, size, user)
            charged[topic] = user, size
        for each in users[:2]:
            assert each is not None
            assert used(each) == sum(size for user, size in charged.values() if user is each)
    for topic in "abcdefgh":
        payers.release(topic)
    assert len(payers) == 0


def lab() -> tuple[Node, Exchange]:
    namespaces = Namespaces(rules={"lab": NamespaceRules(last="all")})
    return Node("n", "0", namespaces=namespaces), namespaces.open("lab")


def publish(exchange: Exchange, by: Account, topic: str, payload: bytes, retain: bool = False) -> None:
    publication = Publication(topic, payload)
    publication.retain = retain
    exchange.publish(exchange.plans().find(topic.encode()), publication, None, by)


def test_a_user_retains_no_more_than_its_quota() -> None:
    node, exchange = lab()
    ann = node.account(exchange, User("ann", "lab", quota=LIMITED))
    publish(exchange, ann, "a", b"x" * 500, retain=True)
    with pytest.raises(QuotaError, match="user ann may have 1000 retained"):
        publish(exchange, ann, "b", b"x" * 500, retain=True)
    publish(exchange, node.account(exchange, None), "b", b"x" * 500, retain=True)
    assert exchange.retained.get("b") is not None
    publish(exchange, ann, "a", b"", retain=True)
    assert ann.user is not None
    assert "retained_bytes" not in ann.user.used
    publish(exchange, ann, "a", b"x" * 500, retain=True)
    known = exchange.retained.get("a")
    assert known is not None
    newer = Kept("a", known.time + 1, "other", b"y", b"")
    exchange.retained.learn(newer)  # of another node
    assert "retained_bytes" not in ann.user.used


def test_a_user_keeps_no_more_last_messages_than_its_quota() -> None:
    """The messages themselves go on."""
    node, exchange = lab()
    ann = node.account(exchange, User("ann", "lab", quota=LIMITED))
    assert ann.has_rates, "or the compiled path would take them, and not count"
    publish(exchange, ann, "a", b"x" * 500)
    publish(exchange, ann, "b", b"x" * 500)
    publish(exchange, ann, "a", b"y" * 500)
    assert exchange.last_values is not None
    found = exchange.last_values.get("a"), exchange.last_values.get("b")
    assert found[0] is not None
    assert (found[0][3], found[1]) == (b"y" * 500, None)
    assert ann.user is not None
    assert ann.user.refused == {"last_bytes": 1}
    publish(exchange, node.account(exchange, None), "b", b"x" * 500)
    assert exchange.last_values.get("b") is not None
    assert exchange.quota_report()["held"]["last_bytes"]["used"] == exchange.last_values.bytes > 1_000


def test_a_reload_changes_how_much_may_be_kept() -> None:
    """A7."""
    node, exchange = lab()
    rules = {"lab": NamespaceRules(last="all", quota=Quotas(last_bytes=300))}
    node.namespaces.renew(node.limits, rules, None)
    for topic in "ab":
        publish(exchange, node.account(exchange, None), topic, b"x" * 150)
    assert exchange.quota_report()["refused"] == {"last_bytes": 1}
    assert exchange.quota_report()["held"]["last_bytes"] == {"used": 247, "most": 300}
