"""F8: the hash by which all nodes choose alike."""

import pytest

from fumarole.core.stable_hash import score, stable_hash

KNOWN = {
    b"": 0x2B898861975EDACC,
    b"volcanoes": 0x3E45BB461FBBBF1B,
    b"volcanoes.usa.atka": 0xBD853F219B59A5C7,
}
"""Written down once: nodes of two releases have to choose alike."""


@pytest.mark.parametrize(("text", "expected"), KNOWN.items())
def test_never_changes(text: bytes, expected: int) -> None:
    assert stable_hash(text) == expected


def test_spread_over_members() -> None:
    """Each of eight members has its part of the keys, whatever these look like."""
    members = [stable_hash(b"node %d" % number) for number in range(1, 9)]
    for keys, most in ((1_000, 0.30), (100_000, 0.05)):
        counts = [0] * len(members)
        for key in range(keys):
            scores = [score(member, stable_hash(b"volcanoes.%d.temperature" % key)) for member in members]
            counts[scores.index(max(scores))] += 1
        even = keys / len(members)
        assert max(abs(count - even) for count in counts) <= most * even


@pytest.mark.parametrize("length", range(20))
def test_every_byte_counts(length: int) -> None:
    text = bytes(range(length))
    others = {stable_hash(text[:at] + b"\xff" + text[at + 1 :]) for at in range(length)}
    assert len(others | {stable_hash(text), stable_hash(text + b"\0")}) == length + 2
