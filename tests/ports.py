"""Ports for servers that must know theirs before they start, or that come back on it.

A port that the system chose may be given to any connection as soon as it is free again, before the server has it. These
are below the range from which systems choose, and processes that look for one at the same time begin far apart.
"""

from __future__ import annotations

import itertools
import os
import socket

_FIRST = 10_000
_COUNT = 20_000
_APART = 1_009  # so that neighbours do not ask for the same ones

_numbers = itertools.count(os.getpid() * _APART)


def free_port() -> int:
    """No process listens there, and this process is not given it again soon."""
    for number in itertools.islice(_numbers, _COUNT):
        port = _FIRST + number % _COUNT
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise AssertionError(f"every port from {_FIRST} to {_FIRST + _COUNT - 1} is taken")
