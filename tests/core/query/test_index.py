import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from fumarole.core.query.holds import could_hold, holds
from fumarole.core.query.index import QueryIndex, StandingQuery
from fumarole.core.query.message import Message
from fumarole.core.query.parse import parse
from fumarole.core.query.tree import (
    OPERATORS,
    And,
    Compare,
    In,
    Like,
    Metadata,
    Not,
    Operator,
    Or,
    Query,
    Value,
    constant,
)
from tests.conformance.messages import MESSAGE_CASES, Sent
from tests.conformance.queries import CASES
from tests.core.query import messages
from tests.core.query.strategies import keys, metadata, queries, values
from tests.random_examples import examples


def is_empty(index: QueryIndex) -> bool:
    places = (index._tests, index._guards, index._message_guards, index._asked, index._everywhere)
    return not (len(index) or list(index) or any(places))


def test_the_table_all_at_once() -> None:
    """What matches and what does not, and entering and leaving, each with all the queries of the table standing."""
    index = QueryIndex()
    standing = {case.query: index.add(parse(case.query)) for case in CASES}
    for case in CASES:
        one = standing[case.query]
        assert (one in index.match(case.metadata)) is (case.holds is True), case.name
        entered, left = index.change({}, case.metadata, case.metadata)
        always = one.selects({})
        assert (one in entered) is (case.holds is True and not always), case.name
        assert (one in left) is (case.holds is not True and always), case.name
        assert index.change(case.metadata, {}, case.metadata) == (left, entered), case.name


def test_the_table_from_each_row_to_the_next() -> None:
    index = QueryIndex()
    for case in CASES:
        index.add(parse(case.query))
    trees = {one: one.query for one in index}
    for case, following in zip(CASES, [*CASES[1:], CASES[0]], strict=True):
        before = {one for one, query in trees.items() if holds(query, case.metadata) is True}
        after = {one for one, query in trees.items() if holds(query, following.metadata) is True}
        changed = {*case.metadata, *following.metadata}
        assert index.change(case.metadata, following.metadata, changed) == (after - before, before - after)


def test_the_table_of_messages_all_at_once() -> None:
    """F6: who is in which set, and which messages are delivered."""
    index = QueryIndex()
    standing = {case.query: index.add(parse(case.query)) for case in MESSAGE_CASES}
    for case in MESSAGE_CASES:
        one, sent = standing[case.query], messages.message_of(case)
        assert (one in index.match(case.metadata)) is case.is_in_set, case.name
        assert (one in delivered(index, sent, case.metadata)) is (case.holds is True), case.name


def delivered(index: QueryIndex, sent: Message, producer: Metadata) -> set[StandingQuery]:
    """The queries that get a message: those in whose set its producer is, and which ask nothing, or ask for this."""
    members = index.match(producer)
    return {one for one in members if one.asks is None} | members & index.match_message(sent)


@given(st.lists(messages.queries, max_size=6), metadata, metadata, st.lists(messages.sents, min_size=1, max_size=3))
def test_equals_the_definition_for_messages(
    texts: list[Query], before: Metadata, after: Metadata, sent: list[Sent]
) -> None:
    index = QueryIndex()
    standing = [(index.add(query), query) for query in texts]
    in_set_before = {one for one, query in standing if could_hold(query, before) is True}
    in_set_after = {one for one, query in standing if could_hold(query, after) is True}
    assert index.match(before) == in_set_before
    changed = [key for key in {*before, *after} if before.get(key) is not after.get(key)]
    assert index.change(before, after, changed) == (in_set_after - in_set_before, in_set_before - in_set_after)
    for each in sent:
        one = messages.message(each, after)
        assert delivered(index, one, after) == {standing for standing, query in standing if holds(query, one) is True}


@given(st.lists(messages.queries, max_size=6), st.randoms(use_true_random=False))
def test_of_tests_of_the_message_nothing_is_left(texts: list[Query], chance: random.Random) -> None:
    index = QueryIndex()
    held = [index.add(query) for query in texts]
    for one in chance.sample(held, len(held)):
        index.remove(one)
    assert is_empty(index)


@given(st.lists(queries, max_size=6), metadata, metadata)
def test_equals_the_definition(texts: list[Query], before: Metadata, after: Metadata) -> None:
    """M11, both ways: every query whose answer changed, and no other."""
    index = QueryIndex()
    standing = [(index.add(query), query) for query in texts]
    selected_before = {one for one, query in standing if holds(query, before) is True}
    selected_after = {one for one, query in standing if holds(query, after) is True}
    assert index.match(before) == selected_before
    assert index.match(after) == selected_after
    changed = [key for key in {*before, *after} if before.get(key) is not after.get(key)]
    entered, left = index.change(before, after, changed)
    assert entered == selected_after - selected_before
    assert left == selected_before - selected_after


