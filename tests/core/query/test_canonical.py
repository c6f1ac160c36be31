import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.limits import DEEPEST_QUERY, Limits
from fumarole.core.query.canonical import canonical
from fumarole.core.query.errors import QueryError
from fumarole.core.query.holds import holds
from fumarole.core.query.parse import parse
from fumarole.core.query.tree import And, Metadata, Not, Or, Query, keys, show
from tests.conformance.messages import Sent
from tests.core.query import messages
from tests.core.query.strategies import any_queries, metadata, queries, tests

WIDE = Limits(
    query_length=10**6,
    query_depth=DEEPEST_QUERY + 1,
    query_tests=10**6,
    query_values=10**6,
    query_pattern=10**6,
    query_regexes=10**6,
)

SAME = {
    "spacing and quoting": ("a = 'x'   AND b=1", '`a`="x" and b = 1'),
    "order of AND": ("a = 1 AND b = 2 AND c = 3", "c = 3 AND a = 1 AND b = 2"),
    "order of OR": ("a = 1 OR b = 2", "b = 2 OR a = 1"),
    "order inside": ("(a = 1 OR b = 2) AND c = 3", "c = 3 AND (b = 2 OR a = 1)"),
    "nesting": ("a = 1 AND (b = 2 AND (c = 3 AND d = 4))", "((a = 1 AND b = 2) AND c = 3) AND d = 4"),
    "repetition": ("a = 1 AND b = 2 AND a = 1", "a = 1 AND b = 2"),
    "only repetition": ("a = 1 OR a = 1", "a = 1"),
    "repetition inside": ("(a = 1 OR b = 2) AND (b = 2 OR a = 1)", "a = 1 OR b = 2"),
    "double denial": ("NOT NOT a = 1", "a = 1"),
    "denial of AND": ("NOT (a = 1 AND b LIKE 'x%')", "a != 1 OR b NOT LIKE 'x%'"),
    "denial of OR": ("NOT (a = 1 OR NOT b = 2)", "a != 1 AND b = 2"),
    "denial of comparisons": ("NOT a < 1 AND NOT b >= 2 AND NOT c > 1 AND NOT d <= 5", "a>=1 AND b<2 AND c<=1 AND d>5"),
    "denial of presence": ("NOT HAS a AND NOT b IS NULL", "a IS NULL AND HAS b"),
    "NOT in both places": ("NOT a IN (1, 2)", "a NOT IN (1, 2)"),
    "two signs": ("a <> 1", "a != 1"),
    "order of a list": ("a IN (3, 1, 2)", "a IN (1, 2, 3, 2.0)"),
    "a list of one": ("a IN (1)", "a = 1"),
    "not in a list of one": ("a NOT IN (1)", "a != 1"),
    "equalities and a list": ("a = 1 OR a = 2 OR b = 3 OR a IN (2, 4)", "a IN (1, 2, 4) OR b = 3"),
    "inequalities and a list": ("a != 1 AND a NOT IN (2, 3)", "a NOT IN (1, 2, 3)"),
    "between": ("a BETWEEN 1 AND 5", "a <= 5 AND a >= 1"),
    "between, denied": ("a NOT BETWEEN 1 AND 5", "a > 5 OR a < 1"),
    "between inside AND": ("a BETWEEN 1 AND 5 AND b = 1", "b = 1 AND a >= 1 AND a <= 5"),
    "whole decimals": ("a = 5.0 AND b > 1e3 AND c = -0.0", "a = 5 AND b > 1000 AND c = 0"),
    "large whole decimals": ("a = 1e19 AND b > -9.223372036854775808e18", f"a = {10**19} AND b > {-(2**63)}"),
    "a key alone": ("a AND NOT b", "a = true AND b != true"),
    "names of the message": ("$.`a`.b = 1 AND NOT $value > 5", "$value <= 5 AND $.a.b = 1.0"),
    "like without wildcards": ("a LIKE 'x'", "a = 'x'"),
    "not like without wildcards": ("a NOT LIKE 'x'", "a != 'x'"),
    "wildcards in a row": ("a LIKE 'x%_%_'", "a LIKE 'x__%'"),
}

