"""The watermark of memory (A10): what this process uses, compared with `limits.memory` twice a second.

Above it new producers, standing queries, namespaces and retained messages are refused (`exchange/quotas.py`). What is
there goes on. The refusals end when the process uses less again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from fumarole.doors.log_limiter import LogLimiter
from fumarole.exchange.node import Node

log = logging.getLogger(__name__)

STATM = Path("/proc/self/statm")
MEMINFO = Path("/proc/meminfo")
OF_A_CONTAINER = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")
SHARE = 0.75
"""Of the memory of the machine or container, where `limits.memory` is not set."""
MIB = 1024 * 1024
PAGE = os.sysconf("SC_PAGE_SIZE")


def used() -> int | None:
    """Bytes of this process that are in memory; None: the system does not say."""
    try:
        return int(STATM.read_text().split()[1]) * PAGE
    except (OSError, ValueError, IndexError):
        return None


def available() -> int | None:
    """Bytes that the machine, or the container, has; None: the system does not say."""
    found = [_number(path.read_text()) for path in OF_A_CONTAINER if path.exists()]
    if MEMINFO.exists():
        found += [
            int(line.split()[1]) * 1024 for line in MEMINFO.read_text().splitlines() if line.startswith("MemTotal:")
        ]
    return min([size for size in found if size is not None], default=None)


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None


class MemoryWatch:
    """Sets the watermark of a node."""

    def __init__(
        self,
        node: Node,
        measure: Callable[[], int | None] = used,
        most: Callable[[], int | None] = available,
        warn: Callable[..., None] | None = None,
    ) -> None:
        self._node = node
        self._measure = measure
        found = most()
        self._share = None if found is None else int(SHARE * found)
        self._warn = LogLimiter(log) if warn is None else warn
        node.timers.append(self.tick)

    def tick(self, _now: float) -> None:
        """Looks at what is used now."""
        limit = self._node.limits.memory
        most = self._share if limit is None else limit
        size = self._measure() if most is not None else None
        watermark = self._node.namespaces.memory
        was_reached, watermark.is_reached = watermark.is_reached, size is not None and most is not None and size > most
        if watermark.is_reached and not was_reached:
            assert size is not None
            assert most is not None
            self._warn(
                "%d MiB are used, and limits.memory is %d MiB: new producers, queries, namespaces and retained messages"
                " are refused",
                size // MIB,
                most // MIB,
            )
