"""Quotas: how much a namespace, a user or a connection may hold (A5), and the watermark of memory (A10). Pure.

What is held is counted where it comes and goes. A `Usage` counts for one of them; an `Account` is the chain of usages
that one connection counts against: its own, its user's, its namespace's. `take` counts in all of them or in none:

    account = node.account(exchange, user)
    account.take("retained_bytes", 300)       raises QuotaError, a sentence, where one of them has no more
    account.give_back("retained_bytes", 300)

    namespace plant   retained_bytes  64 MiB   used 1,200
    user ann          retained_bytes  1 KiB    used   900     ← refuses: 1,024 at most, 900 used, 300 asked for

What another node has accepted is counted by `force`: a refusal here would make the nodes differ.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import inf
from typing import Any, Final, Literal, get_args

from fumarole.core.errors import FumaroleError
from fumarole.core.limits import Quotas

Resource = Literal[
    "connections", "consumers", "standing_cost", "producers", "metadata_bytes", "retained_bytes", "last_bytes"
]
"""What is counted while it is held."""
RESOURCES: Final[tuple[Resource, ...]] = get_args(Resource)
GROWS: Final = frozenset[Resource]({"standing_cost", "producers", "retained_bytes"})
"""What is refused while memory is short (A10)."""


NOTHING: Final[dict[Any, int]] = {}
"""Of every usage that has counted nothing yet, and never written to: each connection has one (`ConnectionUsage`)."""
NEVER: Final = -inf


class QuotaError(FumaroleError):
    """More is asked for than a quota allows, or memory is short. The text is a sentence for a person."""

    def __init__(self, text: str, uncount: Callable[[], None] | None = None) -> None:
        super().__init__(text)
        self._uncount = uncount

    def uncount(self) -> None:
        """The same is asked for once more, and is to be counted as one refusal."""
        if self._uncount is not None:
            self._uncount()


class Watermark:
    """Is memory short? The server compares what the process uses with `limits.memory` and says so here (A10)."""

    __slots__ = ("is_reached", "refused")

    def __init__(self) -> None:
        self.is_reached = False
        self.refused = 0

    def check(self, what: str) -> None:
        """Raises QuotaError while memory is short."""
        if self.is_reached:
            self.refused += 1
            raise QuotaError(f"the broker is short of memory and takes no more {what}; what is there goes on")


class Usage:
    """What one namespace, user or connection holds."""

    __slots__ = ("_bytes_left", "_counted_at", "_memory", "_messages_left", "quotas", "refused", "used", "whose")

    def __init__(self, whose: str, quotas: Quotas, memory: Watermark | None = None) -> None:
        self.whose = whose
        """For the sentence of a refusal: `namespace plant`."""
        self.quotas = quotas
        self.used: dict[Resource, int] = NOTHING
        self.refused: dict[str, int] = NOTHING
        """How often each was refused."""
        self._memory = memory
        self._counted_at = NEVER
        self._messages_left = self._bytes_left = 0.0

    def check(self, what: Resource, amount: int = 1) -> None:
        """May so much more be held? Raises QuotaError."""
        if self._memory is not None and self._memory.is_reached and what in GROWS:
            self._refuse(what)
            self._memory.check(_words(what))
        most: int | None = getattr(self.quotas, what)
        used = self.used.get(what, 0)
        if most is not None and used + amount > most:
            self._refuse(what)
            asked = "" if amount == 1 else f", {amount} more asked for"
            sentence = f"{self.whose} may have {most} {_words(what)}, and has {used}{asked}"
            raise QuotaError(sentence, lambda: self._refuse(what, -1))

    def take(self, what: Resource, amount: int = 1) -> None:
        """So much more is held. Raises QuotaError, and then nothing has changed."""
        self.check(what, amount)
        self.force(what, amount)

    def force(self, what: Resource, amount: int = 1) -> None:
        """So much more is held, whatever the quota. A negative amount is given back."""
        used = self.used.get(what, 0) + amount
        if used:
            if self.used is NOTHING:
                self.used = {}
            self.used[what] = used
        else:
            self.used.pop(what, None)

    def give_back(self, what: Resource, amount: int = 1) -> None:
        """So much is held no more."""
        self.force(what, -amount)

    @property
    def has_rates(self) -> bool:
        """Is there a limit to what is published in a second?"""
        return self.quotas.messages_per_second is not None or self.quotas.bytes_per_second is not None

    def check_rates(self, now: float) -> None:
        """May anything more be published now? Raises QuotaError.

        What a second may bring is there at first, and comes back as time passes. So a burst may have a second's worth,
        and over any longer time the rate holds.
        """
        passed, self._counted_at = now - self._counted_at, now
        messages, size = self.quotas.messages_per_second or 0, self.quotas.bytes_per_second or 0
        self._messages_left = min(float(messages), self._messages_left + passed * messages)
        self._bytes_left = min(float(size), self._bytes_left + passed * size)
        for what, left in (("messages_per_second", self._messages_left), ("bytes_per_second", self._bytes_left)):
            most: int | None = getattr(self.quotas, what)
            if most is not None and left < (1 if what == "messages_per_second" else 0):
                self._refuse(what)
                raise QuotaError(f"{self.whose} may publish {most} {_words(what)}; this one is refused")

    def publish(self, messages: int, size: int) -> None:
        """So many were published."""
        self._messages_left -= messages
        self._bytes_left -= size

    def _refuse(self, what: str, times: int = 1) -> None:
        if self.refused is NOTHING:
            self.refused = {}
        self.refused[what] = self.refused.get(what, 0) + times

    def report(self) -> dict[str, Any]:
        """For people and scripts: what is held, of how much, and what was refused."""
        held = {what: {"used": self.used.get(what, 0), "most": getattr(self.quotas, what)} for what in RESOURCES}
        return {"held": held, "refused": dict(self.refused)}


class ConnectionUsage(Usage):
    """What one connection holds. Only what it has a quota of is counted: there are very many connections."""

    __slots__ = ()

    def __init__(self, standing_cost: int | None) -> None:
        super().__init__("this connection", quotas_of_connection(standing_cost))

    def force(self, what: Resource, amount: int = 1) -> None:
        if getattr(self.quotas, what) is not None:
            super().force(what, amount)


@lru_cache(16)
def quotas_of_connection(standing_cost: int | None) -> Quotas:
    """The same object for all connections."""
    return Quotas(standing_cost=standing_cost)


class Account:
    """The usages that one connection counts against."""

    __slots__ = ("has_rates", "usages", "user", "waits")

    def __init__(self, *usages: Usage, user: Usage | None = None) -> None:
        self.usages = usages if user is None else (*usages, user)
        self.user = user
        """Of these, the one of its user: what outlives the connection is remembered as the user's."""
        self.waits = False
        """Can the connection wait while a change of metadata is prepared (A6)?"""
        self.has_rates = False
        """Is there a limit to what it publishes in a second, or to last messages of its user? Then each message is
        counted, and none takes the compiled path."""
        self.renew_rates()

    def renew(self, quotas: Quotas) -> None:
        """The user's quotas have changed."""
        if self.user is not None:
            self.user.quotas = quotas
        self.renew_rates()

    def renew_rates(self) -> None:
        """Quotas may have changed."""
        self.has_rates = any(usage.has_rates for usage in self.usages) or (
            self.user is not None and self.user.quotas.last_bytes is not None
        )

    def check_rates(self, now: float) -> None:
        """May another message be published now? Raises QuotaError. Only where `has_rates`."""
        for usage in self.usages:
            if usage.has_rates:
                usage.check_rates(now)

    def published(self, size: int) -> None:
        """A message of so many bytes was. Only where `has_rates`."""
        for usage in self.usages:
            usage.publish(1, size)

    def check(self, what: Resource, amount: int = 1) -> None:
        """Raises QuotaError where one of them has no more."""
        for usage in self.usages:
            usage.check(what, amount)

    def take(self, what: Resource, amount: int = 1) -> None:
        """In all of them or in none. Raises QuotaError."""
        self.check(what, amount)
        for usage in self.usages:
            usage.force(what, amount)

    def give_back(self, what: Resource, amount: int = 1) -> None:
        for usage in self.usages:
            usage.give_back(what, amount)


def _words(what: str) -> str:
    if what == "standing_cost":
        return "of the cost of standing queries"
    return what.replace("_per_second", " a second").replace("_bytes", " (bytes)").replace("_", " ")
