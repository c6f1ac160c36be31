import pytest

from fumarole.core.errors import NamespaceError
from fumarole.core.topic import Grammar
from fumarole.exchange.namespaces import NamespaceRules, Namespaces


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
