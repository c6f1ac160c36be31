import pytest
from hypothesis import given, settings
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from fumarole import pipeline
from fumarole.core.errors import PatternError
from fumarole.core.topic import CHANNEL, STRICT, Grammar, fits, matches, parse_pattern, split
from tests.conformance.tables import NATIVE
from tests.core import strategies


def compare(spark: SparkSession, patterns: list[str], topics: list[str], grammar: Grammar = STRICT) -> None:
    frame = spark.createDataFrame([(topic,) for topic in topics], "topic string")
    found = frame.select(*[pipeline.topic_matches("topic", pattern, grammar) for pattern in patterns]).collect()
    expected = [
        tuple(matches(parse_pattern(pattern, grammar), split(topic)) for pattern in patterns) for topic in topics
    ]
    assert list(map(tuple, found)) == expected


def test_the_table(spark: SparkSession) -> None:
    """T4, T5, T6: row for row."""
    rows = [(case.pattern, case.topic, case.matches) for case in NATIVE]
    for pattern in {case.pattern for case in NATIVE}:
        parse_pattern(pattern)
    frame = spark.createDataFrame(rows, "pattern string, topic string, expected boolean")
    patterns = sorted({case.pattern for case in NATIVE})
    found = sf.coalesce(
        *[
            sf.when(sf.col("pattern") == pattern, pipeline.topic_matches(sf.col("topic"), pattern))
            for pattern in patterns
        ]
    )
    assert frame.where(found.isNull() | (found != sf.col("expected"))).collect() == []


def test_random_patterns(spark: SparkSession) -> None:
    """T8."""
    patterns: set[str] = set()
    topics: set[str] = set()

    @settings(max_examples=300)
    @given(strategies.patterns, strategies.topics)
    def draw(pattern: str, topic: str) -> None:
        patterns.add(pattern)
        topics.add(topic)

    draw()
    compare(spark, sorted(patterns), sorted(topics))


def test_every_character(spark: SparkSession) -> None:
    letters = "-_ABCxyz0189"
    topics = ["", ".", "..", letters, f"{letters}.{letters}", *letters]
    compare(spark, ["", ">", "*", "*.*", "..", letters, f"{letters}.>", f"{letters[:3]}*", "*-*", "-*9"], topics)


def test_channels(spark: SparkSession) -> None:
    """T2: any character may be in a topic, also those that mean something to a regular expression."""
    topics = ["火山.ätna", "a(b.c[d", "x|y", "$.^", "🌋", "🌋.🌋🌋", "a+", r"\Q.\E", "a"]
    compare(
        spark,
        ["火山.*", "a(*.*d", "x|y", "$.^", "$.*", "🌋.*🌋", "*🌋", "a+", "a*", r"\Q.*", ">", "火*.>"],
        topics,
        CHANNEL,
    )


@pytest.mark.timeout(60)
def test_a_long_topic_takes_no_longer_than_it_should(spark: SparkSession) -> None:
    topics = ["a" * 8000, "ab" * 4000 + "a", "s." + "a" * 8000]
    patterns = ["*a*a*a*a*b", "*a*a*a*a*b.*", "*ab*ab*a", "s.*a*a*a*c", "s.*aa*a"]
    frame = spark.createDataFrame([(topic,) for topic in topics], "topic string")
    found = frame.select(*[pipeline.topic_matches("topic", pattern) for pattern in patterns]).collect()
    assert list(map(tuple, found)) == [
        tuple(fits(parse_pattern(pattern), split(topic)) for pattern in patterns) for topic in topics
    ]


def test_collations_do_not_count(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("USA.x",)], "topic string").selectExpr("topic collate UTF8_LCASE AS topic")
    columns = [
        pipeline.topic_matches("topic", pattern) for pattern in ("usa.x", "usa.>", "u*.x", "USA.x", "USA.>", "U*.x")
    ]
    assert frame.select(*columns).collect() == [(False,) * 3 + (True,) * 3]


def test_no_topic(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(None,)], "topic string")
    columns = [pipeline.topic_matches("topic", pattern) for pattern in (">", "a", "a.>", "*.a")]
    assert frame.select(*columns).collect() == [(None,) * 4]


@pytest.mark.parametrize("pattern", ["a.>.b", "a>", "a b", "é"])
def test_refused_as_live(pattern: str) -> None:
    with pytest.raises(PatternError) as live:
        parse_pattern(pattern)
    with pytest.raises(PatternError) as here:
        pipeline.topic_matches("topic", pattern)
    assert str(here.value) == str(live.value)
