"""RE2's expressions in the words of Java's, which is what Spark has.

Java means something else by `$`, `.`, `\\s`, `\\b`, `(?i)` and most classes, so nothing of the spelling is kept: the
tree of sets (`regex_tree`) is written out anew, with every set in full.

RE2 takes one step per character. Java tries one way after the other, and where a repetition can be read in two ways
the ways double with each character: `(x|x)*y` never ends on a text of forty x. Most such expressions have a simpler
form that means the same; what still has two ways after that is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product

from fumarole.pipeline.columns.regex_tree import (
    CannotTranslateError,
    Characters,
    Choice,
    Node,
    Place,
    Ranges,
    Repeat,
    Sequence,
    nullable,
    parse,
    simplified,
)

_WORD = "[0-9A-Za-z_]"
_PLACES = {
    Place.BEGIN: r"\A",
    Place.END: r"\z",
    Place.LINE_BEGIN: r"(?:\A|(?<=\n))",
    Place.LINE_END: r"(?:\z|(?=\n))",
    Place.WORD_EDGE: f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))",
}
_NEVER = "(?!)"


@lru_cache(maxsize=256)
def java_regex(regex: str) -> str:
    """An expression for Java that is found in exactly the texts in which RE2 finds this one.

    Raises CannotTranslateError where there is none, or none that is sure to end.
    """
    tree = simplified(parse(regex))
    for loop in _loops(tree):
        if _Automaton(loop).doubles():
            raise CannotTranslateError(
                "a repetition in it can be read in more than one way, and Spark would try them all; "
                "write it so that each text is read in one way only"
            )
    return _written(tree)


def java_literal(text: str) -> str:
    """An expression for Java that is found where this text is."""
    return "".join([_character(ord(character)) for character in text])


def _written(node: Node) -> str:
    match node:
        case Characters(ranges):
            return _set(ranges)
        case Place():
            return _PLACES[node]
        case Sequence(parts):
            return "".join([f"(?:{_written(part)})" if isinstance(part, Choice) else _written(part) for part in parts])
        case Choice(options):
            return "|".join(map(_written, options))
        case Repeat(inner, low, high):
            text = _written(inner) if isinstance(inner, Characters) else f"(?:{_written(inner)})"
            return text + _times(low, high)


def _times(low: int, high: int | None) -> str:
    known = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    return known.get((low, high)) or f"{{{low},{'' if high is None else high}}}"


def _set(ranges: Ranges) -> str:
    if not ranges:
        return _NEVER
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _character(ranges[0][0])
    return "[" + "".join(_character(a) if a == b else f"{_character(a)}-{_character(b)}" for a, b in ranges) + "]"


def _character(code: int) -> str:
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\x{{{code:x}}}"


# Ambiguity.

_FEW = 3
"""Repetitions up to this number are counted as written out: they cannot double often."""
_MOST_POSITIONS = 150
Pair = tuple[int, int]


def _loops(node: Node) -> Iterator[Repeat]:
    """The outermost repetitions."""
    match node:
        case Repeat(inner, _, high):
            if high is None or high > _FEW:
                yield node
            else:
                yield from _loops(inner)
        case Sequence(parts) | Choice(parts):
            for part in parts:
                yield from _loops(part)
        case _:
            pass


class _Automaton:
    """Glushkov's: a state for each set of characters that stands in the expression, and what may follow it."""

    def __init__(self, loop: Repeat) -> None:
        self._sets: list[Ranges] = []
        self._follows: list[set[int]] = []
        self._followed_twice = False
        self._add(Repeat(loop.node, 1, None))

    def _add(self, node: Node) -> tuple[set[int], set[int]]:
        """The states it can begin and end with."""
        match node:
            case Characters(ranges):
                if len(self._sets) == _MOST_POSITIONS:
                    raise CannotTranslateError("it repeats more than Spark can be trusted with")
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
            case Repeat(inner, _, high):
                first, last = self._add(inner)
                if high is None or high > _FEW:
                    self._join(last, first)
                else:
                    for _ in range(1, high):
                        more_first, more_last = self._add(inner)
                        self._join(last, more_first)
                        last = more_last | last
                return first, last

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

    def _join(self, before: set[int], after: set[int]) -> None:
        for state in before:
            self._followed_twice |= not self._follows[state].isdisjoint(after)
            self._follows[state] |= after

    def doubles(self) -> bool:
        """Can the same text lead from a state back to it in two ways?

        In the product of the automaton with itself: is a pair of different states on a circle through a pair of equal
        ones?
        """
        after = self._product()
        before: dict[Pair, set[Pair]] = {pair: set() for pair in after}
        for pair, nexts in after.items():
            for following in nexts:
                before[following].add(pair)
        if self._followed_twice or all(one == other for one, other in after):
            return self._followed_twice
        states = range(len(self._sets))
        return any(
            one != other
            for state in states
            for one, other in _reachable((state, state), after) & _reachable((state, state), before)
        )

    def _product(self) -> dict[Pair, set[Pair]]:
        """The pairs of states that one text can lead to from one state, and where each leads."""
        meets = {
            pair: _meet(self._sets[pair[0]], self._sets[pair[1]]) for pair in product(range(len(self._sets)), repeat=2)
        }
        after: dict[Pair, set[Pair]] = {}
        todo = [(state, state) for state in range(len(self._sets))]
        while todo:
            pair = todo.pop()
            if pair not in after:
                one, other = pair
                after[pair] = {each for each in product(self._follows[one], self._follows[other]) if meets[each]}
                todo.extend(after[pair])
        return after


def _reachable(start: Pair, edges: dict[Pair, set[Pair]]) -> set[Pair]:
    found: set[Pair] = set()
    todo = [start]
    while todo:
        for pair in edges[todo.pop()] - found:
            found.add(pair)
            todo.append(pair)
    return found


def _meet(some: Ranges, others: Ranges) -> bool:
    return any(first <= end and begin <= last for first, last in some for begin, end in others)
