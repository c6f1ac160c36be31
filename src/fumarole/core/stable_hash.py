"""A hash of bytes that is the same in every process, on every machine and in every release, and the choice by it.

Rendezvous hashing (Thaler and Ravishankar, 1996): each member of a group draws a score for the key, and the highest
score gets it. All nodes that know the same members choose alike, with no message between them. When a member comes or
goes, only the keys move that it gets or had.

    key kilimanjaro     scores of members 1, 2, 3: 0.91 0.13 0.55    1 gets it; without 3 too; without 1, 3 does
    key atka            scores of members 1, 2, 3: 0.20 0.47 0.88    3 gets it; without 3, 2 does

The compiled form is in fastpath/plans.pyx. Changing a constant here moves the keys of every group, and nodes of two
releases would choose differently.
"""

from __future__ import annotations

_SEED = 0x9E3779B97F4A7C15
_OF_LENGTH = 0xA0761D6478BD642F
_OF_WORD = 0xE7037ED1A0B428DB
_OF_REST = 0x8EBC6AF09C88C6E3
_OF_END = 0x589965CC75374CC3
_OF_SCORE = 0xD6E8FEB86659FD93
_WORD = (1 << 64) - 1


def stable_hash(text: bytes) -> int:
    """64 bits: eight bytes at a time, little end first, each folded in by a full multiplication."""
    found = _SEED ^ (len(text) * _OF_LENGTH & _WORD)
    whole = len(text) & ~7
    for at in range(0, whole, 8):
        found = _mix(found ^ int.from_bytes(text[at : at + 8], "little"), _OF_WORD)
    if whole < len(text):
        found = _mix(found ^ int.from_bytes(text[whole:], "little"), _OF_REST)
    return _mix(found, _OF_END)


def score(member: int, key: int) -> int:
    """What this member draws for this key, both given as hashes."""
    return _mix(member ^ key, _OF_SCORE)


def _mix(one: int, other: int) -> int:
    product = one * other
    return (product ^ product >> 64) & _WORD
