import pytest

from fumarole.core.limits import DEFAULTS
from fumarole.core.query.cost import LONGEST_TEXT, price
from fumarole.core.query.errors import QueryError
from fumarole.core.query.parse import parse
from fumarole.core.query.regex import automaton


@pytest.mark.parametrize(
    ("query", "fixed", "rate"),
    [
        ("Kind = 'so2'", 11, 0.0),
        ("Kind = 'so2' AND (Room = '4' OR NOT Room IN ('5', '6'))", 13, 0.0),
        ("Room LIKE '%4%'", 11, 0.1),
        ("NOT Room LIKE '%4%' AND Room LIKE '5%'", 12, 0.2),
        ("$value > 80", 20, 0.0),
    ],
)
def test_the_price_of_a_query(query: str, fixed: int, rate: float) -> None:
    made = price(parse(query))
    assert made.fixed == fixed
    assert made.rate == pytest.approx(rate)


def test_an_expression_costs_by_its_states_and_the_length_of_the_text() -> None:
    regex = ".*a.{12}b"
    made = price(parse(f"K MATCHES '{regex}'"))
    assert made.rate == pytest.approx(0.1 * automaton(regex).size)
    assert made.worst() == made.fixed + round(made.rate * LONGEST_TEXT)
    assert made.work({"K": "ab" * 10}) == pytest.approx(made.fixed + made.rate * 20)
    assert made.work({"K": 5}) == made.work({"Other": "a" * 5_000}) == made.fixed


def test_letters_of_all_scripts_cost_as_much_as_one_letter() -> None:
    """Their automaton has more than a thousand states, of which a text is in one or two."""
    assert price(parse(r"K MATCHES '\pL+x'")).worst() < 2 * price(parse("K MATCHES 'a+x'")).worst()


def test_a_test_of_messages_costs_ten_times_as_much() -> None:
    """It is made for each message."""
    on_messages, on_metadata = price(parse("$.a MATCHES 'foo.*bar'")), price(parse("a MATCHES 'foo.*bar'"))
    assert on_messages.worst() > 10 * on_metadata.worst()


def test_a_query_that_is_too_dear_is_refused_when_it_is_made() -> None:
    dear = " AND ".join(f"K MATCHES '[ab]*a[ab]{{700}}{number}'" for number in range(8))
    with pytest.raises(QueryError, match=f"at most {DEFAULTS.query_cost:,}"):
        parse(dear)
    parse("K MATCHES '[ab]*a[ab]{700}'")
