import gc
import weakref
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.publication import Publication
from fumarole.core.topic import matches, parse_pattern, split
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.permissions import Permissions
from fumarole.exchange.plans import Denied
from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled
from tests.conformance.tables import RECEIVED, RECEIVERS
from tests.core.strategies import patterns, topics
from tests.exchange.fakes import Listener
from tests.random_examples import examples


def subscribe(
    exchange: Exchange, listener: Listener, pattern: str, group: str = "", sees: Permissions | None = None
) -> Consumer:
    consumer = exchange.consumer(listener, pattern, group, listener.name.encode(), sees)
    exchange.subscribe(consumer)
    return consumer


def publish(exchange: Exchange, topic: str, origin: Listener | None = None) -> int:
    return exchange.publish(exchange.own_plans().find(topic.encode()), Publication(topic, b"x"), origin)


@pytest.fixture
def exchange(hot_path: HotPath) -> Exchange:
    return Exchange("default", parts=hot_path.parts)


@pytest.mark.parametrize(("topic", "expected"), RECEIVED.items())
def test_the_eight_receivers(exchange: Exchange, topic: str, expected: str) -> None:
    """G4, D2. The table says why R8 does not hear `foo.bar.zoo`."""
    listeners = {name: Listener(name) for name in RECEIVERS}
    for name, (pattern, group) in RECEIVERS.items():
        subscribe(exchange, listeners[name], pattern, group)
    possible = [set(choice) for choice in product(*(one.split("|") for one in expected.split()))]
    seen: set[str] = set()
    for _ in range(20):
        for listener in listeners.values():
            listener.heard.clear()
        assert publish(exchange, topic) == len(expected.split())
        heard = {name for name, listener in listeners.items() if listener.heard}
        assert all(len(listener.heard) <= 1 for listener in listeners.values())
        assert heard in possible
        seen |= heard
    assert seen == set().union(*possible), "each member of a group has its turn"


def test_two_consumers_on_one_connection_are_two_entities(exchange: Exchange) -> None:
    """D2."""
    listener = Listener()
    subscribe(exchange, listener, "a")
    subscribe(exchange, listener, "*")
    assert publish(exchange, "a") == 2
    assert len(listener.heard) == 2


@pytest.mark.parametrize("topic", ["_FORGOTTEN", "_WHERE", "_WHERE.a", "_WHERE.a.diff"])
@pytest.mark.parametrize("user", [None, Permissions(None), Permissions(("_WHERE.>", "_FORGOTTEN"))])
def test_no_client_publishes_what_the_server_does(exchange: Exchange, topic: str, user: Permissions | None) -> None:
    """T9: a message on `_FORGOTTEN` would make a later replay forget that producer."""
    with pytest.raises(Denied):
        exchange.plans(user).find(topic.encode())
    assert exchange.own_plans().find(topic.encode()) is exchange.nobody
    for ordinary in ("_FORGOTTEN.a", "_FORGOTTENx", "_WHEREx", "_"):
        assert exchange.plans().find(ordinary.encode()) is exchange.nobody


INBOXES = {
    "_INBOX.a": ["_INBOX.a"],
    "_INBOX.a.1": ["_INBOX.a.1", "_INBOX.a.*", "_INBOX.a.>"],
    "_INBOX.a.1.x": ["_INBOX.a.>", "_INBOX.a.*.x"],
    "_INBOX.ab.1": [],
    "_INBOX": [">", "*", "_INBOX"],
}


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@pytest.mark.parametrize("group", ["", "g"], ids=["alone", "group"])
def test_an_inbox_is_found_by_its_word_alone(exchange: Exchange, known: bool, group: str) -> None:
    """A4: no wildcard finds it, `>` included, alone or in a group, while other consumers come and go."""
    wide = [
        ">",
        "*",
        "*.*",
        "*.*.*",
        "_INBOX",
        "_INBOX.>",
        "_INBOX.*",
        "_INBOX.*.1",
        "_INBOX.a*.1",
        "_INBO*.a.1",
        "*.a.1",
    ]
    own = ["_INBOX.a", "_INBOX.a.1", "_INBOX.a.*", "_INBOX.a.>", "_INBOX.a.*.x"]
    listeners = {pattern: Listener(pattern) for pattern in (*wide, *own)}

    def found(topic: str) -> list[str]:
        for listener in listeners.values():
            listener.heard.clear()
        publish(exchange, topic)
        return [pattern for pattern, listener in listeners.items() if listener.heard]

    def expected(topic: str) -> list[str]:
        return [pattern for pattern in (*wide, *own) if pattern in INBOXES[topic]]

    consumers = {}
    for _ in range(2):
        for number, pattern in enumerate(listeners):
            for topic in INBOXES if known else ():
                found(topic)
            consumers[pattern] = subscribe(exchange, listeners[pattern], pattern, f"{group}{number}" if group else "")
        assert {topic: found(topic) for topic in INBOXES} == {topic: expected(topic) for topic in INBOXES}
        for pattern in own:
            exchange.unsubscribe(consumers[pattern])
        assert found("_INBOX.a.1") == []
        for pattern in wide:
            exchange.unsubscribe(consumers[pattern])


