"""An expression that is found in the same texts, with fewer ways to match them, so that backtracking ends sooner.

    ^(x+|y?)*z    ->    ^[xy]*z
    (x|xx)*y      ->    y
    a.*b.*c       ->    a.*b.*c, where `b` is the first one behind `a`

What a set, a place or a repetition is, `regex_tree` says; what ways are, `regex_ambiguity`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise, product
from typing import Final, Literal

from fumarole.pipeline.columns.regex_tree import (
    EMPTY,
    SURROGATES,
    Characters,
    Choice,
    First,
    Node,
    Place,
    Ranges,
    Repeat,
    Sequence,
    has_places,
    length,
    nullable,
)

_MOST_SPELLED: Final = 50


def simplified(tree: Node) -> Node:
    """An expression that is found in the same texts."""
    return _decided(_trimmed(_trimmed(_normal(tree), 0), -1))


def _normal(node: Node) -> Node:
    """Star normal form: in `(x+)+` a text of x can be cut anywhere, in `x+` it cannot.

    Under a repetition without end, what may repeat anyway need not repeat by itself, and what may be left out need not
    be (Brüggemann-Klein).
    """
    match node:
        case Sequence(parts):
            return _sequence(map(_normal, parts))
        case Choice(options):
            return _choice(list(map(_normal, options)))
        case Repeat(inner, low, high):
            return _repeat(_normal(inner), low, high)
        case _:
            return node


def _sequence(parts: Iterable[Node]) -> Node:
    flat: list[Node] = []
    for part in parts:
        for each in part.parts if isinstance(part, Sequence) else [part]:
            flat[-1:] = _next_to(flat[-1], each) if flat else [each]
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def _next_to(some: Node, other: Node) -> list[Node]:
    """Of two repetitions without end, the one of the larger set takes whatever the other may: `.*x+` is `.*x`."""
    if isinstance(some, Repeat) and isinstance(other, Repeat) and some.high is other.high is None:
        if _all_in(other.node, some.node):
            return [some, *_times(other.node, other.low)]
        if _all_in(some.node, other.node):
            return [*_times(some.node, some.low), other]
    return [some, other]


def _times(node: Node, number: int) -> list[Node]:
    return [node] * number if number <= 1 else [Repeat(node, number, number)]


def _choice(options: list[Node]) -> Node:
    sets = [option for option in options if isinstance(option, Characters)]
    others: list[Node] = [option for option in dict.fromkeys(options) if not isinstance(option, Characters)]
    if sets:
        others.append(sets[0] if len(sets) == 1 else Characters(_union(sets)))
    return others[0] if len(others) == 1 else Choice(tuple(others))


def _union(sets: list[Characters]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(each for characters in sets for each in characters.ranges):
        if merged and first <= merged[-1][1] + 1 and first != SURROGATES[1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return tuple(merged)


def _repeat(inner: Node, low: int, high: int | None) -> Node:
    if isinstance(inner, Repeat) and {inner.low, low} <= {0, 1} and {inner.high, high} <= {1, None}:
        return _repeat(inner.node, min(inner.low, low), None if None in {inner.high, high} else 1)
    if high is None and low <= 1 and not has_places(inner):
        return Repeat(_bare(inner), 0 if nullable(inner) else low, None)
    return Repeat(inner, low, high)


def _bare(node: Node) -> Node:
    """What to repeat instead of this node where it is repeated without end."""
    match node:
        case Choice(options):
            return _choice([_bare(option) for option in options if option != EMPTY] or [EMPTY])
        case Sequence((first, *rest)):
            return _bare_sequence(first, rest[0] if len(rest) == 1 else Sequence(tuple(rest)))
        case Repeat(inner, low, high) if low <= 1 and high in {1, None}:
            return _bare(inner)
        case _:
            return node


def _bare_sequence(first: Node, rest: Node) -> Node:
    if rest == EMPTY:
        return _bare(first)
    if nullable(first) and nullable(rest):
        return _choice([_bare(first), _bare(rest)])
    if nullable(rest):
        return Sequence((_bare(first), rest))
    return Sequence((first, _bare(rest))) if nullable(first) else Sequence((first, rest))


def _trimmed(node: Node, end: Literal[0, -1]) -> Node:
    """Without what a search can leave out at this end: of `.*a+b?` only `a` need be found."""
    if nullable(node) and not has_places(node):
        return EMPTY
    match node:
        case Choice(options):
            return _choice([_trimmed(option, end) for option in options])
        case Sequence(parts):
            kept = list(parts)
            while kept:
                kept[end] = _trimmed(kept[end], end)
                if kept[end] != EMPTY:
                    break
                del kept[end]
            return _sequence(kept)
        case Repeat(inner, low, _) if not has_places(inner):
            return _trimmed(inner, end) if low == 1 else Repeat(inner, low, low)
        case _:
            return node


def _decided(node: Node) -> Node:
    """With no second place tried where the first is good enough.

    In `.*north.*east` it is: whatever stands between the first `north` and another one, the second `.*` takes it as
    well. So it is for every repetition of a set up to something that cannot end earlier by beginning later, if all of
    that is also in the set that is repeated next.
    """
    match node:
        case Sequence(parts):
            return Sequence(tuple(_decided_parts(tuple(map(_decided, parts)))))
        case Choice(options):
            return Choice(tuple(map(_decided, options)))
        case Repeat(inner, low, high):
            return Repeat(_decided(inner), low, high)
        case _:
            return node


def _decided_parts(parts: tuple[Node, ...]) -> Iterator[Node]:
    begun = 0
    gaps = [(at, part) for at, part in enumerate(parts) if isinstance(part, Repeat) and part.high is None]
    for (here, gap), (there, following) in pairwise(gaps):
        until = Sequence(parts[here + 1 : there])
        if (
            isinstance(gap.node, Characters)
            and _all_in(Sequence((gap, until)), following.node)
            and _ends_in_order(until)
        ):
            yield from parts[begun:here]
            yield First(gap, until)
            begun = there
    yield from parts[begun:]


def _ends_in_order(node: Node) -> bool:
    """Is the leftmost of its texts in any text also the first to end? It is not if one can stand within another."""
    fixed = length(node)
    if fixed is not None:
        return fixed > 0
    spelled = _spelled(node)
    return bool(spelled) and not any(
        all(map(_meet, short, long[at:]))
        for short, long in product(spelled, repeat=2)
        for at in range(len(long) - len(short))
    )


def _spelled(node: Node) -> list[tuple[Characters, ...]]:
    """Its texts, one set for each character; none at all if they are too many."""
    match node:
        case Characters():
            return [(node,)]
        case Place():
            return [()]
        case Choice(options):
            each = [_spelled(option) for option in options]
            return list(chain(*each)) if all(each) and sum(map(len, each)) <= _MOST_SPELLED else []
        case Sequence(parts):
            texts: list[tuple[Characters, ...]] = [()]
            for part in parts:
                texts = [(*some, *more) for some, more in product(texts, _spelled(part))]
                if not 0 < len(texts) <= _MOST_SPELLED:
                    return []
            return texts
        case Repeat(inner, low, high) if high is not None and high <= _MOST_SPELLED:
            return _spelled(Choice(tuple([Sequence((inner,) * times) for times in range(low, high + 1)])))
        case _:
            return []


def _meet(some: Characters, other: Characters) -> bool:
    return any(first <= end and begin <= last for first, last in some.ranges for begin, end in other.ranges)


def _all_in(node: Node, larger: Node) -> bool:
    """Are all its characters in this one set?"""
    return isinstance(larger, Characters) and all(
        any(begin <= first and last <= end for begin, end in larger.ranges)
        for each in _sets(node)
        for first, last in each.ranges
    )


def _sets(node: Node) -> Iterator[Characters]:
    match node:
        case Characters():
            yield node
        case Place():
            pass
        case Sequence(parts) | Choice(parts):
            for part in parts:
                yield from _sets(part)
        case Repeat(inner, _, _):
            yield from _sets(inner)
        case First(gap, until):
            yield from _sets(gap)
            yield from _sets(until)