@given(st.lists(queries, min_size=1, max_size=6), metadata, keys, st.one_of(st.none(), values))
def test_both_ways_to_find_queries_find_all(
    texts: list[Query], before: Metadata, key: str, value: Value | None
) -> None:
    """As if there were so many that the other way is tried, too: whichever is taken, nothing is missed."""
    index = QueryIndex()
    for query in texts:
        index.add(query)
    after = {other: kept for other, kept in before.items() if other != key} | ({} if value is None else {key: value})
    turned = {one for one in index if one.selects(before) is not one.selects(after)}
    by_change = set().union(*index._tests.changed(key, before.get(key), after.get(key)))
    by_guard = set().union(*index._guards.true(before, before), *index._guards.true_at(key, after.get(key)))
    assert turned <= by_change
    assert turned <= by_guard


def test_equivalent_queries_are_one() -> None:
    index = QueryIndex()
    one = index.add(parse("Kind = 'temperature' AND Room LIKE '4%'"))
    assert index.add(parse('room_like = 1 OR `Room` like "4%"')) is not one
    assert index.add(parse('`Room` like "4%" and (Kind="temperature")')) is one
    assert len(index) == 2
    assert one.uses == 2
    assert not index.remove(one)
    assert index.match({"Kind": "temperature", "Room": "410"}) >= {one}
    assert index.remove(one)
    assert len(index) == 1
    assert one not in index.match({"Kind": "temperature", "Room": "410"})


def test_removing_what_does_not_stand_is_our_fault() -> None:
    index = QueryIndex()
    one = index.add(parse("a = 1"))
    index.remove(one)
    with pytest.raises(KeyError):
        index.remove(one)


class Changes(RuleBasedStateMachine):
    """Queries come and go, producers come, change and go; each query's set, kept by what the index says, is right."""

    standing = Bundle("standing")

    def __init__(self) -> None:
        super().__init__()
        self.index = QueryIndex()
        self.uses: list[StandingQuery] = []
        self.members: dict[StandingQuery, set[str]] = {}
        self.producers: dict[str, Metadata] = {"one": {}, "two": {}}

    @rule(target=standing, query=queries)
    def add(self, query: Query) -> StandingQuery:
        one = self.index.add(query)
        if one not in self.members:
            self.members[one] = {name for name, producer in self.producers.items() if holds(query, producer) is True}
        self.uses.append(one)
        return one

    @rule(one=consumes(standing))
    def remove(self, one: StandingQuery) -> None:
        self.uses.remove(one)
        assert self.index.remove(one) is (one not in self.uses)
        if one not in self.uses:
            del self.members[one]

    @rule(name=st.sampled_from(["one", "two"]), delta=st.dictionaries(keys, st.one_of(st.none(), values), max_size=2))
    def change(self, name: str, delta: dict[str, Value | None]) -> None:
        before = self.producers[name]
        merged = {**before, **delta}
        after = {key: value for key, value in merged.items() if value is not None}
        entered, left = self.index.change(before, after, delta)
        assert not entered & left
        for one in entered:
            assert name not in self.members[one]
            self.members[one].add(name)
        for one in left:
            self.members[one].remove(name)
        self.producers[name] = after

    @invariant()
    def sets_equal_a_fresh_evaluation(self) -> None:
        assert set(self.index) == self.members.keys()
        for one, members in self.members.items():
            assert members == {name for name, it in self.producers.items() if holds(one.query, it) is True}
        for name, producer in self.producers.items():
            assert self.index.match(producer) == {one for one, members in self.members.items() if name in members}

    def teardown(self) -> None:
        for one in self.uses:
            self.index.remove(one)
        assert is_empty(self.index)


TestChanges = Changes.TestCase
TestChanges.settings = examples(40, stateful_step_count=20)


def test_add_at_random_remove_at_random_nothing_is_left() -> None:
    chance, index, held = random.Random(7), QueryIndex(), []
    texts = list({case.query for case in CASES})
    for _ in range(1000):
        held.append(index.add(parse_once(chance.choice(texts))))
        if chance.random() < 0.4:
            index.remove(held.pop(chance.randrange(len(held))))
    assert set(index) == set(held)
    for one in chance.sample(held, len(held)):
        index.remove(one)
    assert is_empty(index)


PARSED: dict[str, Query] = {}


def parse_once(text: str) -> Query:
    if text not in PARSED:
        PARSED[text] = parse(text)
    return PARSED[text]


# How many queries are evaluated: by count, since time depends on the machine.

MANY = 2_000


def equal(key: str, value: Value) -> Query:
    return Compare(key, "=", constant(value))


def evaluated(index: QueryIndex, before: Metadata, after: Metadata, *changed: str) -> int:
    """How many queries were, where the answer was checked against a fresh evaluation of all."""
    index.evaluated = 0
    entered, left = index.change(before, after, changed)
    assert entered == {one for one in index if one.selects(after) and not one.selects(before)}
    assert left == {one for one in index if one.selects(before) and not one.selects(after)}
    return index.evaluated


