"""Views as of any time (F7, M11), held to the definition, in plain Python."""

import random
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from fumarole import pipeline
from fumarole.core.query.errors import QueryError
from fumarole.core.query.tree import Value
from fumarole.core.query.view import arrays, content, parse_view
from fumarole.pipeline.archive.schema import ANEW
from fumarole.pipeline.errors import TimeError
from fumarole.pipeline.rows import typed
from fumarole.pipeline.tables import CHANGES
from fumarole.pipeline.transforms.view import entries
from tests.conformance.queries import CASES
from tests.pipeline.archives import at

Said = tuple[float, str, dict[str, Value | None] | None]
"""When a producer said what; None: from here on only what is said anew holds."""
VIEWS = [
    "select Kind where HAS Kind",
    "select Kind, count(*) where HAS Kind or HAS Room",
    "select Room, Kind, count(*) where not Kind = 'so2'",
    "select room, Room, count(*) where Room > 4 or Room in ('4', '5') or Room",
    "select count, `a.b`, count(*) where Kind is null",
]
VALUES: list[Value | None] = [None, "so2", "4", 4, 4.0, 5, -0.0, 0, True, 1, 2**53, 2**53 + 1, "", "ä`.b"]


def frame(spark: SparkSession, said: Iterable[Said]) -> DataFrame:
    anew: dict[str, Any] = {"key": "", "kind": ANEW, "text": None, "number": None, "truth": None}
    rows = [
        (at(second), producer, *(each[name] for name in ("key", "kind", "text", "number", "truth")))
        for second, producer, news in said
        for each in ([anew] if news is None else typed(news))
    ]
    return spark.createDataFrame([(*row, "r", 1, number) for number, row in enumerate(rows)], CHANGES)


def held(said: Iterable[Said], when: datetime) -> list[dict[str, Value]]:
    """The definition: for each key what was said last, then or before."""
    metadata: dict[str, dict[str, Value]] = {}
    for second, producer, news in said:
        if at(second) > when:
            continue
        own = metadata.setdefault(producer, {})
        if news is None:
            own.clear()
        for key, value in (news or {}).items():
            own.pop(key, None)
            if value is not None:
                own[key] = value
    return [own for own in metadata.values() if own]


def test_the_example(spark: SparkSession) -> None:
    said: list[Said] = [
        (1, "p", {"Region": "usa"}),
        (2, "p", {"Status": "failed"}),
        (3, "q", {"Status": "failed"}),
        (4, "p", {"Region": "japan"}),
    ]
    changes, text = frame(spark, said), "select Region, count(*) where Status = 'failed'"
    told = [arrays(entries(pipeline.view(changes, text, at(second)))) for second in (1, 2, 3, 4)]
    assert told == [[], [["usa", 1]], [[None, 1], ["usa", 1]], [[None, 1], ["japan", 1]]]
    (first, second) = sorted(pipeline.view(changes, text).collect(), key=str)
    assert (first["Region"], first["count"], second["Region"]["text"]) == (None, 1, "japan")


@pytest.mark.parametrize("seed", range(2))
def test_random_changes(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    keys = ["Kind", "Room", "room", "a.b", "count"]
    said: list[Said] = []
    for second in sorted(chance.uniform(0, 10) for _ in range(120)):
        news = {key: chance.choice(VALUES) for key in chance.sample(keys, chance.randrange(1, 3))}
        said.append((second, f"p{chance.randrange(12)}", news if chance.random() < 0.95 else None))
    changes = frame(spark, said).persist()
    for text in VIEWS:
        for second in (5.0, 10.0):
            found = entries(pipeline.view(changes, text, at(second)))
            assert found == content(parse_view(text), held(said, at(second))), text
    changes.unpersist()


def test_the_table_of_queries(spark: SparkSession) -> None:
    """M11: every query of metadata in the table selects the same producers here."""
    metadata = list({repr(sorted(case.metadata.items())): case.metadata for case in CASES if case.metadata}.values())
    said: list[Said] = [(number, f"p{number}", dict(each)) for number, each in enumerate(metadata)]
    changes = frame(spark, said).persist()
    asked = {f"select Kind, Room, count(*) where {case.query}" for case in CASES}
    views = []
    for text in sorted(asked):
        try:
            views.append(parse_view(text))
        except QueryError:  # a test of the message
            continue
    assert len(views) > 50
    for view in random.Random(1).sample(views, 12):
        assert entries(pipeline.view(changes, view)) == content(view, metadata)
    changes.unpersist()


def test_no_changes_and_mistakes(spark: SparkSession) -> None:
    nothing = frame(spark, [])
    assert entries(pipeline.view(nothing, "select Room, count(*) where Room is null")) == frozenset()
    with pytest.raises(QueryError, match="no message"):
        pipeline.view(nothing, "select Room where $value > 3")
    with pytest.raises(TimeError):
        pipeline.view(nothing, "select Room where Room", "noon")
