"""Releases the resources of a client connection after its end: its outbox at once, its consumers in slices."""

from __future__ import annotations

import asyncio

from fumarole.doors.memory import freed
from fumarole.sessions.stream import CONSUMERS_AT_ONCE, StreamSession

CONSUMER_SIZE = 1024
"""Bytes that a consumer takes, all in all."""


def release(session: StreamSession) -> None:
    """The connection of this session is gone."""
    freed(session.outbox.size)
    session.outbox.clear()
    _forget(session)


def _forget(session: StreamSession) -> None:
    if not session.remove_consumers():
        freed(CONSUMERS_AT_ONCE * CONSUMER_SIZE)
        asyncio.get_running_loop().call_soon(_forget, session)
    else:
        # Pump, session and outbox refer to one another. Where there are very many consumers, the collector of cycles
        # must not be needed often: it would stop everything for seconds.
        session.outbox.owner = GONE


class _Gone:
    """The owner of an outbox whose connection is gone."""

    def flush(self) -> None:
        """Nothing can be sent any more."""


GONE = _Gone()
