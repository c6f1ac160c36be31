"""The report: numbers that are right, and a page that needs nothing else."""

import re
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.jobs.batch import Part
from fumarole.pipeline.report import plots
from fumarole.pipeline.report.figures import Chosen, Window, bucket, gather
from fumarole.pipeline.report.page import rate_text, written
from tests.pipeline.archives import Recorder, at, change, message

pytestmark = pytest.mark.usefixtures("plans_as_they_are")
ODD = r"volcanoes.日本$\frac$"
"""A topic by the grammar `channel`, of letters that the plotter has not, and of signs that mean something else to it."""


class Balanced(HTMLParser):
    """Every element that is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_page(page: str) -> None:
    balanced = Balanced()
    balanced.feed(page)
    assert balanced.open == []
    assert not re.findall(r"""(?:src|href)=["']https?:""", page), "nothing is fetched from elsewhere"
    assert "<script" not in page


def test_a_page(spark: SparkSession, tmp_path: Path) -> None:
    one, two = Recorder(tmp_path, "one"), Recorder(tmp_path, "two")
    one.seal(
        [
            message(second, "volcanoes.italy.<etna>", "p", 20.0 + second % 5)
            for second in range(120)
            if second not in range(40, 70)
        ]
    )
    two.seal([message(second, ODD, None) for second in range(60)])
    one.seal(
        [
            *change(0, "p", {"Region": "italy", "Older": 1}),
            {"time": at(1), "producer": "p", "key": "", "kind": "anew"},
            *change(2, "p", {"Region": "italy & more", "Old": 1}),
            *change(5, "p", {"Old": None}),
        ],
        "changes",
    )
    figures = gather(spark, Part(str(tmp_path)))
    assert (figures.total.messages, figures.total.topics, figures.total.producers) == (150, 2, 1)
    assert (figures.begin, figures.end) == (at(0), at(119))
    assert sum(sum(counts.values()) for counts in figures.streams.values()) == 150
    assert figures.topics[0][:2] == ("volcanoes.italy.<etna>", 90)
    assert [(gap.since, gap.until, gap.seconds, gap.habit) for gap in figures.gaps] == [(at(39), at(70), 31.0, 1.0)]
    assert figures.recorders == [("one", 90, 0.6), ("two", 60, 0.4)]
    assert figures.chosen is not None
    assert figures.chosen.metadata == {"Region": "italy & more"}
    assert sum(window.count for window in figures.chosen.windows) == 90
    page = written(figures)
    check_page(page)
    assert "italy &amp; more" in page
    assert "<etna>" not in page
    assert page.count("<svg") == 5
    assert ODD.rpartition(".")[2] in page


def test_several_days_without_producers(spark: SparkSession, tmp_path: Path) -> None:
    Recorder(tmp_path).seal([message(hour * 3600, "a", None, 1.0) for hour in range(0, 96, 5)])
    figures = gather(spark, Part(str(tmp_path)))
    assert figures.chosen is None
    assert sum(figures.hours.values()) == 20
    page = written(figures)
    check_page(page)
    assert "No producer was silent" in page


def test_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    Recorder(tmp_path).seal([message(1, "a", "p", 1.0)])
    with pytest.raises(PipelineError, match="nothing to show"):
        gather(spark, Part(str(tmp_path), topic="b"))
    with pytest.raises(PipelineError, match="no message of a producer q"):
        gather(spark, Part(str(tmp_path)), "q")


def test_labels() -> None:
    assert plots._labels(["v.it.etna", "v.it.etna.south", "v.is.katla"]) == ["…it.etna", "…it.etna.south", "…is.katla"]
    assert plots._labels(["v.it", "v.it"]) == ["…it", "…it"]
    assert plots._labels(["v", "v.it"]) == ["v", "v.it"]
    assert plots._labels(["v.it"]) == ["v.it"]


def test_subtrees_that_begin_with_an_underscore(spark: SparkSession, tmp_path: Path) -> None:
    Recorder(tmp_path).seal([message(number, "_INBOX.a", None) for number in range(5)])
    assert "_INBOX" in plots.rates(gather(spark, Part(str(tmp_path), topic="_INBOX.>")))


def test_values_further_apart_than_a_number_can_say() -> None:
    ends = [-1.7e308, 1.7e308]
    windows = [Window(at(60 * number), 1, *[value] * 6) for number, value in enumerate(ends)]
    points = [(at(60 * number), value) for number, value in enumerate(ends)]
    assert "<svg" in plots.values(Chosen("p", "a", {}, timedelta(minutes=1), windows, points), at(0), at(120))


def test_a_bucket_that_is_not_whole_is_no_drop(spark: SparkSession, tmp_path: Path) -> None:
    """Ten messages a second all the time, from the middle of a second to a moment after the beginning of another."""
    Recorder(tmp_path).seal([message(0.5 + number / 10, "a", None) for number in range(26)])
    middles, by_name = plots.rates_by_name(gather(spark, Part(str(tmp_path))))
    assert middles == [at(0.5), at(1.5), at(2.5)]
    assert by_name == {"a": [10.0, 10.0, 10.0]}


def test_the_last_message_is_no_peak(spark: SparkSession, tmp_path: Path) -> None:
    """One a second, to 12:09:59: the last bucket of 5 s has five in 4 s."""
    Recorder(tmp_path).seal([message(number, "a", None) for number in range(600)])
    _, by_name = plots.rates_by_name(gather(spark, Part(str(tmp_path))))
    assert set(by_name["a"]) == {1.0}


def test_a_burst_in_a_part_of_a_bucket_is_no_higher_than_it_was(spark: SparkSession, tmp_path: Path) -> None:
    burst = [message(0.9 + number / 1000, "a", None) for number in range(100)]
    Recorder(tmp_path).seal([*burst, *(message(number, "a", None) for number in range(1, 10))])
    middles, by_name = plots.rates_by_name(gather(spark, Part(str(tmp_path))))
    assert (middles[0], by_name) == (at(1.5), {"a": [1.0] * 8})


def test_heat_of_few_messages(spark: SparkSession, tmp_path: Path) -> None:
    """One every 10 minutes, at 5 minutes past, in buckets of 5 minutes: each has a cell, and is found in it."""
    Recorder(tmp_path).seal([message(300 + 600 * number, "a", None) for number in range(31)])
    starts, cells = plots.heat_cells(gather(spark, Part(str(tmp_path))))
    assert starts == [at(300 + 300 * number) for number in range(61)]
    assert cells == [[1, 0] * 30 + [1]]


def test_heat_of_one_message(spark: SparkSession, tmp_path: Path) -> None:
    Recorder(tmp_path).seal([message(1.5, "a", None)])
    figures = gather(spark, Part(str(tmp_path)))
    assert plots.heat_cells(figures) == ([at(1)], [[1]])
    check_page(written(figures))


def test_buckets() -> None:
    assert bucket(timedelta(seconds=30), 60) == timedelta(seconds=1)
    assert bucket(timedelta(hours=5), 60) == timedelta(minutes=5)
    assert bucket(timedelta(days=100_000), 60) == timedelta(days=7)


@pytest.mark.parametrize(
    ("messages", "seconds", "text"),
    [(1200, 10, "120/s"), (10, 100, "6/min"), (96, 172_800, "2/h"), (1, 172_800, "0.5/d")],
)
def test_rates_of_few_messages(messages: int, seconds: int, text: str) -> None:
    assert rate_text(messages / seconds) == text