def test_equality_is_found_by_hash() -> None:
    index = QueryIndex()
    for number in range(MANY):
        index.add(equal("Room", str(number)))
        index.add(Not(equal("Room", f"not {number}")))
        index.add(In("Room", (constant(f"in {number}"), constant(f"too {number}"))))
    assert evaluated(index, {"Room": "17"}, {"Room": "in 18"}, "Room") == 2
    assert evaluated(index, {"Room": "not 17"}, {"Room": "19"}, "Room") == 2
    assert evaluated(index, {"Room": "17"}, {"Room": "elsewhere"}, "Room") == 1
    assert evaluated(index, {"Room": 17}, {"Room": 18}, "Room") == 0
    assert evaluated(index, {"Floor": 17}, {"Floor": 18}, "Floor") == 0


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
def test_ranges_are_found_by_order(operator: Operator) -> None:
    index = QueryIndex()
    for number in range(MANY):
        index.add(Compare("Level", operator, constant(number)))
    assert evaluated(index, {"Level": 99.5}, {"Level": 102.5}, "Level") == 3
    assert evaluated(index, {"Level": 102.5}, {"Level": 99.5}, "Level") == 3
    assert evaluated(index, {"Level": 99.5}, {"Level": 99.6}, "Level") == 0
    assert evaluated(index, {"Level": 100}, {"Level": 100.5}, "Level") == (operator in {"<=", ">"})
    assert evaluated(index, {"Level": 99.5}, {"Level": 100}, "Level") == (operator in {"<", ">="})


def test_the_rest_is_found_by_key() -> None:
    index = QueryIndex()
    for number in range(MANY):
        index.add(Like(f"key{number % 1000}", f"%{number}%"))
    assert evaluated(index, {"key7": "1007"}, {"key7": "2007"}, "key7") == MANY // 1000


def test_a_value_that_many_ask_for_is_not_what_they_are_found_by() -> None:
    """All ask for temperature, each in a room of its own: neither a new sensor nor a new kind concerns many of them."""
    index = QueryIndex()
    for number in range(MANY):
        index.add(And((equal("Kind", "temperature"), equal("Room", number))))
    sensor: Metadata = {"Kind": "temperature", "Room": 17}
    assert evaluated(index, {}, sensor, *sensor) <= 10
    assert evaluated(index, {**sensor, "Kind": "light"}, sensor, "Kind") <= 10
    index.evaluated = 0
    assert len(index.match(sensor)) == 1
    assert index.evaluated <= 10


def test_a_number_that_many_ask_for_is_found_by_what_changed() -> None:
    """All ask for temperature, each from a level of its own: the other way round, however many are crossed."""
    index = QueryIndex()
    for number in range(MANY):
        index.add(And((equal("Kind", "temperature"), Compare("Level", ">", constant(number)))))
    sensor: Metadata = {"Kind": "temperature", "Level": 99.5}
    assert evaluated(index, sensor, {**sensor, "Level": 101.5}, "Level") == 2
    assert evaluated(index, sensor, {**sensor, "Level": 249.5}, "Level") == 150


def test_a_change_of_one_key_of_many_looks_at_few_queries() -> None:
    """Queries of every kind over 500 keys, which all ask for one of three kinds of sensor, too."""
    chance, index = random.Random(3), QueryIndex()

    def some() -> Query:
        number, value = chance.randrange(500), chance.randrange(100)
        key, text = f"key{number}", constant(f"v{value}")
        if number % 2:
            return Compare(key, chance.choice(OPERATORS), constant(value))
        if value < 30:
            return Like(key, f"v{value}%")
        return Compare(key, chance.choice(["=", "!="]), text)

    for _ in range(4_000):
        one, other, kind = some(), some(), equal("Kind", chance.choice("abc"))
        index.add(And((one, other, kind)) if chance.random() < 0.5 else And((Or((one, other)), kind)))
    counts = []
    for _ in range(30):
        numbers = chance.sample(range(500), 20)
        before: dict[str, Value] = {f"key{n}": chance.randrange(100) if n % 2 else f"v{n % 100}" for n in numbers}
        before["Kind"] = "a"
        key = f"key{numbers[0]}"
        value = chance.randrange(100) if numbers[0] % 2 else f"v{chance.randrange(100)}"
        counts.append(evaluated(index, before, {**before, key: value}, key))
    assert 0 < max(counts) <= len(index) / 100
    assert sum(counts) / len(counts) <= len(index) / 500


def test_a_message_is_put_to_the_queries_that_it_may_concern() -> None:
    index = QueryIndex()
    for number in range(MANY):
        index.add(parse_once(f"Kind = 'so2' AND $value > {number}"))
        index.add(parse_once(f"$.f{number} = 1 AND $.g > 5"))
        index.add(parse_once(f"$topic = 't{number}'"))
    producer: Metadata = {"Kind": "so2"}
    for payload, topic, count in ((b"-1", "a", 0), (b"2.5", "a", 3), (b'{"f7": 1, "g": 6}', "t9", 2), (b"x", "t9", 1)):
        sent = messages.message(Sent(payload, topic), producer)
        index.evaluated = 0
        assert len(index.match_message(sent)) == count
        assert index.evaluated == count
