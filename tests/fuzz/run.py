"""Fuzzing for as long as you like: `make fuzz`, or

    python tests/fuzz/run.py [--seconds 600] [--only NAME]
    python tests/fuzz/run.py --seed 12345 --only hot_paths      replays one, and shortens it

Ends with 1 at the first seed that fails, and says how to replay it.
"""

import argparse
import itertools
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.fuzz.checks import CHECKS, shortest
from tests.fuzz.conversations import conversation


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--only", choices=CHECKS)
    given = parser.parse_args()
    names = [given.only] if given.only else list(CHECKS)
    if given.seed is not None:
        return max(_try(name, given.seed) for name in names)
    return _run(names, given.seconds)


def _run(names: list[str], seconds: float) -> int:
    first = time.time_ns() // 1000 % 10**12
    began = told = time.monotonic()
    for seed in itertools.count(first):
        for name in names:
            if _try(name, seed):
                return 1
        now = time.monotonic()
        if now - told > 5 or now - began > seconds:
            told = now
            print(f"{seed - first + 1} seeds from {first} on, {now - began:.0f} s: nothing found", flush=True)
        if now - began > seconds:
            return 0
    raise AssertionError("numbers have no end")


def _try(name: str, seed: int) -> int:
    try:
        CHECKS[name](seed)
    except Exception:  # noqa: BLE001 - whatever it is, it is what we were looking for
        traceback.print_exc()
        print(f"\n{name} fails. Replay: python tests/fuzz/run.py --only {name} --seed {seed}")
        if name == "hot_paths":
            authentication, steps = conversation(seed)
            print(f"The shortest of its kind, authentication {authentication}:")
            for step in shortest(authentication, steps):
                print(f"  {step}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
