"""How many random examples a test draws, where that is not as many as others do."""

from typing import Any

from hypothesis import settings

USUAL = 100
"""What a test draws that says nothing of it, but in `make quick`."""


def examples(count: int, **more: Any) -> settings:
    """So many, and in `make quick` as few of them as other tests draw of theirs."""
    return settings(max_examples=max(1, count * settings().max_examples // USUAL), **more)
