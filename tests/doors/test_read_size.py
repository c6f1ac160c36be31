from hypothesis import given
from hypothesis import strategies as st

from fumarole.doors.read_size import LONG_BATCH, adaptive, fixed

LARGEST, SMALLEST = 64 * 1024, 4 * 1024
TIMES = st.sampled_from(
    [0.0, LONG_BATCH / 4 - 1e-6, LONG_BATCH / 4, LONG_BATCH / 2, LONG_BATCH, LONG_BATCH + 1e-6, 9.0]
)


def defined(size: int, took: float) -> int:
    """The definition: half after a long batch, twice after a short one, within bounds."""
    if took > LONG_BATCH:
        return max(size // 2, SMALLEST)
    return min(size * 2, LARGEST) if took < LONG_BATCH / 4 else size


@given(st.lists(TIMES))
def test_the_size_follows_the_time(times: list[float]) -> None:
    size, read_size = LARGEST, adaptive(LARGEST, SMALLEST)
    for took in times:
        size, read_size = defined(size, took), read_size.after(took)
        assert (len(read_size.space), read_size.is_reduced) == (size, size < LARGEST)


def test_all_sizes_share_their_memory() -> None:
    largest = adaptive(LARGEST, SMALLEST)
    smaller = largest.after(1.0)
    smaller.space[:2] = b"hi"
    assert largest.space[:2].tobytes() == b"hi"


@given(st.lists(TIMES))
def test_a_fixed_size_stays(times: list[float]) -> None:
    read_size = fixed(1000)
    for took in times:
        read_size = read_size.after(took)
        assert (len(read_size.space), read_size.is_reduced) == (1000, False)
