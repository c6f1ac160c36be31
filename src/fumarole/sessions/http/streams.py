"""What every stream of events has: its head, its account, signs of life, and an end (H3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from fumarole.sessions.http import forms
from fumarole.sessions.http.call import EVENTS, Call

if TYPE_CHECKING:
    from fumarole.sessions.http.session import HttpSession

COMMENT_EVERY: Final = 15.0
"""Seconds between two signs of life."""
KEY: Final = b"1"
"""Of the one consumer that the connection has."""
TOO_MANY: Final = "you have {} streams open, and may have no more until one of them has ended"
SHOWN_FIELDS: Final = (("Content-Type", EVENTS), ("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))


def event(name: str, data: object) -> bytes:
    """One server-sent event."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), forms.encode(data))


class Stream:
    """A connection that has become a stream. Its frames lie in the outbox of the connection."""

    def __init__(self, call: Call) -> None:
        self._session: HttpSession = call.session
        self._service = call.service
        self.account = call.user.name if call.user is not None else call.session.remote.address
        """What the stream counts against: the user's name, or the client's address."""
        self.label = f"{call.session.label} http"
        self._is_open = False
        self._is_confirmed = False
        """Has the client got the head of the answer?"""
        self._has_said_bye = False
        self._next_comment = call.session.now + COMMENT_EVERY

    def may_open(self, call: Call) -> bool:
        """False: it was refused."""
        most = self._service.settings.streams_per_user
        if self._service.streams[self.account] < most:
            return True
        call.problem(429, TOO_MANY.format(most), [("Retry-After", "10")])
        return False

    def open(self) -> None:
        """It counts from here on, until `close`."""
        self._is_open = True
        self._session.opened = self
        self._service.streams[self.account] += 1

    def confirm(self) -> None:
        """The head of the answer."""
        self._session.begin_stream(self, SHOWN_FIELDS)
        self._is_confirmed = True

    def close(self) -> None:
        """The connection is over. Twice is harmless."""
        if self._is_open:
            self._is_open = False
            streams = self._service.streams
            streams[self.account] -= 1
            if not streams[self.account]:
                del streams[self.account]

    def tick(self, now: float) -> None:
        """Time passes: a sign of life, where nothing else was said."""
        outbox = self._session.outbox
        if self._is_confirmed and now >= self._next_comment:
            self._next_comment = now + COMMENT_EVERY
            if not outbox.size:
                outbox.push(b":\n\n")

    def say(self, name: str, data: Any) -> None:
        self._session.outbox.push(event(name, data))

    def end(self, detail: str) -> None:
        """It cannot go on: says why."""
        self.say("error", {"detail": detail})
        self._session.close()

    def bye(self, others: Iterable[str]) -> None:
        """This node drains: where the client may go. It is told once."""
        if self._is_confirmed and not self._has_said_bye:
            self._has_said_bye = True
            self.say("bye", {"others": list(others)})