DIFFERENT = {
    "kinds": ("a = 1", "a = '1'"),
    "number and truth": ("a = 1", "a = true"),
    "lists of number and truth": ("a IN (0, 2)", "a IN (false, 2)"),
    "keys": ("a = 1", "A = 1"),
    "a key and a name of the message": ("`$value` = 1", "$value = 1"),
    "a path and its keys in one": ("$.a.b = 1", "$.`a.b` = 1"),
    "values": ("a = 'x'", "a = 'X'"),
    "beyond doubles": (f"a = {2**53}", f"a = {2**53 + 1}"),
    "AND and OR": ("a = 1 AND b = 2", "a = 1 OR b = 2"),
    "excluded middle": ("a = 1 OR a != 1", "HAS a"),
    "presence and equality": ("HAS a", "a = 'a'"),
    "ends": ("a > 1", "a >= 1"),
    "like and matches": ("a LIKE 'x%'", "a MATCHES 'x%'"),
    "inequalities with OR": ("a != 1 OR a != 2", "a NOT IN (1, 2)"),
    "equalities with AND": ("a = 1 AND a = 2", "a IN (1, 2)"),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_what_means_the_same_gets_one_form(one: str, other: str) -> None:
    assert canonical(parse(one)) == canonical(parse(other))


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_what_differs_stays_different(one: str, other: str) -> None:
    assert canonical(parse(one)) != canonical(parse(other))


@given(queries, st.lists(metadata, min_size=1, max_size=5))
def test_the_form_means_the_same(query: Query, producers: list[Metadata]) -> None:
    """In three values: false stays false, and unknown stays unknown."""
    form = canonical(query)
    assert [holds(form, producer) for producer in producers] == [holds(query, producer) for producer in producers]


@given(messages.queries, metadata, st.lists(messages.sents, min_size=1, max_size=5))
def test_the_form_means_the_same_of_messages(query: Query, producer: Metadata, sent: list[Sent]) -> None:
    form, said = canonical(query), [messages.message(each, producer) for each in sent]
    assert [holds(form, each) for each in said] == [holds(query, each) for each in said]


@given(st.one_of(queries, messages.queries))
def test_the_form_of_the_form_is_itself(query: Query) -> None:
    form = canonical(query)
    assert canonical(form) == form
    assert keys(form) == keys(query)


@given(st.one_of(queries, any_queries, messages.queries))
def test_the_text_of_the_form_is_the_form(query: Query) -> None:
    """C1: it is by this text that other nodes know the query."""
    form = canonical(query)
    assert parse(show(form), WIDE) == form


@given(queries)
def test_the_form_has_one_pair_of_parentheses_more_at_most(query: Query) -> None:
    """`a = 1 OR a = 2` becomes a list; nothing else makes it deeper."""
    assert depth(show(canonical(query))) <= depth(show(query)) + 1


def depth(text: str) -> int:
    """The lowest limit that the query keeps to."""
    return next(most for most in range(DEEPEST_QUERY) if keeps_to(text, replace(WIDE, query_depth=most)))


def keeps_to(text: str, limits: Limits) -> bool:
    try:
        parse(text, limits)
    except QueryError:
        return False
    return True


def disguised(query: Query, chance: random.Random) -> Query:
    """The same in other words: terms in another order, some twice, some in parentheses, some denied twice."""
    if isinstance(query, Not):
        query = Not(disguised(query.term, chance))
    elif isinstance(query, And | Or):
        node = type(query)
        terms = [disguised(term, chance) for term in query.terms]
        terms += chance.sample(terms, chance.randrange(2))
        chance.shuffle(terms)
        if len(terms) > 2 and chance.random() < 0.5:
            terms = [node(tuple(terms[:2])), *terms[2:]]
        query = node(tuple(terms))
        if chance.random() < 0.3:
            query = Not((Or if node is And else And)(tuple(Not(term) for term in terms)))
    return Not(Not(query)) if chance.random() < 0.3 else query


@given(queries, st.randoms(use_true_random=False))
def test_other_words_for_the_same_get_one_form(query: Query, chance: random.Random) -> None:
    assert canonical(disguised(query, chance)) == canonical(query)


@given(tests, tests)
def test_only_what_has_one_text_has_one_form(one: Query, other: Query) -> None:
    assert (canonical(one) == canonical(other)) is (show(canonical(one)) == show(canonical(other)))
