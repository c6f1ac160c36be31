"""Tests of the message as columns, held to the table of cases and to the definition (F6, M11)."""

import json
import time
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from fumarole import pipeline
from fumarole.core.query.errors import QueryError
from fumarole.core.query.holds import holds
from fumarole.core.query.parse import parse
from fumarole.core.query.tree import Field, Has, Metadata, Query, show
from fumarole.pipeline.columns.where import METADATA, VALUE
from fumarole.pipeline.rows import typed
from fumarole.protocols.columns import number
from tests.conformance.messages import MESSAGE_CASES, Sent
from tests.core.query import messages
from tests.core.query.strategies import metadata
from tests.core.query.test_message import HOSTILE, PIECES, documents, objects

COLUMNS = f"number int, {METADATA} map<string, {VALUE.simpleString()}>, topic string, producer string, payload binary"
Row = tuple[Metadata, Sent]


def frame_of(spark: SparkSession, rows: Iterable[Row], *, with_value: bool = True) -> DataFrame:
    """Messages as the archive has them, with the metadata that `enrich` finds."""
    data = [
        (
            at,
            {each["key"]: tuple(each[name] for name in VALUE.fieldNames()) for each in typed(producer)},
            *(sent.topic, sent.producer, bytearray(sent.payload)),
            *([number(sent.payload)] if with_value else []),
        )
        for at, (producer, sent) in enumerate(rows)
    ]
    return spark.createDataFrame(data, f"{COLUMNS}, value double" if with_value else COLUMNS)


def check(spark: SparkSession, queries: dict[str, Query], rows: list[Row], *, with_value: bool = True) -> None:
    """Every query to every row."""
    frame = frame_of(spark, rows, with_value=with_value)
    columns = [pipeline.where(query, frame) for query in queries.values()]
    found = [tuple(row)[1:] for row in sorted(frame.select("number", *columns).collect())]
    wrong = [
        (text, producer, sent, truth)
        for (producer, sent), truths in zip(rows, found, strict=True)
        for (text, query), truth in zip(queries.items(), truths, strict=True)
        if truth is not holds(query, messages.message(sent, producer))
    ]
    assert wrong == []


@pytest.mark.usefixtures("plans_as_they_are")
@pytest.mark.parametrize("with_value", [True, False])
def test_the_table(spark: SparkSession, with_value: bool) -> None:
    """Every query of the table to every message of the table that is not very long, which is far more than its rows."""
    rows = {repr(case[2:4]): (case.metadata, case.message) for case in MESSAGE_CASES if len(case.message.payload) < 999}
    queries = {case.query: parse(case.query) for case in MESSAGE_CASES if with_value or "$value" in case.query}
    check(spark, queries, list(rows.values()), with_value=with_value)


@pytest.mark.usefixtures("plans_as_they_are")
def test_long_payloads_of_the_table(spark: SparkSession) -> None:
    long = [case for case in MESSAGE_CASES if len(case.message.payload) >= 999]
    for query in dict.fromkeys(case.query for case in long):
        rows = [(case.metadata, case.message) for case in long if case.query == query]
        check(spark, {query: parse(query)}, rows)


@pytest.mark.usefixtures("plans_as_they_are")
def test_random_queries(spark: SparkSession) -> None:
    queries: dict[str, Query] = {}
    rows: list[Row] = []

    @settings(max_examples=40)
    @given(messages.queries, metadata, messages.sents)
    def draw(query: Query, producer: Metadata, sent: Sent) -> None:
        queries[show(query)] = query
        rows.append((producer, sent))

    draw()
    check(spark, queries, rows)


@pytest.mark.usefixtures("plans_as_they_are")
def test_random_payloads(spark: SparkSession) -> None:
    """Well-formed ones, and such as a letter or two have made something else."""
    payloads: dict[bytes, None] = {}

    @settings(max_examples=300)
    @given(st.one_of(objects, documents), st.booleans(), st.integers(0, 60), st.sampled_from(PIECES), st.integers(0, 3))
    def draw(document: object, ascii_only: bool, at: int, piece: str, cut: int) -> None:
        text = json.dumps(document, ensure_ascii=ascii_only)
        for each in (text, text[:at] + piece + text[at + cut :]):
            payloads[each.encode(errors="surrogatepass")] = None

    draw()
    asked = [Field("", path) for path in (("a",), ("b",), ("é",), ("",), ('"',), ("\\",), ("a", "a"), ("a", "b"))]
    tests = ["IN (0, 1, true, false, '', 'a')", "> 0", "< 1e300", "!= 'a'", "LIKE '%a%'", "= false"]
    queries = [f"{show(Has(field))[4:]} {test}" for field in asked[:3] for test in tests] + [
        show(Has(field)) for field in asked
    ]
    check(spark, {query: parse(query) for query in queries}, [({}, Sent(payload)) for payload in payloads])


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("plans_as_they_are")
def test_hostile_payloads(spark: SparkSession) -> None:
    rows: list[Row] = [({}, Sent(text.encode())) for name, text in HOSTILE.items() if name != "a million keys"]
    begin = time.monotonic()
    check(spark, {query: parse(query) for query in ("HAS $.a", "$value > 1")}, rows)
    assert time.monotonic() - begin < 60


def test_values_that_were_made_into_others(spark: SparkSession) -> None:
    """A column of values counts, though the payload says something else: exactly the payload only where they agree."""
    rows = [
        (0, b"5", 500.0),
        (1, b"9007199254740993", 9007199254740992.0),
        (2, b"9007199254740993", 1e17),
        (3, b"x", 7.0),
    ]
    frame = spark.createDataFrame(rows, "number int, payload binary, value double")
    queries = ["$value = 500", "$value = 9007199254740993", "$value = 1e17", "$value = 7"]
    found = frame.select("number", *[pipeline.where(query, frame) for query in queries]).collect()
    assert [tuple(row)[1:].index(True) for row in sorted(found)] == [0, 1, 2, 3]


def test_payloads_of_text_and_whole_values(spark: SparkSession) -> None:
    frame = spark.createDataFrame([('{"a": "é"}', 2**53 + 1)], "payload string, value bigint")
    queries = ["$.a = 'é'", f"$value = {2**53 + 1}", "$size = 11", f"$value = {2**53}"]
    row = frame.select(*[pipeline.where(query, frame) for query in queries]).first()
    assert tuple(row or ()) == (True, True, True, False)


@pytest.mark.parametrize(
    ("query", "missing"),
    [("HAS $value", "`value` of numbers or `payload`"), ("$topic = 'x'", "`topic` of text"), ("a OR $producer = 'x'", "`producer`"),
     ("$size > 5", "`payload` of bytes"), ("$.a.b > 5", "`payload` of bytes")],
)  # fmt: skip
def test_a_frame_without_messages_is_refused(query: str, missing: str) -> None:
    """It would match nothing, and say nothing of it."""
    with pytest.raises(QueryError, match=f"a frame of messages: this one has no column {missing}") as refused:
        pipeline.where(query, VALUE)
    assert refused.value.query[refused.value.position] == "$"


def test_no_python_per_row(spark: SparkSession) -> None:
    frame = frame_of(spark, [({}, Sent(b"1"))])
    query = "$value > 1 AND $topic LIKE 'x%' OR $.a.`b'\"` = 1 OR $size > 5 OR NOT HAS $producer OR $.c MATCHES 'x'"
    plan = frame.where(pipeline.where(query, frame))._jdf.queryExecution().toString()
    assert "Python" not in plan
