"""Many patterns against one topic: a trie of words, run as an automaton.

Each pattern is a path from the root, one level per word; patterns that begin alike share the beginning. A topic is run
through the trie word by word, all the levels it can be at moving together, so nothing is ever tried twice:

    patterns   a.*.c   a.b.>        topic   a.b.c

    at {root}      -- a -->  at {a}
    at {a}         -- b -->  at {a.*, a.b}
    at {a.*, a.b}  -- c -->  at {a.*.c}, and a.b.> is found on the way
    found: a.*.c, a.b.>

A MANY level (`#`) stays where it is at every word, and is entered without taking one. The levels form a set at each
step, so the cost of a topic is at most its words times the levels, however many `#` there are (T7), and recursion
never comes into it. What it was is counted in `looked_at`: patterns can be so made that one topic runs along very many,
and a client with many new topics must not keep others waiting.

Words with `*` inside are found by what is fixed about them: `Globs` keeps them by their prefix, their suffix and an
anchor between, so that `sensor-1*` … `sensor-99999*` are one look-up, and `*-1-*` … `*-99999-*` one for each place in
the word, not a scan.

Of a million patterns most stand alone: a level with one child, a value on its own. So an only child is kept without
a dict, and few values in a tuple.

A kept answer to a match can be checked later. Other levels may be found only after an `add` that returns True; what a
level stands for has changed if its `version` is newer. A pattern that comes and goes again and again is not new each
time: the last few that lost their last value keep their levels, empty.

This file is also compiled, with C types from fastpath/index.pxd, where there is a compiler: same source, same
meaning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from fumarole.core.topic import MANY, ONE, SOME, Glob, Pattern, Word

FEW = 8
"""Values of a level that a tuple holds; beyond, removing one by one would take long."""
IDLE_KEPT = 64
"""Patterns without a value that keep their levels."""
ANCHOR = 8
"""Characters of a glob's longest inner part that it is found by."""
LETTERS_AT_ONCE = 16
"""Letters of a word that take about as long to search as a level to look at."""


class Level:
    """A place in the trie. What ends here is in `values`; where a word leads is in the other fields."""

    __slots__ = ("child", "globs", "literals", "many", "one", "repeats", "some", "values", "version", "word")

    def __init__(self, repeats: bool = False) -> None:
        self.word: str | None = None
        self.child: Level | None = None
        """Where `word` leads, while it is the only literal one; with the second, all are in `literals`."""
        self.literals: dict[str, Level] | None = None
        self.globs: Globs | None = None
        self.one: Level | None = None
        self.some: Level | None = None
        self.many: Level | None = None
        self.repeats = repeats
        self.values: Collection[Any] | None = None
        """In the order of adding; None: no pattern ends here."""
        self.version = 0
        """That of the index when `values` last changed."""


