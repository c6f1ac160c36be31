"""The event loop that brokers and bridges run on: uvloop where it is installed, asyncio's own elsewhere.

Everything works on both. docs/decisions/uvloop.md has what uvloop gains.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs this to its end."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)
