"""When may a client be told that its subscription is in force?

On one node: at once. In a cluster: when every live node knows of it (C2). A session asks for the `ticket` of the change
that it has just made, and tells its client when that is reached; it does not know which of the two it is.
"""

from collections.abc import Callable
from typing import Protocol


class Confirmations(Protocol):
    """Changes have tickets, in their order."""

    def ticket(self) -> int:
        """That of the latest change."""

    def is_reached(self, ticket: int) -> bool:
        """Does every live node know of this change, and of those before it?"""

    def after(self, ticket: int, call: Callable[[], None]) -> None:
        """Calls back once it is reached: at once, if it is already."""


class AtOnce:
    """Without a cluster every change is confirmed at once."""

    def ticket(self) -> int:
        return 0

    def is_reached(self, ticket: int) -> bool:  # noqa: ARG002
        return True

    def after(self, ticket: int, call: Callable[[], None]) -> None:  # noqa: ARG002
        call()
