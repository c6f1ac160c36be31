"""Times and durations as people write them."""

from datetime import UTC, datetime, timedelta

import pytest

from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.times import duration, moment, shown


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("90s", timedelta(seconds=90)),
        ("1.5 minutes", timedelta(seconds=90)),
        (" 2 MIN ", timedelta(minutes=2)),
        ("1h", timedelta(hours=1)),
        ("1h30m", timedelta(minutes=90)),
        ("2 days", timedelta(days=2)),
    ],
)
def test_durations(text: str, length: timedelta) -> None:
    assert duration(text) == length
    assert duration(shown(length)) == length


@pytest.mark.parametrize(
    "text", ["", "5", "m", "5 ss", "1h x", "1h 30", "5 hs", "1 fortnight", "-1m", "0s", "1e3s", "9" * 30 + " days"]
)
def test_no_durations(text: str) -> None:
    with pytest.raises(PipelineError, match="duration"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-03-29T02:30", datetime(2026, 3, 29, 2, 30, tzinfo=UTC)),
        ("2026-03-29T03:30+02:00", datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        ("1969-12-31", datetime(1969, 12, 31, tzinfo=UTC)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_moments(text: str, time: datetime) -> None:
    assert moment(text) == time


@pytest.mark.parametrize("text", ["", "yesterday", "2026-02-30", "0001-01-01T00:00+05:00"])
def test_no_moments(text: str) -> None:
    with pytest.raises(PipelineError, match="is no time"):
        moment(text)
