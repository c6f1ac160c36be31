from email.utils import formatdate

from hypothesis import given
from hypothesis import strategies as st

from fumarole.doors.http import http_date


@given(st.integers(min_value=0, max_value=253402300799))  # up to the year 9999
def test_dates_are_those_of_the_standard_library(seconds: int) -> None:
    assert http_date(seconds) == formatdate(seconds, usegmt=True)
