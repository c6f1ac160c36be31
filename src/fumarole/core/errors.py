"""Errors that a peer causes. Each has a sentence for a person."""


class FumaroleError(Exception):
    """The base of all errors that Fumarole raises."""


class TopicError(FumaroleError):
    """A topic that the namespace's grammar refuses. `position` is the index of the first wrong character,
    `fault` the sentence without it."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(f"{message}, at position {position}")
        self.fault = message
        self.position = position


class PatternError(TopicError):
    """A pattern that the dialect or the grammar refuses."""


class NamespaceError(FumaroleError):
    """A namespace name that is malformed, or not one of the allowed ones."""