def test_replies_to_one_inbox_share_a_plan(exchange: Exchange) -> None:
    """Each request has a topic of its own, and there should not be a plan for each."""
    subscribe(exchange, Listener(">"), ">")
    subscribe(exchange, Listener("a"), "_INBOX.a.*")
    plans = [exchange.plan(f"_INBOX.a.{number}") for number in range(5)]
    assert len(set(map(id, plans))) == 1
    assert exchange.plan("_INBOX.b.1") is not plans[0]
    assert [consumer.pattern for consumer in plans[0].consumers] == ["_INBOX.a.*"]


def test_an_inbox_for_who_may_not_see_all_of_it(exchange: Exchange) -> None:
    some = Permissions(None, ("_INBOX.a.secret",))
    listener = Listener("a")
    subscribe(exchange, listener, "_INBOX.a.*", sees=some)
    assert [publish(exchange, f"_INBOX.a.{word}") for word in ("x", "secret", "y")] == [1, 0, 1]


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
def test_private_topics_are_for_those_who_name_them(exchange: Exchange, known: bool) -> None:
    """Whatever consumers come and go, whatever plans there are, and whatever else the same wildcards match."""
    wide = [Listener(pattern) for pattern in (">", "*.*", "_WHERE.>", "_WHERE.*", "_WHERE.a*", "*.a")]
    for listener in wide:
        subscribe(exchange, listener, listener.name)
    own, other, grouped, denied = (Listener() for _ in range(4))

    def reached(topic: str) -> list[Listener]:
        for listener in (*wide, own, other, grouped, denied):
            listener.heard.clear()
        publish(exchange, topic)
        return [listener for listener in (own, other, grouped, denied, *wide) if listener.heard]

    def check(topic: str, *expected: Listener) -> None:
        if known:
            reached(topic)
        assert reached("b.a") == [wide[0], wide[1], wide[5]]
        assert reached(topic) == list(expected)

    check("_WHERE.a")
    for _ in range(2):
        mine = subscribe(exchange, own, "_WHERE.a")
        check("_WHERE.a", own)
        check("_WHERE.b")
        theirs = subscribe(exchange, other, "_WHERE.a")
        shared = subscribe(exchange, grouped, "_WHERE.a", "g")
        late = Listener()
        latest = subscribe(exchange, late, ">")
        subscribe(exchange, denied, "_WHERE.a", sees=Permissions(deny=("_WHERE.*",)))
        check("_WHERE.a", own, other, grouped)
        assert all(topic == "b.a" for _, topic in late.heard)
        for consumer in (theirs, shared, latest):
            exchange.unsubscribe(consumer)
        check("_WHERE.a", own)
        exchange.unsubscribe(mine)
        check("_WHERE.a")
    assert reached("_WHERE") == [wide[0]]


def test_no_entity_is_counted(exchange: Exchange) -> None:
    """D3."""
    assert publish(exchange, "a") == 0
    assert exchange.counters.unheard == 1
    subscribe(exchange, Listener(), "b")
    publish(exchange, "a")
    publish(exchange, "b")
    assert exchange.report()["dropped"] == {"no consumer": 2, "outbox full": 0, "refused": 0}
    assert exchange.report()["received"] == 3
    assert exchange.report()["delivered"] == 1


def test_nothing_from_before(exchange: Exchange) -> None:
    """D5."""
    listener = Listener()
    publish(exchange, "a")
    consumer = subscribe(exchange, listener, "a")
    assert not listener.heard
    publish(exchange, "a")
    exchange.unsubscribe(consumer)
    publish(exchange, "a")
    assert len(listener.heard) == 1