class Globs:
    """The children of a level whose words have `*` inside, by (prefix, suffix, anchor), by the lengths of the three.

    The anchor is the beginning of the longest part between two `*`; where there is none, it is empty.
    """

    __slots__ = ("shapes",)

    def __init__(self) -> None:
        self.shapes: dict[tuple[int, int, int], dict[tuple[str, str, str], dict[tuple[str, ...], Level]]] = {}

    def __bool__(self) -> bool:
        return bool(self.shapes)

    def __iter__(self) -> Iterator[Level]:
        for table in self.shapes.values():
            for bucket in table.values():
                yield from bucket.values()

    def get(self, glob: Glob) -> Level | None:
        shape, fixed = _fixed(glob)
        bucket = self.shapes.get(shape, {}).get(fixed)
        return bucket.get(glob.middle) if bucket else None

    def add(self, glob: Glob, level: Level) -> None:
        shape, fixed = _fixed(glob)
        self.shapes.setdefault(shape, {}).setdefault(fixed, {})[glob.middle] = level

    def remove(self, glob: Glob) -> None:
        shape, fixed = _fixed(glob)
        table = self.shapes[shape]
        del table[fixed][glob.middle]
        if not table[fixed]:
            del table[fixed]
        if not table:
            del self.shapes[shape]

    def match(self, word: str, following: list[Level]) -> int:
        """Adds to `following` the levels whose word matches. How much was looked at."""
        length = len(word)
        looked_at = len(self.shapes)
        for (before, after, size), table in self.shapes.items():
            end = length - after
            places = end - before - size + 1
            if places <= 0:
                continue
            head, tail = word[:before], word[end:]
            if not size:
                candidates = [(head, tail, "")]
            elif len(table) <= places:
                candidates = list(table)
            else:
                candidates = list(
                    dict.fromkeys([(head, tail, word[at : at + size]) for at in range(before, before + places)])
                )
            looked_at += len(candidates)
            for fixed in candidates:
                bucket = table.get(fixed)
                if bucket is None or fixed[0] != head or fixed[1] != tail:
                    continue
                for middle, level in bucket.items():
                    if not middle:
                        following.append(level)
                    else:
                        looked_at += 1 + (end - before) // LETTERS_AT_ONCE
                        if _in_order(middle, word, before, end):
                            following.append(level)
        return looked_at


def _fixed(glob: Glob) -> tuple[tuple[int, int, int], tuple[str, str, str]]:
    """Prefix, suffix and anchor, after the lengths of the three."""
    anchor = max(glob.middle, key=len, default="")[:ANCHOR]
    return (len(glob.prefix), len(glob.suffix), len(anchor)), (glob.prefix, glob.suffix, anchor)


def _in_order(parts: Sequence[str], word: str, start: int, end: int) -> bool:
    """Do the parts stand in the word one after another? The leftmost place for each is always good enough."""
    for part in parts:
        start = word.find(part, start, end)
        if start < 0:
            return False
        start += len(part)
    return True


class Index:
    """Patterns and what they stand for. `match` gives the levels whose `values` apply."""

    __slots__ = ("_idle", "_repeating", "_root", "_size", "looked_at", "version")

    def __init__(self) -> None:
        self._root = Level()
        self._size = 0
        self._repeating = 0
        self._idle: dict[Pattern, None] = {}
        self.version = 0
        """Grows with every change."""
        self.looked_at = 0
        """Grows with every match, by the levels that it looked at; and by values, where a caller goes through those."""

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        """Every value, in no order."""
        todo = [self._root]
        while todo:
            level = todo.pop()
            if level.values is not None:
                yield from level.values
            if level.literals is not None:
                todo.extend(level.literals.values())
            if level.globs is not None:
                todo.extend(level.globs)
            todo.extend([child for child in (level.child, level.one, level.some, level.many) if child is not None])

    def add(self, pattern: Pattern, value: Any) -> bool:
        """Adds the value under the pattern; adding it again changes nothing. True: topics may now find other levels."""
        level = self._root
        for word in pattern:
            child = _child(level, word)
            if child is None:
                child = _grow(level, word)
                if word is MANY:
                    self._repeating += 1
            level = child
        is_new = level.values is None
        if level.values is None or value not in level.values:
            _add_value(level, value)
            self._size += 1
            self.version += 1
            level.version = self.version
        return is_new

    def remove(self, pattern: Pattern, value: Any) -> bool:
        """Removes the value, and in time every level that nothing needs any more. False: it was not there."""
        level = self._root
        for word in pattern:
            child = _child(level, word)
            if child is None:
                return False
            level = child
        if not level.values or value not in level.values:
            return False
        _remove_value(level, value)
        self._size -= 1
        self.version += 1
        level.version = self.version
        if not level.values:
            self._idle[pattern] = None
            while len(self._idle) > (IDLE_KEPT if self._size else 0):
                oldest = next(iter(self._idle))
                del self._idle[oldest]
                self._prune(oldest)
        return True

    def _prune(self, pattern: Pattern) -> None:
        """Removes the levels of this pattern that nothing needs. A kept reference to one finds it empty for ever."""
        path = [self._root]
        for word in pattern:
            child = _child(path[-1], word)
            if child is None:
                return
            path.append(child)
        if path[-1].values:
            return
        path[-1].values = None
        for depth in range(len(pattern), 0, -1):
            if not _is_empty(path[depth]):
                break
            if pattern[depth - 1] is MANY:
                self._repeating -= 1
            _cut(path[depth - 1], pattern[depth - 1])

    def match(self, words: list[str]) -> list[Level]:
        """The levels whose pattern matches a topic of these words. A few may have no values just now."""
        found: list[Level] = []
        at = [self._root]
        if self._repeating:
            at = _settled(at)
        for word in words:
            following: list[Level] = []
            self.looked_at += len(at)
            for level in at:
                if level.some is not None:
                    found.append(level.some)
                if level.child is not None:
                    if level.word == word:
                        following.append(level.child)
                elif level.literals is not None:
                    child = level.literals.get(word)
                    if child is not None:
                        following.append(child)
                if level.one is not None:
                    following.append(level.one)
                if level.globs is not None:
                    self.looked_at += level.globs.match(word, following)
                if level.repeats:
                    following.append(level)
            if not following:
                return found
            at = _settled(following) if self._repeating else following
        found.extend([level for level in at if level.values is not None])
        return found


