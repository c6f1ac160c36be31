import math

import pytest

from fumarole.core.periods import PeriodError, parse_every, parse_period

PERIODS = [
    (0, 0.0), (1, 1.0), (0.25, 0.25), ("0", 0.0), ("500ms", 0.5), ("1s", 1.0), ("5m", 300.0), ("5min", 300.0), ("2h", 7200.0),
    ("1.5s", 1.5), ("1.5", 1.5), ("007", 7.0),
]  # fmt: skip
NO_PERIODS = [
    "",
    "s",
    "1x",
    "-1",
    "+1",
    " 1s",
    "1_0",
    "1e3",
    "٣",
    "1s2",
    "NaN",
    -1,
    math.nan,
    math.inf,
    True,
    None,
    [],
    b"1",
]


@pytest.mark.parametrize(("given", "seconds"), PERIODS, ids=repr)
def test_periods(given: object, seconds: float) -> None:
    assert parse_period(given) == seconds


@pytest.mark.parametrize("given", NO_PERIODS, ids=repr)
def test_what_is_no_period(given: object) -> None:
    with pytest.raises(PeriodError, match="expected seconds as a number"):
        parse_period(given)


@pytest.mark.parametrize("given", ["0.000001ms", 1e-9, "999999999999h", 86_401])
def test_periods_that_no_consumer_has(given: object) -> None:
    with pytest.raises(PeriodError, match="from 1ms to 24h"):
        parse_every(given)


def test_periods_of_consumers() -> None:
    assert [parse_every(each) for each in (0, "0", "1ms", "24h")] == [0.0, 0.0, 0.001, 86_400.0]