def test_a_group_of_different_patterns_gets_one(exchange: Exchange) -> None:
    """G1."""
    one, two, other = Listener("1"), Listener("2"), Listener("3")
    subscribe(exchange, one, "a.*", "g")
    subscribe(exchange, two, "a.>", "g")
    subscribe(exchange, other, "b", "g")
    for _ in range(100):
        assert publish(exchange, "a.b") == 1
    assert len(one.heard) + len(two.heard) == 100
    assert min(len(one.heard), len(two.heard)) >= 45
    assert not other.heard


@pytest.mark.parametrize("members", [1, 2, 3, 7])
@pytest.mark.parametrize("topics", [1, 2, 1000])
def test_a_group_is_balanced(exchange: Exchange, members: int, topics: int) -> None:
    """G3: to within two messages, also when every topic is new."""
    listeners = [Listener(str(number)) for number in range(members)]
    for listener in listeners:
        subscribe(exchange, listener, ">", "g")
    for number in range(1000):
        publish(exchange, f"t{number % topics}")
    counts = [len(listener.heard) for listener in listeners]
    assert sum(counts) == 1000
    assert max(counts) - min(counts) <= 4


def test_a_group_does_not_fall_into_step_with_its_topics(exchange: Exchange) -> None:
    """Every other message matches only the first member: it must not get the rest as well."""
    first, second = Listener("1"), Listener("2")
    subscribe(exchange, first, ">", "g")
    subscribe(exchange, second, "both", "g")
    for number in range(1000):
        publish(exchange, "both" if number % 2 else "first-only")
    assert 200 <= len(second.heard) <= 300


def test_the_ill_are_passed_over(exchange: Exchange) -> None:
    """G3."""
    listeners = [Listener(str(number)) for number in range(4)]
    for listener in listeners:
        subscribe(exchange, listener, ">", "g")
    listeners[0].healthy = listeners[2].healthy = False
    for _ in range(100):
        assert publish(exchange, "a") == 1
    assert not listeners[0].heard
    assert not listeners[2].heard
    assert abs(len(listeners[1].heard) - len(listeners[3].heard)) <= 2
    for listener in listeners:
        listener.healthy = False
    assert publish(exchange, "a") == 1, "with nobody healthy, the outbox's policy decides"


def test_a_publisher_may_ask_not_to_hear_itself(exchange: Exchange) -> None:
    silent, other = Listener("1", echo=False), Listener("2")
    subscribe(exchange, silent, "a")
    subscribe(exchange, silent, "a", "g")
    assert publish(exchange, "a", silent) == 0
    subscribe(exchange, other, "a", "g")
    for _ in range(10):
        assert publish(exchange, "a", silent) == 1
    assert len(other.heard) == 10
    assert publish(exchange, "a", other) == 2


def test_the_last_member_ends_the_group(exchange: Exchange) -> None:
    """G5."""
    one = subscribe(exchange, Listener("1"), "a", "g")
    two = subscribe(exchange, Listener("2"), "b", "g")
    exchange.unsubscribe(one)
    exchange.unsubscribe(one)
    assert set(exchange._groups) == {"g"}
    exchange.unsubscribe(two)
    assert not exchange._groups
    assert len(exchange) == 0


def test_what_a_member_may_not_see_goes_to_one_who_may(exchange: Exchange) -> None:
    """Permissions hold on every path: plain, group, wildcard."""
    denied, allowed, plain = Listener("1"), Listener("2"), Listener("3")
    public = Permissions(deny=("secret.>",))
    subscribe(exchange, denied, ">", "g", public)
    subscribe(exchange, allowed, ">", "g")
    subscribe(exchange, plain, ">", "", public)
    for _ in range(10):
        assert publish(exchange, "secret.x") == 1
    assert len(allowed.heard) == 10
    assert not denied.heard
    assert not plain.heard
    publish(exchange, "open.x")
    assert len(plain.heard) == 1


def test_one_who_may_not_see_everything_joins_late(exchange: Exchange) -> None:
    """The plan that both topics shared cannot serve both any more; when he leaves, it can."""
    plain, limited = Listener("1"), Listener("2")
    subscribe(exchange, plain, ">")
    assert publish(exchange, "secret.x") == publish(exchange, "open.x") == 1
    consumer = subscribe(exchange, limited, ">", "", Permissions(deny=("secret.>",)))
    for _ in range(2):
        assert publish(exchange, "secret.x") == 1
        assert publish(exchange, "open.x") == 2
    subscribe(exchange, plain, ">")
    assert publish(exchange, "secret.x") == 2
    assert publish(exchange, "open.x") == 3
    exchange.unsubscribe(consumer)
    assert publish(exchange, "secret.x") == publish(exchange, "open.x") == 2
    assert len(limited.heard) == 3