def _settled(levels: Iterable[Level]) -> list[Level]:
    """The levels and every MANY level that they lead to without taking a word, each once."""
    seen = dict.fromkeys(levels)
    todo = list(seen)
    while todo:
        level = todo.pop()
        if level.many is not None and level.many not in seen:
            seen[level.many] = None
            todo.append(level.many)
    return list(seen)


def _is_empty(level: Level) -> bool:
    return not (level.values or level.child or level.literals or level.one or level.some or level.many or level.globs)


def _add_value(level: Level, value: Any) -> None:
    if not level.values:
        level.values = (value,)
    elif isinstance(level.values, dict):
        level.values[value] = None
    elif len(level.values) < FEW:
        level.values = (*level.values, value)
    else:
        level.values = dict.fromkeys((*level.values, value))


def _remove_value(level: Level, value: Any) -> None:
    if isinstance(level.values, dict):
        del level.values[value]
    elif level.values is not None:
        level.values = tuple([other for other in level.values if other != value])
    if not level.values:
        level.values = ()  # an empty dict would keep the room it once needed


def _child(level: Level, word: Word) -> Level | None:
    if word is ONE:
        return level.one
    if word is SOME:
        return level.some
    if word is MANY:
        return level.many
    if isinstance(word, Glob):
        return None if level.globs is None else level.globs.get(word)
    if level.word is not None:
        return level.child if level.word == word else None
    return None if level.literals is None else level.literals.get(word)


def _grow(level: Level, word: Word) -> Level:
    child = Level(word is MANY)
    if word is ONE:
        level.one = child
    elif word is SOME:
        level.some = child
    elif word is MANY:
        level.many = child
    elif isinstance(word, Glob):
        if level.globs is None:
            level.globs = Globs()
        level.globs.add(word, child)
    elif level.literals is not None:
        level.literals[word] = child
    elif level.word is None:
        level.word, level.child = word, child
    else:
        assert level.child is not None
        level.literals = {level.word: level.child, word: child}
        level.word = level.child = None
    return child


def _cut(level: Level, word: Word) -> None:
    if word is ONE:
        level.one = None
    elif word is SOME:
        level.some = None
    elif word is MANY:
        level.many = None
    elif isinstance(word, Glob):
        assert level.globs is not None
        level.globs.remove(word)
        if not level.globs:
            level.globs = None
    elif level.literals is not None:
        del level.literals[word]
        if not level.literals:
            level.literals = None
    else:
        level.word = level.child = None
