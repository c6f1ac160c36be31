"""Queries as columns, held to the table of cases and to the definition (M10, M11)."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from pyspark.sql import DataFrame, SparkSession

from fumarole import pipeline
from fumarole.core.query.errors import QueryError
from fumarole.core.query.holds import holds
from fumarole.core.query.parse import parse
from fumarole.core.query.tree import Query, show
from fumarole.pipeline.columns.where import METADATA, VALUE
from fumarole.pipeline.rows import typed
from tests.conformance.queries import CASES, REFUSALS, Values
from tests.core.query import strategies


def mapped(spark: SparkSession, rows: Iterable[tuple[int, Values]]) -> DataFrame:
    """Metadata as `enrich` has it."""
    data = [
        (number, {each["key"]: tuple(each[name] for name in VALUE.fieldNames()) for each in typed(metadata)})
        for number, metadata in rows
    ]
    return spark.createDataFrame(data, f"number int, {METADATA} map<string, {VALUE.simpleString()}>")


def answers(frame: DataFrame, queries: list[str | Query]) -> list[tuple[bool | None, ...]]:
    columns = [pipeline.where(query, frame) for query in queries]
    return [tuple(row)[1:] for row in sorted(frame.select("number", *columns).collect())]


def test_the_table(spark: SparkSession) -> None:
    """Every query of the table to every metadata of the table, which is far more than its rows."""
    queries = list(dict.fromkeys(case.query for case in CASES))
    metadata = {repr(sorted(case.metadata.items())): case.metadata for case in CASES}
    found = answers(mapped(spark, enumerate(metadata.values())), list(queries))
    trees = [parse(query) for query in queries]
    wrong = [
        (query, values, truth)
        for values, truths in zip(metadata.values(), found, strict=True)
        for query, tree, truth in zip(queries, trees, truths, strict=True)
        if truth is not holds(tree, values)
    ]
    assert wrong == []
    truths = dict(zip(metadata, found, strict=True))
    assert [
        case.name
        for case in CASES
        if truths[repr(sorted(case.metadata.items()))][queries.index(case.query)] is not case.holds
    ] == []


def test_random_queries(spark: SparkSession) -> None:
    queries: dict[str, Query] = {}
    metadata: dict[str, Any] = {}

    @settings(max_examples=60)
    @given(strategies.queries, strategies.metadata)
    def draw(query: Query, values: Mapping[str, Any]) -> None:
        queries[show(query)] = query
        metadata[repr(sorted(values.items()))] = values

    draw()
    rows = list(metadata.values())
    found = answers(mapped(spark, enumerate(rows)), list(queries.values()))
    expected = [tuple(holds(query, values) for query in queries.values()) for values in rows]
    assert found == expected


FLAT = "number int, Room string, Level bigint, Height double, Small int, Outdoors boolean, `a.b` string, Floor float, Seen timestamp, Exact decimal(18,0)"
FLAT_ROWS: list[Values] = [
    {"Room": "410", "Level": 5, "Height": 2.5, "Small": -1, "Outdoors": True, "a.b": "x", "Floor": 0.5, "Exact": 7},
    {"Room": "", "Level": 2**53 + 1, "Height": float(2**53), "Small": 0, "Outdoors": False, "a.b": "y", "Floor": 2.0},
    {"Level": -(2**63), "Height": -0.0, "Exact": 10**17},
    {},
]
FLAT_QUERIES = [
    "Room = '410'", "room = '410'", "Room = 410", "Level = 5", "Level > 4.5", f"Level = {2**53 + 1}", f"Height = {2**53 + 1}", f"Height < {2**53 + 1}", "Level < 1e300", "Level > -1e300",
    "Level BETWEEN 1 AND 5.5", "Small IN (0, 'x')", f"Level IN ({2**53 + 1}, 5.5)", f"Height IN ({2**53 + 1})", "Height IN (0, 2.5)", "Exact IN (7, 1e300)", "Level NOT IN (5.5, 0.5)", "Room IN (5.5)", "Outdoors", "Outdoors = true", "Outdoors < true", "`a.b` = 'x'", "a.b = 'y'", "HAS Height", "HAS height", "Missing IS NULL", "NOT Missing = 1",
    "Floor = 0.5", "Floor >= 2", "Exact = 7", "Exact > 7", "Room LIKE '4%' OR Height = 0", f"Level = {2**64 - 1}", f"Level >= {-(2**63)}", "HAS Seen", "Seen = 5",
]  # fmt: skip


def test_columns_of_ones_own(spark: SparkSession) -> None:
    names = [field.split()[0].strip("`") for field in FLAT.split(", ")]
    from decimal import Decimal

    data = [
        (number, *[Decimal(row[name]) if name == "Exact" and name in row else row.get(name) for name in names[1:]])
        for number, row in enumerate(FLAT_ROWS)
    ]
    frame = spark.createDataFrame(data, FLAT)
    expected = [tuple(holds(parse(query), row) for query in FLAT_QUERIES) for row in FLAT_ROWS]
    assert answers(frame, list(FLAT_QUERIES)) == expected


def test_not_a_number_is_above_nothing(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(0, float("nan")), (1, float("inf")), (2, None)], "number int, a double")
    queries = [
        "a > 5",
        "a >= 5",
        "a < 5",
        "a = 5",
        "a != 5",
        f"a > {2**53 + 1}",
        "a IN (5, 6)",
        f"a NOT IN ({2**53 + 1})",
    ]
    expected = [tuple(holds(parse(query), {"a": value}) for query in queries) for value in (float("nan"), float("inf"))]
    assert answers(frame, list(queries)) == [*expected, (None,) * 8]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_refused_as_live(refusal: Any) -> None:
    with pytest.raises(QueryError) as live:
        parse(refusal.query)
    with pytest.raises(QueryError) as here:
        pipeline.where(refusal.query, VALUE)
    assert here.value.caret() == live.value.caret()


def test_a_regex_beyond_spark_is_refused_with_a_sentence() -> None:
    with pytest.raises(QueryError, match=r"a regular expression that Spark can follow .*more than one way"):
        pipeline.where("a MATCHES '^(a|ab|b)*c'", VALUE)


LONG = "a" * 8000
"""As long as metadata may be."""


@pytest.mark.timeout(60)
def test_a_long_text_takes_no_longer_than_it_should(spark: SparkSession) -> None:
    tests = [
        "LIKE '%a%a%a%a%b'",
        "LIKE '%%%%%%b_'",
        "LIKE 'a%a_a%_a%aab%b'",
        "MATCHES '^a.*a.*a.*a.*b'",
        "LIKE '%a%a_%a'",
    ]
    frame = spark.createDataFrame([(0, LONG)], "number int, a string")
    begin = time.monotonic()
    assert answers(frame, [f"a {test}" for test in tests]) == [(False, False, False, False, True)]
    assert time.monotonic() - begin < 15


@pytest.mark.parametrize(("first", "step"), [(0, 1), (0.5, 1), (2**53 + 1, 2)])
def test_a_long_list_of_numbers(spark: SparkSession, first: float, step: int) -> None:
    """Whole ones, others, and such as no double is."""
    numbers = ",".join([str(first + step * number) for number in range(900)])
    rows: list[Values] = [{"a": value} for value in (7, 7.5, -0.0, 2**53 + 7, float(2**53 + 8), "7", "x", True)]
    queries = [f"a IN ({numbers})", f"a NOT IN ({numbers},'x')"]
    begin = time.monotonic()
    found = answers(mapped(spark, enumerate([*rows, {}])), list(queries))
    assert found == [tuple(holds(parse(query), row) for query in queries) for row in [*rows, {}]]
    assert time.monotonic() - begin < 15


def test_collations_do_not_count(spark: SparkSession) -> None:
    """Letters have one case (M10), whatever Spark was told of the column."""
    frame = spark.createDataFrame([(0, "USA")], "number int, Region string").selectExpr(
        "number", "Region collate UTF8_LCASE AS Region"
    )
    queries = [
        "Region = 'usa'",
        "Region IN ('usa', 'x')",
        "Region LIKE 'us%'",
        "Region LIKE '_sa'",
        "Region MATCHES 'usa'",
    ]
    assert answers(frame, list(queries)) == [(False,) * 5]
    assert answers(frame, [query.replace("us", "US").replace("sa", "SA").replace("Sa", "SA") for query in queries]) == [
        (True,) * 5
    ]


def test_no_python_per_row(spark: SparkSession) -> None:
    frame = mapped(spark, [(1, {"a": 1})])
    query = "a = 1 AND NOT b LIKE 'x%' OR c MATCHES '^x' OR d IN (1, 'x', true) OR HAS e"
    plan = frame.where(pipeline.where(query, frame))._jdf.queryExecution().toString()
    assert "Python" not in plan
