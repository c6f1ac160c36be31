"""How long to wait before the next attempt: twice as long each time, up to a limit, and never all clients at once."""

from collections.abc import Callable, Iterator

SHORTEST = 0.05
LONGEST = 2.0


def delays(chance: Callable[[], float], shortest: float = SHORTEST, longest: float = LONGEST) -> Iterator[float]:
    """Seconds, without end. `chance` gives numbers from 0 to 1; a delay is between half and the whole of its turn's."""
    delay = shortest
    while True:
        yield delay * (0.5 + 0.5 * chance())
        delay = min(delay * 2, longest)