def test_plans_let_go_of_those_who_left(exchange: Exchange) -> None:
    """After as many changes as there are plans, at the latest."""
    listener = Listener()
    gone = weakref.ref(listener)
    consumers = [subscribe(exchange, listener, f"a.{number}.>") for number in range(100)]
    for number in range(100):
        publish(exchange, f"a.{number}.b")
    for consumer in consumers:
        exchange.unsubscribe(consumer)
    del listener, consumers, consumer
    gc.collect()
    assert gone() is None


actions = st.lists(
    st.one_of(
        st.tuples(st.just("subscribe"), patterns, st.sampled_from(["", "", "g", "h"])),
        st.tuples(st.just("unsubscribe"), st.integers(0, 30), st.none()),
        st.tuples(st.just("publish"), topics, st.none()),
    ),
    max_size=60,
)


@pytest.mark.parametrize("name", ["plain", "compiled"])
@examples(150)
@given(actions)
def test_plans_never_outlive_a_change(name: str, steps: list[tuple[str, object, object]]) -> None:
    """Whatever came and went since a plan was made, it reaches exactly those whose pattern matches now."""
    hot_path = PLAIN if name == "plain" else compiled()
    assert hot_path is not None
    exchange = Exchange("default", parts=hot_path.parts)
    consumers: list[tuple[Consumer, Listener]] = []
    for number, (action, what, group) in enumerate(steps):
        if action == "subscribe":
            listener = Listener(str(number))
            consumers.append((subscribe(exchange, listener, str(what), str(group)), listener))
        elif action == "unsubscribe" and consumers:
            assert isinstance(what, int)
            exchange.unsubscribe(consumers.pop(what % len(consumers))[0])
        elif action == "publish":
            for _, listener in consumers:
                listener.heard.clear()
            publish(exchange, str(what))
            alone = {k.key for k, _ in consumers if not k.group and matches(parse_pattern(k.pattern), split(str(what)))}
            heard = [(k, listener.heard) for k, listener in consumers if listener.heard]
            assert {k.key for k, _ in heard if not k.group} == alone
            assert all(len(messages) == 1 for _, messages in heard)
            for shared in ("g", "h"):
                able = [
                    k for k, _ in consumers if k.group == shared and matches(parse_pattern(k.pattern), split(str(what)))
                ]
                chosen = [k for k, _ in heard if k.group == shared]
                assert len(chosen) == bool(able)
                assert all(k in able for k in chosen)


EMPTY_AND_OTHERS = [".".join(words) for count in (1, 2, 3, 4) for words in product(["", "a"], repeat=count)]
"""Topics with an empty word at any place: dots at the start, at the end, and several in a row (T3)."""
PATTERNS_OF_THEM = [".".join(words) for count in (1, 2, 3) for words in product(["", "a", "*", "a*"], repeat=count)]


@pytest.mark.parametrize("pattern", [*PATTERNS_OF_THEM, ">", *[f"{pattern}.>" for pattern in PATTERNS_OF_THEM]])
def test_plans_of_topics_with_empty_words_never_outlive_a_change(exchange: Exchange, pattern: str) -> None:
    """Every plan is known before the first of a pattern comes, and again after the last has gone."""
    matched = [topic for topic in EMPTY_AND_OTHERS if matches(parse_pattern(pattern), split(topic))]

    def reached() -> list[str]:
        return [topic for topic in EMPTY_AND_OTHERS if publish(exchange, topic)]

    assert reached() == []
    for _ in range(2):
        consumer = subscribe(exchange, Listener(), pattern)
        assert reached() == matched
        exchange.unsubscribe(consumer)
        assert reached() == []


def test_unique_topics_do_not_pile_up(hot_path: HotPath) -> None:
    exchange = Exchange("default", parts=hot_path.parts)
    subscribe(exchange, Listener(), "a.>")
    plans = exchange.plans()
    for number in range(300_000):
        plans.find(b"a.%d" % number)
    assert plans.find(b"a.1").consumers
