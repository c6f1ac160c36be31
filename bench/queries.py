"""What a change of one metadata key costs while many queries stand, in a process of its own: `python bench/queries.py`.

The queries are of every kind, over a thousand keys, and two of three ask for one of a few kinds of sensor as well, as
people do. Prints one line of JSON: microseconds for a change with the index, for evaluating every query once, their
ratio, how many queries were evaluated for a change, and the same for a producer that appears.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.effort import Effort
from bench.figures import Figure, against
from fumarole.core.query.index import QueryIndex
from fumarole.core.query.tree import And, Between, Compare, In, Like, Not, Or, Query, Value, constant

KINDS = ["temperature", "humidity", "pressure", "light", "sound"]
STANDING = 100_000
TIMES_FASTER = 50
VALUES = 100
KEYS_OF_A_PRODUCER = 20


def measure(effort: Effort) -> Iterator[Figure]:
    effort.tell("queries")
    command = [sys.executable, __file__, "--queries", str(effort.share(STANDING)), "--rounds", str(effort.rounds)]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(run.stdout)
    claim = f"{STANDING:,} standing queries over 1,000 keys"
    changes, scans = 1e6 / found["change"], 1e6 / found["every"]
    yield against("evaluating all", claim, "changes of one key", changes, scans, "/s", at_least=TIMES_FASTER)


def standing(number: int, keys: int, chance: random.Random) -> Query:
    """One query. Keys with even numbers have text, the others numbers."""

    def about(key: int) -> Query:
        name, text = f"key{key}", f"value-{chance.randrange(VALUES)}"
        if key % 2 == 0:
            of_text: list[Query] = [
                Compare(name, "=", constant(text)),
                Compare(name, "=", constant(text)),
                In(name, tuple(constant(f"value-{chance.randrange(VALUES)}") for _ in range(3))),
                Like(name, text[:-1] + "%"),
                Not(Compare(name, "=", constant(text))),
            ]
            return chance.choice(of_text)
        low = chance.random() * VALUES
        of_numbers: list[Query] = [
            Compare(name, ">", constant(low)),
            Compare(name, "<=", constant(low)),
            Between(name, constant(low), constant(low + 5)),
        ]
        return chance.choice(of_numbers)

    first, second = (about(chance.randrange(keys)) for _ in range(2))
    query = And((first, second)) if chance.random() < 0.7 else Or((first, second))
    return query if number % 3 == 0 else And((Compare("Kind", "=", constant(chance.choice(KINDS))), query))


def producer(keys: int, chance: random.Random) -> dict[str, Value]:
    metadata: dict[str, Value] = {"Kind": chance.choice(KINDS)}
    for key in chance.sample(range(keys), KEYS_OF_A_PRODUCER):
        metadata[f"key{key}"] = value(key, chance)
    return metadata


def value(key: int, chance: random.Random) -> Value:
    return f"value-{chance.randrange(VALUES)}" if key % 2 == 0 else chance.random() * VALUES


def best_time(rounds: int, times: int, work: Callable[[], object]) -> float:
    """Microseconds for one of so many times."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best / times * 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    for option, default in (("--queries", 100_000), ("--keys", 1_000), ("--changes", 1_000), ("--rounds", 3)):
        parser.add_argument(option, type=int, default=default)
    asked = parser.parse_args()
    chance, index = random.Random(3), QueryIndex()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    for number in range(asked.queries):
        index.add(standing(number, asked.keys, chance))
    adding = (time.process_time() - start) / asked.queries * 1e6
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory

    changes = []
    for _ in range(asked.changes):
        before = producer(asked.keys, chance)
        key = chance.choice([name for name in before if name != "Kind"])
        changes.append((before, {**before, key: value(int(key[3:]), chance)}, (key,)))
    for before, after, _ in changes[:5]:
        entered, left = index.change(before, after, after)
        assert entered == {one for one in index if one.selects(after) and not one.selects(before)}
        assert left == {one for one in index if one.selects(before) and not one.selects(after)}

    index.evaluated = 0
    changing = best_time(asked.rounds, asked.changes, lambda: [index.change(*change) for change in changes])
    evaluated = index.evaluated / asked.changes / asked.rounds
    index.evaluated = 0
    appearing = best_time(
        asked.rounds, asked.changes, lambda: [index.change({}, after, after) for _, after, _ in changes]
    )
    found = index.evaluated / asked.changes / asked.rounds
    _, after, _ = changes[0]
    scanning = best_time(asked.rounds, 1, lambda: [one for one in index if one.selects(after)])
    print(
        json.dumps(
            {
                "queries": len(index),
                "change": round(changing, 2),
                "every": round(scanning),
                "ratio": round(scanning / changing),
                "evaluated": round(evaluated, 1),
                "appear": round(appearing, 2),
                "appear_ratio": round(scanning / appearing),
                "appear_evaluated": round(found, 1),
                "add": round(adding, 1),
                "bytes_a_query": round(memory * 1024 / len(index)),
            }
        )
    )


if __name__ == "__main__":
    main()
