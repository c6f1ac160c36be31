"""Tells of a lack of file descriptors (O2), looked for twice a second.

The event loop closes a connection for which there is none without a word: neither a door nor a client learns why.
"""

from __future__ import annotations

import errno
import logging
import os
import resource
from collections.abc import Callable

from fumarole.doors.log_limiter import LogLimiter
from fumarole.exchange.node import Node

log = logging.getLogger(__name__)

NONE_LEFT = (errno.EMFILE, errno.ENFILE)


def is_one_left() -> bool:
    """Can this process have one more?"""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno not in NONE_LEFT
    return True


class DescriptorWatch:
    """Of one node. While none is left, a line a minute says so."""

    def __init__(
        self, node: Node, look: Callable[[], bool] = is_one_left, warn: Callable[..., None] | None = None
    ) -> None:
        self._look = look
        self._warn = LogLimiter(log) if warn is None else warn
        node.timers.append(self.tick)

    def tick(self, _now: float) -> None:
        """Looks for one."""
        if not self._look():
            most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            self._warn(
                "no file descriptors are left, of %d: new connections are closed. Raise the limit (ulimit -n,"
                " LimitNOFILE=), or lower limits.connections",
                most,
            )
