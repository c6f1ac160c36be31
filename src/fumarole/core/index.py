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
never comes into it.

Words with `*` inside are found by what is fixed about them: `Globs` keeps them by the lengths of their prefix and
suffix, so that `sensor-1*` … `sensor-99999*` are one look-up, not a scan.

This file is also compiled, with C types from fastpath/index.pxd, where there is a compiler: same source, same
meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fumarole.core.topic import MANY, ONE, SOME, Glob, Pattern, Word


class Node:
    """A place in the trie. What ends here is in `values`; where a word leads is in the other fields."""

    __slots__ = ("globs", "literals", "many", "one", "repeats", "some", "values")

    def __init__(self, repeats: bool = False) -> None:
        self.literals: dict[str, Node] | None = None
        self.globs: Globs | None = None
        self.one: Node | None = None
        self.some: Node | None = None
        self.many: Node | None = None
        self.repeats = repeats
        self.values: dict[Any, None] | None = None

    def is_empty(self) -> bool:
        return not (self.values or self.literals or self.one or self.some or self.many or self.globs)


class Globs:
    """The children of a node whose words have `*` inside, by (prefix, suffix), by the lengths of both."""

    __slots__ = ("shapes",)

    def __init__(self) -> None:
        self.shapes: dict[tuple[int, int], dict[tuple[str, str], dict[tuple[str, ...], Node]]] = {}

    def __bool__(self) -> bool:
        return bool(self.shapes)

    def __iter__(self) -> Iterator[Node]:
        for table in self.shapes.values():
            for bucket in table.values():
                yield from bucket.values()

    def get(self, glob: Glob) -> Node | None:
        bucket = self.shapes.get((len(glob.prefix), len(glob.suffix)), {}).get((glob.prefix, glob.suffix))
        return bucket.get(glob.middle) if bucket else None

    def add(self, glob: Glob, node: Node) -> None:
        table = self.shapes.setdefault((len(glob.prefix), len(glob.suffix)), {})
        table.setdefault((glob.prefix, glob.suffix), {})[glob.middle] = node

    def remove(self, glob: Glob) -> None:
        shape, ends = (len(glob.prefix), len(glob.suffix)), (glob.prefix, glob.suffix)
        table = self.shapes[shape]
        del table[ends][glob.middle]
        if not table[ends]:
            del table[ends]
        if not table:
            del self.shapes[shape]

    def match(self, word: str, following: list[Node]) -> None:
        """Adds to `following` the nodes whose word matches."""
        length = len(word)
        for (before, after), table in self.shapes.items():
            end = length - after
            if before <= end:
                bucket = table.get((word[:before], word[end:]))
                if bucket is not None:
                    for middle, node in bucket.items():
                        if not middle or _in_order(middle, word, before, end):
                            following.append(node)


def _in_order(parts: Sequence[str], word: str, start: int, end: int) -> bool:
    """Do the parts stand in the word one after another? The leftmost place for each is always good enough."""
    for part in parts:
        start = word.find(part, start, end)
        if start < 0:
            return False
        start += len(part)
    return True


class Index:
    """Patterns and what they stand for. `match` gives the nodes whose `values` (a dict, in order of adding) apply."""

    __slots__ = ("_repeating", "_root", "_size")

    def __init__(self) -> None:
        self._root = Node()
        self._size = 0
        self._repeating = 0

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
            todo.extend([child for child in (node.one, node.some, node.many) if child is not None])

    def add(self, pattern: Pattern, value: Any) -> None:
        """Adds the value under the pattern; adding it again changes nothing."""
        node = self._root
        for word in pattern:
            child = _child(node, word)
            node = _grow(node, word) if child is None else child
            if word is MANY and child is None:
                self._repeating += 1
        if node.values is None:
            node.values = {}
        if value not in node.values:
            node.values[value] = None
            self._size += 1

    def remove(self, pattern: Pattern, value: Any) -> bool:
        """Removes the value, and every node that nothing needs any more. False: it was not there."""
        path = [self._root]
        for word in pattern:
            child = _child(path[-1], word)
            if child is None:
                return False
            path.append(child)
        values = path[-1].values
        if not values or value not in values:
            return False
        del values[value]
        self._size -= 1
        if not values:
            path[-1].values = None
        for depth in range(len(pattern), 0, -1):
            if not path[depth].is_empty():
                break
            if pattern[depth - 1] is MANY:
                self._repeating -= 1
            _prune(path[depth - 1], pattern[depth - 1])
        return True

    def match(self, words: list[str]) -> list[Node]:
        """The nodes with values whose pattern matches a topic of these words."""
        found: list[Node] = []
        at = [self._root]
        if self._repeating:
            at = _settled(at)
        for word in words:
            following: list[Node] = []
            for node in at:
                if node.some is not None:
                    found.append(node.some)
                if node.literals is not None:
                    child = node.literals.get(word)
                    if child is not None:
                        following.append(child)
                if node.one is not None:
                    following.append(node.one)
                if node.globs is not None:
                    node.globs.match(word, following)
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


def _child(node: Node, word: Word) -> Node | None:
    if word is ONE:
        return node.one
    if word is SOME:
        return node.some
    if word is MANY:
        return node.many
    if isinstance(word, Glob):
        return None if node.globs is None else node.globs.get(word)
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
    else:
        if node.literals is None:
            node.literals = {}
        node.literals[word] = child
    return child


def _prune(node: Node, word: Word) -> None:
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
    else:
        assert node.literals is not None
        del node.literals[word]
        if not node.literals:
            node.literals = None
