"""What a namespace has seen (L3)."""


class Counters:
    """Sums since the namespace came to be. The compiled form is fastpath/outbox.pyx."""

    __slots__ = (
        "conflated",
        "forwarded",
        "last",
        "overflowed",
        "received",
        "received_bytes",
        "refused",
        "routed",
        "strayed",
        "unheard",
    )

    def __init__(self) -> None:
        self.received = 0
        """Publications taken in."""
        self.received_bytes = 0
        """Their payloads and headers."""
        self.routed = 0
        """Messages put into outboxes: one for each entity that a publication reached."""
        self.unheard = 0
        """Publications that no entity matched (D3)."""
        self.overflowed = 0
        """Messages dropped because an outbox was full (D6)."""
        self.refused = 0
        """Publications refused: a topic the grammar or the user's permissions do not allow."""
        self.forwarded = 0
        """Messages put into the outbox of a link: one for each node that a publication went to (C3)."""
        self.strayed = 0
        """Entities that another node had found for a message and that were gone when it came."""

        self.last = 0
        """Last values put into outboxes (F3)."""
        self.conflated = 0
        """Messages that a newer one of their topic has replaced (F4)."""

    def delivered(self) -> int:
        """Messages that reached consumers, as far as outboxes know."""
        return self.routed + self.last - self.conflated - self.overflowed

    def report(self) -> dict[str, int | dict[str, int]]:
        """For people and scripts: received, delivered, dropped by reason."""
        return {
            "received": self.received,
            "received_bytes": self.received_bytes,
            "delivered": self.delivered(),
            "last": self.last,
            "conflated": self.conflated,
            "dropped": {"no consumer": self.unheard, "outbox full": self.overflowed, "refused": self.refused},
            "forwarded": self.forwarded,
            "strayed": self.strayed,
        }
