from itertools import islice

import pytest

from fumarole.client.backoff import delays


@pytest.mark.parametrize(
    ("chance", "expected"),
    [
        (1.0, [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]),
        (0.0, [0.05, 0.1, 0.2, 0.4, 0.5, 0.5]),
        (0.5, [0.075, 0.15, 0.3, 0.6, 0.75, 0.75]),
    ],
)
def test_delays_double_up_to_the_longest_and_vary_by_half(chance: float, expected: list[float]) -> None:
    assert list(islice(delays(lambda: chance, 0.1, 1.0), 6)) == pytest.approx(expected)
