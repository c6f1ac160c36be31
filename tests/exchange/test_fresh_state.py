from fumarole.core.limits import Quotas
from fumarole.exchange.namespaces import NamespaceRules, Namespaces


def test_a_namespace_keeps_what_its_rules_say_within_its_quota() -> None:
    rules = {"all": NamespaceRules(last="all", quota=Quotas(last_bytes=1_000)), "plain": NamespaceRules()}
    namespaces = Namespaces(rules=rules)
    everything, plain = namespaces.get("all"), namespaces.get("plain")
    assert everything is not None
    assert plain is not None
    assert everything.last_values is not None
    assert plain.last_values is None
    assert everything.clock is plain.clock is namespaces.clock
    assert everything.timers is namespaces.timers
    assert everything.retained is not plain.retained
