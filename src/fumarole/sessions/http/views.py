"""A view as server-sent events (F7, H3).

GET /v1/stream?where=select Region, count(*) where Status = 'failed'

event: view                                 what it holds, then each change of that
data: {"New":[["usa",2],["japan",1]],"Del":[]}
"""

from __future__ import annotations

from typing import Any, Final

from fumarole.core.query.view import parse_view
from fumarole.exchange.views import LiveView
from fumarole.sessions.http.call import Call
from fumarole.sessions.http.routes import BadParameterError
from fumarole.sessions.http.streams import KEY, SHOWN_FIELDS, Stream, event
from fumarole.sessions.stream import State

NOT_OF_A_VIEW: Final = ("topic", "group", "every", "last")


def begin(call: Call, text: str) -> None:
    """Answers with the view as it is, and what changes."""
    exchange, _ = call.here()
    for name in NOT_OF_A_VIEW:
        if name in call.options:
            raise BadParameterError(f"a view has no messages, so `{name}` means nothing to it")
    view = parse_view(text, call.service.node.limits)
    if call.head.method == "HEAD":
        call.session.answer(200, list(SHOWN_FIELDS), None)
        return
    stream = ViewStream(call)
    if not stream.may_open(call):
        return
    live = LiveView(exchange, view, stream.label, stream.say_change)
    sees = None if call.user is None else call.user.subscribe
    consumer = exchange.subscribe_view(live, sees, call.session.account, KEY)
    stream.open()
    stream.live = live
    call.session.consume(KEY, consumer)
    call.later()
    live.begin(consumer, stream.introduce)


class ViewStream(Stream):
    """A stream of the changes of one view."""

    live: LiveView

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        assert call.exchange is not None
        self._most = 2 * call.exchange.outbox_limit
        """Changes are not dropped, so they may take as much room again as messages."""

    def introduce(self, content: dict[str, Any]) -> None:
        """The view is whole: the head of the answer, and what it holds."""
        if self._session.state is State.CLOSED:
            return
        self.confirm()
        if not self.say_change(content):
            self.end(f"the view has {len(content['New'])} entries, which is more than can be listed; narrow the query")

    def say_change(self, change: dict[str, Any]) -> bool:
        """False: there is no room now."""
        session = self._session
        if session.state is State.CLOSED:
            return True
        frame = event("view", change)
        if session.outbox.size + len(frame) > self._most:
            if self._is_confirmed and not session.outbox.size:
                self.end("so much of the view has changed that it cannot be told; subscribe again")
            return False
        session.outbox.push(frame)
        return True

    def tick(self, now: float) -> None:
        if self._is_confirmed:
            self.live.flush()
        super().tick(now)
