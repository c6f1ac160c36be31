"""What a user may publish and subscribe to: patterns allowed, patterns denied. Denial wins."""

from dataclasses import dataclass

from fumarole.core.index import Index
from fumarole.core.topic import Pattern, covers, parse_wildcards, split


class Permissions:
    """`allow` None: everything but what is denied; an empty `allow`: nothing at all."""

    def __init__(self, allow: tuple[str, ...] | None = None, deny: tuple[str, ...] = ()) -> None:
        self.allow = allow
        self.deny = deny
        self._allowed = [parse_wildcards(text) for text in allow] if allow is not None else None
        self._denied = [parse_wildcards(text) for text in deny]
        self._allow_index = _index(self._allowed) if self._allowed is not None else None
        self._deny_index = _index(self._denied)

    def allows(self, topic: str) -> bool:
        """May this very topic be published, or be shown?"""
        words = split(topic)
        if self._deny_index.match(words):
            return False
        return self._allow_index is None or bool(self._allow_index.match(words))

    def allows_pattern(self, pattern: Pattern) -> bool:
        """May this be subscribed to? A denied part inside a wider pattern is left out at delivery, not here."""
        if any(covers(denied, pattern) for denied in self._denied):
            return False
        return self._allowed is None or any(covers(allowed, pattern) for allowed in self._allowed)


def _index(patterns: list[Pattern]) -> Index:
    index = Index()
    for pattern in patterns:
        index.add(pattern, True)
    return index


@dataclass(frozen=True, slots=True)
class User:
    """Who a connection speaks for, once its credentials were found right."""

    name: str
    namespace: str
    publish: Permissions | None = None
    subscribe: Permissions | None = None
