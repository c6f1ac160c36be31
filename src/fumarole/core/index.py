"""Many patterns against one topic: a trie of words, run as an automaton.

Each pattern is a path from the root, one node per word; patterns that begin alike share the beginning. A topic is run
through the trie word by word, all the nodes it can be at moving together, so nothing is ever tried twice:

    patterns   a.*.c   a.b.>        topic   a.b.c

    at {root}      -- a -->  at {a}
    at {a}         -- b -->  at {a.*, a.b}
    at {a.*, a.b}  -- c -->  at {a.*.c}, and a.b.> is found on the way
    found: a.*.c, a.b.>

A MANY node (`#`) stays where it is at every word, and is entered without taking one. The nodes form a set at each
step, so the cost of a topic is at most its words times the nodes, however many `#` there are (T7), and recursion
never comes into it. What it was is counted in `looked_at`: patterns can be so made that one topic runs along very many,
and whoever has many new topics must not keep others waiting.

Words with `*` inside are found by what is fixed about them: `Globs` keeps them by their prefix, their suffix and an
anchor between, so that `sensor-1*` … `sensor-99999*` are one look-up, and `*-1-*` … `*-99999-*` one for each place in
the word, not a scan.

Of a million patterns most stand alone: a node with one child, a value on its own. So an only child is kept without
a dict, and few values in a tuple.

Who keeps the answer to a match can tell whether it is still right. Other nodes may be found only after an `add` that
says so; what a node stands for has changed if its `version` is newer. A pattern that comes and goes, again and
again, should not be new each time: the last few that lost their last value keep their nodes, empty.

This file is also compiled, with C types from fastpath/index.pxd, where there is a compiler: same source, same
meaning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from fumarole.core.topic import MANY, ONE, SOME, Glob, Pattern, Word

FEW = 8
"""Values of a node that a tuple holds; beyond, removing one by one would take long."""
IDLE_KEPT = 64
"""Patterns without a value that keep their nodes."""
ANCHOR = 8
"""Characters of a glob's longest inner part that it is found by."""
LETTERS_AT_ONCE = 16
"""Letters of a word that take about as long to search as a node to look at."""


class Node:
    """A place in the trie. What ends here is in `values`; where a word leads is in the other fields."""

    __slots__ = ("child", "globs", "literals", "many", "one", "repeats", "some", "values", "version", "word")

    def __init__(self, repeats: bool = False) -> None:
        self.word: str | None = None
        self.child: Node | None = None
        """Where `word` leads, while it is the only literal one; with the second, all are in `literals`."""
        self.literals: dict[str, Node] | None = None
        self.globs: Globs | None = None
        self.one: Node | None = None
        self.some: Node | None = None
        self.many: Node | None = None
        self.repeats = repeats
        self.values: Collection[Any] | None = None
        """In the order of adding; None: no pattern ends here."""
        self.version = 0
        """That of the index when `values` last changed."""


