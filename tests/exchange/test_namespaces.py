import pytest

from fumarole.core.errors import NamespaceError
from fumarole.core.limits import Limits
from fumarole.core.topic import Grammar
from fumarole.exchange.namespaces import NamespaceRules, Namespaces
from fumarole.exchange.readings import Reading, ReadingError

PRODUCER = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
OTHER = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize("name", ["a", "A-9", "x" * 63, "0", "default"])
def test_names(name: str) -> None:
    """N1."""
    assert Namespaces().join(name).name == name


@pytest.mark.parametrize("name", ["", "-a", "a-", "x" * 64, "a.b", "a_b", "ä", "a b", "a\n", "-"])
def test_names_refused(name: str) -> None:
    with pytest.raises(NamespaceError):
        Namespaces().join(name)


def test_one_exchange_each() -> None:
    namespaces = Namespaces()
    assert [exchange.name for exchange in namespaces] == ["default"]
    assert namespaces.join("lab") is namespaces.join("lab")
    assert namespaces.join("lab") is not namespaces.join("default")


def test_a_namespace_goes_with_its_last_connection_unless_configured() -> None:
    namespaces = Namespaces(rules={"kept": NamespaceRules(outbox=7)})
    for name in ("kept", "passing", "default"):
        namespaces.leave(namespaces.join(name))
    assert {exchange.name for exchange in namespaces} == {"default", "kept"}
    assert namespaces.join("kept").outbox_limit == 7


def test_a_namespace_with_producers_stays() -> None:
    """M3, M7: no client is connected, but they are not forgotten."""
    namespaces = Namespaces()
    exchange = namespaces.join("lab")
    exchange.producers.hear(Reading(PRODUCER, {"Room": "410"}, 1.0), 0.0)
    namespaces.leave(exchange)
    assert namespaces.join("lab") is exchange
    exchange.producers.forget(PRODUCER)
    namespaces.leave(exchange)
    # It is still to be forgotten on disk.
    assert namespaces.open("lab") is exchange
    exchange.producers.unsaved.clear()
    namespaces.release(exchange)
    assert {exchange.name for exchange in namespaces} == {"default"}


def test_where_nothing_is_kept_nothing_waits_to_be_written() -> None:
    namespaces = Namespaces(are_kept=False)
    exchange = namespaces.join("lab")
    producers = exchange.producers
    producers.hear(Reading(PRODUCER, {"Room": "410"}, 1.0), 0.0)
    producers.hear(Reading(PRODUCER, {"Room": "411"}, 1.0), 0.0)
    producers.learn(OTHER, {"Room": "412"}, 0.0)
    for identity in (PRODUCER, OTHER):
        producers.forget(identity)
    assert not producers.unsaved
    namespaces.leave(exchange)
    assert namespaces.get("lab") is None


def test_one_that_has_ended_takes_nothing_with_it() -> None:
    """Who was still busy with it does not end another of the same name that has begun meanwhile."""
    namespaces = Namespaces()
    ended = namespaces.join("lab")
    namespaces.leave(ended)
    namespaces.release(ended)
    begun = namespaces.open("lab")
    namespaces.release(ended)
    assert namespaces.get("lab") is begun is not ended


def test_the_rules_for_producers() -> None:
    namespaces = Namespaces(Limits(metadata_keys=1), {"lab": NamespaceRules(producer_ttl=60.0)})
    producers = namespaces.join("lab").producers
    with pytest.raises(ReadingError):
        producers.hear(Reading(PRODUCER, {"a": 1, "b": 2}, 1.0), 0.0)
    producers.hear(Reading(PRODUCER, {"a": 1}, 1.0), 0.0)
    assert [producers.expire(59.0), producers.expire(60.0)] == [0, 1]


def test_kubemq_clients_have_their_own_grammar() -> None:
    """K2: without configuration."""
    assert Namespaces().join("kubemq").grammar is Grammar.CHANNEL
    assert Namespaces().join("other").grammar is Grammar.STRICT
    assert Namespaces(rules={"kubemq": NamespaceRules(Grammar.STRICT)}).join("kubemq").grammar is Grammar.STRICT


def test_only_the_allowed_ones() -> None:
    """N3; and `default` always exists (N1)."""
    namespaces = Namespaces(allowed=frozenset({"lab"}))
    namespaces.join("lab")
    namespaces.join("default")
    with pytest.raises(NamespaceError, match="not one of the allowed"):
        namespaces.join("other")
