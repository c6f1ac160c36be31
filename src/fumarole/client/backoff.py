"""The delay before the next attempt: twice as long each time, up to a limit, with a random part."""

from collections.abc import Callable, Iterator

SHORTEST = 0.05
LONGEST = 2.0


def delays(chance: Callable[[], float], shortest: float = SHORTEST, longest: float = LONGEST) -> Iterator[float]:
    """Delays in seconds, without end. `chance` gives numbers from 0 to 1 and takes up to half of a delay away."""
    delay = shortest
    while True:
        yield delay * (0.5 + 0.5 * chance())
        delay = min(delay * 2, longest)