class Globs:
    """The children of a node whose words have `*` inside, by (prefix, suffix, anchor), by the lengths of the three.

    The anchor is the beginning of the longest part between two `*`; where there is none, it is empty.
    """

    __slots__ = ("shapes",)

    def __init__(self) -> None:
        self.shapes: dict[tuple[int, int, int], dict[tuple[str, str, str], dict[tuple[str, ...], Node]]] = {}

    def __bool__(self) -> bool:
        return bool(self.shapes)

    def __iter__(self) -> Iterator[Node]:
        for table in self.shapes.values():
            for bucket in table.values():
                yield from bucket.values()

    def get(self, glob: Glob) -> Node | None:
        shape, fixed = _fixed(glob)
        bucket = self.shapes.get(shape, {}).get(fixed)
        return bucket.get(glob.middle) if bucket else None

    def add(self, glob: Glob, node: Node) -> None:
        shape, fixed = _fixed(glob)
        self.shapes.setdefault(shape, {}).setdefault(fixed, {})[glob.middle] = node

    def remove(self, glob: Glob) -> None:
        shape, fixed = _fixed(glob)
        table = self.shapes[shape]
        del table[fixed][glob.middle]
        if not table[fixed]:
            del table[fixed]
        if not table:
            del self.shapes[shape]

    def match(self, word: str, following: list[Node]) -> int:
        """Adds to `following` the nodes whose word matches. How much was looked at."""
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
                for middle, node in bucket.items():
                    if not middle:
                        following.append(node)
                    else:
                        looked_at += 1 + (end - before) // LETTERS_AT_ONCE
                        if _in_order(middle, word, before, end):
                            following.append(node)
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
    """Patterns and what they stand for. `match` gives the nodes whose `values` apply."""

    __slots__ = ("_idle", "_repeating", "_root", "_size", "looked_at", "version")

    def __init__(self) -> None:
        self._root = Node()
        self._size = 0
        self._repeating = 0
        self._idle: dict[Pattern, None] = {}
        self.version = 0
        """Grows with every change."""
        self.looked_at = 0
        """Grows with every match, by the nodes that it looked at; and by values, where somebody goes through those."""

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        """Every value, in no order."""
        todo = [self._root]
        while todo:
            node = todo.pop()
            if node.values is not None:
                yield from node.values
            if node.literals is not None:
                todo.extend(node.literals.values())
            if node.globs is not None:
                todo.extend(node.globs)
            todo.extend([child for child in (node.child, node.one, node.some, node.many) if child is not None])

    def add(self, pattern: Pattern, value: Any) -> bool:
        """Adds the value under the pattern; adding it again changes nothing. True: topics may now find other nodes."""
        node = self._root
        for word in pattern:
            child = _child(node, word)
            if child is None:
                child = _grow(node, word)
                if word is MANY:
                    self._repeating += 1
            node = child
        is_new = node.values is None
        if node.values is None or value not in node.values:
            _add_value(node, value)
            self._size += 1
            self.version += 1
            node.version = self.version
        return is_new

    def remove(self, pattern: Pattern, value: Any) -> bool:
        """Removes the value, and in time every node that nothing needs any more. False: it was not there."""
        node = self._root
        for word in pattern:
            child = _child(node, word)
            if child is None:
                return False
            node = child
        if not node.values or value not in node.values:
            return False
        _remove_value(node, value)
        self._size -= 1
        self.version += 1
        node.version = self.version
        if not node.values:
            self._idle[pattern] = None
            while len(self._idle) > (IDLE_KEPT if self._size else 0):
                oldest = next(iter(self._idle))
                del self._idle[oldest]
                self._prune(oldest)
        return True

    def _prune(self, pattern: Pattern) -> None:
        """Takes away the nodes of this pattern that nothing needs. Who had found one finds it empty for ever."""
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

    def match(self, words: list[str]) -> list[Node]:
        """The nodes whose pattern matches a topic of these words. A few may have no values just now."""
        found: list[Node] = []
        at = [self._root]
        if self._repeating:
            at = _settled(at)
        for word in words:
            following: list[Node] = []
            self.looked_at += len(at)
            for node in at:
                if node.some is not None:
                    found.append(node.some)
                if node.child is not None:
                    if node.word == word:
                        following.append(node.child)
                elif node.literals is not None:
                    child = node.literals.get(word)
                    if child is not None:
                        following.append(child)
                if node.one is not None:
                    following.append(node.one)
                if node.globs is not None:
                    self.looked_at += node.globs.match(word, following)
                if node.repeats:
                    following.append(node)
            if not following:
                return found
            at = _settled(following) if self._repeating else following
        found.extend([node for node in at if node.values is not None])
        return found


def _settled(nodes: Iterable[Node]) -> list[Node]:
    """The nodes and every MANY node that they lead to without taking a word, each once."""
    seen = dict.fromkeys(nodes)
    todo = list(seen)
    while todo:
        node = todo.pop()
        if node.many is not None and node.many not in seen:
            seen[node.many] = None
            todo.append(node.many)
    return list(seen)


def _is_empty(node: Node) -> bool:
    return not (node.values or node.child or node.literals or node.one or node.some or node.many or node.globs)


def _add_value(node: Node, value: Any) -> None:
    if not node.values:
        node.values = (value,)
    elif isinstance(node.values, dict):
        node.values[value] = None
    elif len(node.values) < FEW:
        node.values = (*node.values, value)
    else:
        node.values = dict.fromkeys((*node.values, value))


def _remove_value(node: Node, value: Any) -> None:
    if isinstance(node.values, dict):
        del node.values[value]
    elif node.values is not None:
        node.values = tuple([other for other in node.values if other != value])
    if not node.values:
        node.values = ()  # an empty dict would keep the room it once needed


def _child(node: Node, word: Word) -> Node | None:
    if word is ONE:
        return node.one
    if word is SOME:
        return node.some
    if word is MANY:
        return node.many
    if isinstance(word, Glob):
        return None if node.globs is None else node.globs.get(word)
    if node.word is not None:
        return node.child if node.word == word else None
    return None if node.literals is None else node.literals.get(word)


def _grow(node: Node, word: Word) -> Node:
    child = Node(word is MANY)
    if word is ONE:
        node.one = child
    elif word is SOME:
        node.some = child
    elif word is MANY:
        node.many = child
    elif isinstance(word, Glob):
        if node.globs is None:
            node.globs = Globs()
        node.globs.add(word, child)
    elif node.literals is not None:
        node.literals[word] = child
    elif node.word is None:
        node.word, node.child = word, child
    else:
        assert node.child is not None
        node.literals = {node.word: node.child, word: child}
        node.word = node.child = None
    return child


def _cut(node: Node, word: Word) -> None:
    if word is ONE:
        node.one = None
    elif word is SOME:
        node.some = None
    elif word is MANY:
        node.many = None
    elif isinstance(word, Glob):
        assert node.globs is not None
        node.globs.remove(word)
        if not node.globs:
            node.globs = None
    elif node.literals is not None:
        del node.literals[word]
        if not node.literals:
            node.literals = None
    else:
        node.word = node.child = None
