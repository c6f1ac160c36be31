"""The end of a connection.

A session that is closed may still have last words in its outbox, an error for instance. They leave, then this side
closes its half of the connection, and the peer has a second to close the other half. Without that second the kernel
may answer unread bytes with a reset, and a reset takes the last words back. Each step has a deadline:

    the session is closed, 40 KiB are in its outbox      the peer has 5 s to take them
    the peer has taken them: this half is closed         the peer has 1 s to close the other half
    the peer has closed its half, or a deadline is over  the connection ends
"""

from __future__ import annotations

import asyncio

LAST_WORDS = 5.0
"""Seconds for the outbox of a closed session to leave."""
LINGER = 1.0
"""Seconds for the peer to close its half."""


class Closing:
    """The end of one client connection."""

    __slots__ = ("_half_closed", "_linger_until", "_peer_ended", "by")

    last_words = LAST_WORDS

    def __init__(self) -> None:
        self.by: float | None = None
        """When the outbox must have left. Set by a door that drains, else by the first tick after the close."""
        self._peer_ended = False
        self._half_closed = False
        self._linger_until: float | None = None

    def receive_eof(self, transport: asyncio.Transport) -> bool:
        """The peer has closed its half. True when the other half stays open."""
        self._peer_ended = True
        return transport.can_write_eof()  # TLS has no halves

    def discards(self) -> bool:
        """True when the outbox of a closed session is dropped."""
        return False

    def finish(self, transport: asyncio.Transport) -> None:
        """The session is closed and its outbox is empty."""
        if self._peer_ended or not transport.can_write_eof():
            transport.close()
        elif not self._half_closed:
            self._half_closed = True
            transport.write_eof()

    def is_overdue(self, now: float) -> bool:
        """The session is closed. Is the time over that its connection had to end?"""
        if self.by is None:
            self.by = now + self.last_words
        if self._half_closed and self._linger_until is None:
            self._linger_until = now + LINGER
        return now > self.by or (self._linger_until is not None and now > self._linger_until)

    def abort(self, transport: asyncio.Transport) -> None:
        """Ends the connection at once."""
        transport.abort()
