"""Q5: how long a message is of use."""

import pytest

from fumarole.core import headers
from fumarole.exchange.expiry import has_expired, seconds_of, with_seconds_left

BLOCK = headers.build([("Retain", "1"), ("Mqtt-Expiry", "60"), ("Unit", "K")])


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("60", 60), ("0", 0), ("4294967295", 4294967295), ("4294967296", None), ("-1", None), ("1_0", None), ("٣", None),
     ("", None), ("1.5", None), ("00000000060", None)],
)  # fmt: skip
def test_only_a_number_counts(value: str, seconds: int | None) -> None:
    assert seconds_of(headers.build([("Mqtt-Expiry", value)])) == seconds


def test_what_is_left() -> None:
    assert seconds_of(b"") is None
    assert not has_expired(b"", 1e9)
    assert [has_expired(BLOCK, age) for age in (0.0, 59.9, 60.0)] == [False, False, True]
    assert headers.parse(with_seconds_left(BLOCK, 12.5)) == [("Retain", "1"), ("Unit", "K"), ("Mqtt-Expiry", "48")]
    assert seconds_of(with_seconds_left(BLOCK, 100.0)) == 0
    assert with_seconds_left(b"", 1.0) == b""
