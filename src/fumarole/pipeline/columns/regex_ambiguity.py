"""In how many ways Java could read a text by an expression: it tries them all before it says that none fits.

Three things make ways; each is measured on Glushkov's automaton, which has a state for each set of characters that
stands in the expression.

- A repetition that can be read in two ways: with each turn the ways double. `^(x|x)*y` never ends on forty x. None is
  allowed.
- Repetitions that can share their text: the border between two of them may be at any character. A search is one of
  them, since it may begin at any. So `a.*b{1,2}.*c` has two borders, and the ways grow with the square of the text.
  Two are allowed.
- Other choices, as in `a?a?a?`. What they come to is counted, and a thousand are allowed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import or_
from typing import Final

from fumarole.pipeline.columns.regex_tree import (
    CannotTranslateError,
    Characters,
    Choice,
    First,
    Node,
    Place,
    Ranges,
    Repeat,
    Sequence,
    length,
    nullable,
)

_FEW: Final = 3
"""Repetitions up to this number are counted as written out; more are as good as without end."""
_MOST_STATES: Final = 150
"""In one repetition."""
_MOST_BORDERS: Final = 2
_MOST_CHOICES: Final = 1_000
_ANY: Final = Characters(((0, 0x10FFFF),))


def check_ways(tree: Node) -> None:
    """Raises CannotTranslateError if there are too many."""
    automaton = _Automaton(Sequence((_ANY if _at_begin(tree) else Repeat(_ANY, 1, None), tree)))
    if automaton.doubles():
        raise CannotTranslateError(
            "a repetition in it can be read in more than one way, and Spark would try them all; "
            "write it so that each text is read in one way only"
        )
    if automaton.borders() > _MOST_BORDERS:
        raise CannotTranslateError(
            "too many repetitions in it can share their text, and Spark would try every way to divide it; "
            "say where each of them ends, as `[^-]*-` does in place of `.*-`"
        )
    if automaton.choices() > _MOST_CHOICES:
        raise CannotTranslateError(
            "too many choices in it are open at once, and Spark would try them all; "
            "write `a{0,9}` for nine times `a?`, and only once what several options begin with"
        )


def _at_begin(node: Node) -> bool:
    match node:
        case Place():
            return node is Place.BEGIN
        case Sequence((first, *_)):
            return _at_begin(first)
        case Choice(options):
            return all(map(_at_begin, options))
        case _:
            return False


@dataclass(frozen=True, slots=True)
class _Loop:
    """A repetition that is in no other one. Its states all lead to each other."""

    states: range
    free: bool
    """May it end at more than one place?"""


class _Automaton:
    def __init__(self, tree: Node) -> None:
        self._sets: list[Ranges] = []
        self._follows: list[set[int]] = []
        self._followed_twice = False
        self._loops: list[_Loop] = []  # from left to right: none leads to one before it
        self._in_loop = False
        self._add(tree)
        self._bits = _as_bits(self._sets)

    def _add(self, node: Node) -> tuple[set[int], set[int]]:
        """The states it can begin and end with."""
        match node:
            case Characters(ranges):
                self._sets.append(ranges)
                self._follows.append(set())
                return {len(self._sets) - 1}, {len(self._sets) - 1}
            case Place():
                return set(), set()
            case Choice(options):
                ends = [self._add(option) for option in options]
                return set().union(*[first for first, _ in ends]), set().union(*[last for _, last in ends])
            case Sequence(parts):
                return self._add_sequence(parts)
            case Repeat(_, _, high) if high is None or high > _FEW:
                return self._add_loop(node)
            case Repeat(inner, _, high):
                first, last = self._add(inner)
                for _ in range(1, high or 0):
                    more_first, more_last = self._add(inner)
                    self._join(last, more_first)
                    last = more_last | last
                return first, last
            case First(gap, until):
                # Nothing that follows is tried a second time: no way leads out of the gap.
                gap_first, _ = self._add(gap)
                first, last = self._add(until)
                return gap_first | first, last

    def _add_sequence(self, parts: tuple[Node, ...]) -> tuple[set[int], set[int]]:
        first: set[int] = set()
        last: set[int] = set()
        begun = False
        for part in parts:
            begins, ends = self._add(part)
            self._join(last, begins)
            first |= set() if begun else begins
            last = last | ends if nullable(part) else ends
            begun = begun or not nullable(part)
        return first, last

    def _add_loop(self, node: Repeat) -> tuple[set[int], set[int]]:
        outermost, self._in_loop = not self._in_loop, True
        begin = len(self._sets)
        first, last = self._add(node.node)
        states = range(begin, len(self._sets))
        if len(states) > _MOST_STATES:
            raise CannotTranslateError("it repeats more than Spark can be trusted with")
        self._join(last, first)
        if outermost:
            self._in_loop = False
            self._loops.append(_Loop(states, free=length(node) is None))
        return first, last

    def _join(self, before: set[int], after: set[int]) -> None:
        for state in before:
            self._followed_twice |= not self._follows[state].isdisjoint(after)
            self._follows[state] |= after

    def doubles(self) -> bool:
        """Can the same text lead from a state of a loop back to it in two ways?"""
        return self._followed_twice or any(self._parts_and_meets(loop.states) for loop in self._loops)

    def _parts_and_meets(self, loop: range) -> bool:
        """Can the same text lead from one state to different states, and then to one state again?"""
        todo = [(state, state) for state in loop]
        known = set(todo)
        while todo:
            one, other = todo.pop()
            for pair in product(self._follows[one], self._follows[other]):
                if pair[0] not in loop or pair[1] not in loop or not self._bits[pair[0]] & self._bits[pair[1]]:
                    continue
                if pair[0] == pair[1] and one != other:
                    return True
                if pair not in known:
                    known.add(pair)
                    todo.append(pair)
        return False

    def borders(self) -> int:
        """How many borders on one way through the expression may be at any character; no more than one too many.

        A border between two loops is free if a text that both of them can repeat also leads from one to the other.
        That it has only such characters as both have is a little less, and easy to see.
        """
        most: list[int] = []
        alphabets = [reduce(or_, [self._bits[state] for state in loop.states], 0) for loop in self._loops]
        reached = [self._reached(loop.states, -1) for loop in self._loops]
        for number, (loop, alphabet) in enumerate(zip(self._loops, alphabets, strict=True)):
            before = 0
            for earlier in range(number):
                if not reached[earlier].isdisjoint(loop.states):
                    both = alphabets[earlier] & alphabet
                    free = loop.free and self._loops[earlier].free and both
                    shared = free and not self._reached(self._loops[earlier].states, both).isdisjoint(loop.states)
                    before = max(before, most[earlier] + bool(shared))
            most.append(before)
            if before > _MOST_BORDERS:
                break
        return max(most, default=0)

    def _reached(self, states: Collection[int], characters: int) -> set[int]:
        """Where a text of such characters leads from these states."""
        todo = [state for state in states if self._bits[state] & characters]
        found = set(todo)
        while todo:
            for state in self._follows[todo.pop()] - found:
                if self._bits[state] & characters:
                    found.add(state)
                    todo.append(state)
        return found

    def choices(self) -> int:
        """How many ways there are for one text, apart from those of the loops; no more than some too many."""
        ways = [1] * len(self._sets)
        loop_of = {state: loop.states for loop in self._loops for state in loop.states}
        for state in reversed(range(len(self._sets))):
            loop = loop_of.get(state, range(state, state + 1))
            if state == loop.start:  # all that follows a loop, or a state in none, stands behind it
                most = max(self._choices(self._follows[each] - set(loop), ways) for each in loop)
                for each in loop:
                    ways[each] = most
                if most > _MOST_CHOICES:
                    return most
        return max(ways, default=1)

    def _choices(self, states: Collection[int], ways: list[int]) -> int:
        by_characters: Counter[int] = Counter()
        for state in states:
            by_characters[self._bits[state]] += ways[state]
        sums = [sum(n for others, n in by_characters.items() if some & others) for some in by_characters]
        return max(sums, default=1) or 1


def _as_bits(sets: list[Ranges]) -> list[int]:
    """A number for each set. Two have a character in common exactly if their numbers have a bit in common."""
    borders = sorted({border for ranges in sets for first, last in ranges for border in (first, last + 1)})
    known = {
        ranges: sum(
            (1 << bisect_left(borders, last + 1)) - (1 << bisect_left(borders, first)) for first, last in ranges
        )
        for ranges in set(sets)
    }
    return [known[ranges] for ranges in sets]
