"""The last events of a node, for people: clients that joined, left or were refused, and wills that were published.

Memory is bounded: the newest events stay, whatever clients do. Numbers go on, so a reader sees how many it has missed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

KEPT: Final = 1_000
LONGEST: Final = 200
"""Characters of a client's name or of a reason."""

Kind = Literal["join", "leave", "refusal", "will"]


class Event(NamedTuple):
    """One of them. `at` is a time of the monotonic clock."""

    number: int
    at: float
    kind: Kind
    namespace: str
    client: str
    text: str


class Journal:
    """The newest events, oldest first."""

    def __init__(self, kept: int = KEPT) -> None:
        self._events: deque[Event] = deque(maxlen=kept)
        self.total = 0
        self.refusals = 0
        """How many of all events were refusals."""
        self.hear: Callable[[Event], None] = lambda _: None
        """Told of each refusal (O2)."""

    def note(self, at: float, kind: Kind, namespace: str, client: str, text: str = "") -> None:
        """Something happened to this client."""
        self.total += 1
        event = Event(self.total, at, kind, namespace, client[:LONGEST], text[:LONGEST])
        self._events.append(event)
        if kind == "refusal":
            self.refusals += 1
            self.hear(event)

    def refuse(self, namespace: str, client: str, text: str) -> None:
        """One operation of a client is refused, and its connection goes on. That is counted and heard of (O2), and not
        kept: a client may repeat it without end, and the other events would be gone."""
        self.refusals += 1
        self.hear(Event(self.total, 0.0, "refusal", namespace, client[:LONGEST], text[:LONGEST]))

    def report(self, now: float, after: int = 0) -> dict[str, Any]:
        """The events with a higher number, newest first, with their age in seconds."""
        shown = []
        for event in reversed(self._events):
            if event.number <= after:
                break
            shown.append(
                {
                    "number": event.number,
                    "age": round(max(now - event.at, 0.0), 3),
                    "kind": event.kind,
                    "namespace": event.namespace,
                    "client": event.client,
                    "text": event.text,
                }
            )
        return {"total": self.total, "events": shown}
