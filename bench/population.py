"""A population of consumers of mixed patterns, and new topics that a fixed number of them match.

Every site has four consumers: a literal, one with `*`, one with `>` and one with `*` inside a word. A topic of a site,
whatever its sensor is called, is matched by two of them, however large the population is:

    plant.17.boiler.temperature     plant.17.*.pressure     plant.17.>     plant.unit-17-*.pump.*
                                    ^^^^^^^^^^^^^^^^^^^     ^^^^^^^^^^     plant.17.ANYTHING.pressure
"""

import random
from collections.abc import Iterator

MATCHING = 2
FORMS = ("plant.{}.boiler.temperature", "plant.{}.*.pressure", "plant.{}.>", "plant.unit-{}-*.pump.*")


def patterns(count: int) -> Iterator[str]:
    for number in range(count):
        yield FORMS[number % len(FORMS)].format(number // len(FORMS))


def new_topics(count: int, of_consumers: int, name: str) -> list[str]:
    """Topics of sites chosen at random, the same ones in every run; another `name` makes other topics."""
    chance = random.Random(name)
    sites = of_consumers // len(FORMS)
    return [f"plant.{chance.randrange(sites)}.{name}-{number}.pressure" for number in range(count)]
