"""docs/reference/queries.md: its tables compared with the definition, its examples run."""

import doctest
import json
import re
from itertools import chain

import pytest

from fumarole.core.limits import Limits
from fumarole.core.publication import Publication
from fumarole.core.query.canonical import canonical
from fumarole.core.query.errors import QueryError
from fumarole.core.query.holds import Truth, every, holds, opposite, some
from fumarole.core.query.message import LONGEST_JSON, LONGEST_NUMBER, Message
from fumarole.core.query.parse import parse
from fumarole.core.query.parts import set_query
from fumarole.core.query.regex import STATES
from fumarole.core.query.tree import DEEPEST_PATH, FIELDS, fields
from fumarole.exchange.filters import FEW
from tests.docs.test_docs import DOCS, rows

PAGE = (DOCS / "reference" / "queries.md").read_text()
TRUTHS: dict[str, Truth] = {"true": True, "false": False, "unknown": None}


def cells(*heads: str) -> list[list[str]]:
    """The rows of all tables with these heads, without the quotes of code."""
    head = r" \| ".join(heads)
    return [
        [re.sub(r"^(`+) ?(.*?) ?\1$", r"\2", cell.strip()) for cell in line.strip("|").split(" | ")]
        for table in re.findall(rf"^\| {head} \|\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
        for line in table.splitlines()
    ]


EXAMPLES = cells("query", "producer", "answer")
MESSAGES = cells("query", "producer", "payload", "answer")


def test_every_kind_of_test_has_examples() -> None:
    used = set(chain.from_iterable(re.findall("[A-Z]+", query.upper()) for query, _, _ in EXAMPLES))
    assert used >= {"AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "MATCHES", "HAS", "IS", "NULL"}
    assert {answer for _, _, answer in EXAMPLES} == TRUTHS.keys()


@pytest.mark.parametrize(("query", "producer", "answer"), EXAMPLES)
def test_examples(query: str, producer: str, answer: str) -> None:
    assert holds(parse(query), json.loads(producer)) is TRUTHS[answer]


@pytest.mark.parametrize(("query", "producer", "payload", "answer"), MESSAGES)
def test_examples_of_messages(query: str, producer: str, payload: str, answer: str) -> None:
    """F6."""
    message = Message(Publication("volcanoes.etna", payload.encode()), json.loads(producer))
    assert holds(parse(query), message) is TRUTHS[answer]


def test_every_name_of_the_message_has_an_example() -> None:
    asked = {field.name for query, *_ in MESSAGES for field in fields(parse(query))}
    assert asked | {"producer"} == {*FIELDS, ""}
    assert {answer for *_, answer in MESSAGES} == TRUTHS.keys()
    names = [name for name, _ in cells("name", "what it is")]
    assert names == [*[f"${name}" for name in FIELDS], "$.path.to.field"]


@pytest.mark.parametrize(("query", "members"), cells("query", "in the set are"))
def test_sets(query: str, members: str) -> None:
    wanted = re.search("`(.*)`", members)
    assert set_query(parse(query)) == (None if wanted is None else canonical(parse(wanted[1])))


def test_bounds_of_json_are_those_of_the_program() -> None:
    sentence = " ".join(PAGE.split())
    assert (
        f"a payload of more than {LONGEST_JSON // 1024} KiB, one with arrays and objects more than {DEEPEST_PATH} deep, "
        f"or with a number of more than {LONGEST_NUMBER} characters" in sentence
    )
    assert f"Of more than {FEW} different tests on the messages of one producer" in sentence


@pytest.mark.parametrize("row", rows("reference/queries.md", "test"), ids=lambda row: row[0])
def test_the_tests_are_queries(row: list[str]) -> None:
    for text in re.findall("`([^`]+)`", row[0]):
        parse(text if len(text) > 2 else f"Level {text} 5")


def test_truth_tables() -> None:
    columns = [True, None, False]
    for name, function in (("AND", every), ("OR", some)):
        for row in rows("reference/queries.md", name):
            truth = TRUTHS[row[0].strip("* ")]
            assert [TRUTHS[cell.strip()] for cell in row[1:]] == [function([truth, other]) for other in columns]
    assert {TRUTHS[row[0].strip("* ")]: TRUTHS[row[1].strip()] for row in rows("reference/queries.md", "NOT")} == {
        truth: opposite(truth) for truth in columns
    }


REFUSED = re.findall(r"```refused\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("shown", REFUSED, ids=lambda shown: shown.splitlines()[0])
def test_refusals(shown: str) -> None:
    with pytest.raises(QueryError) as refused:
        parse(shown.splitlines()[0])
    assert refused.value.caret() + "\n" == shown


@pytest.mark.parametrize("row", rows("reference/queries.md", "one way"), ids=lambda row: row[0])
def test_two_ways_to_say_the_same(row: list[str]) -> None:
    one, other = (parse(cell.strip("` ")) for cell in row)
    assert canonical(one) == canonical(other)


def test_the_python_example() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    outcome = doctest.DocTestRunner().run(doctest.DocTestParser().get_doctest(example, {}, "queries.md", None, None))
    assert outcome.failed == 0
    assert outcome.attempted > 5


def test_limits_are_those_of_the_program() -> None:
    limits = Limits()
    sentence = " ".join(PAGE.split())
    assert (
        f"beyond a limit: {limits.query_length // 1024} KiB, parentheses and `NOT`s {limits.query_depth} deep, "
        f"{limits.query_tests} tests, {limits.query_values:,} values in one `IN`, "
        f"patterns of {limits.query_pattern // 1024} KiB, {limits.query_regexes} `MATCHES`." in sentence
    )
    assert f"more than {STATES:,} states" in sentence
