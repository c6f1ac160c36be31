"""The errors of the client. Each text says what to do; all of them are `FumaroleError`s."""

from fumarole.core.errors import FumaroleError
from fumarole.core.query.errors import QueryError


class ClientError(FumaroleError):
    """The base of all errors that the client raises."""


class ServerAddressError(ClientError, ValueError):
    """The address of a server that cannot be read."""


class NoServerError(ClientError, ConnectionError):
    """None of the servers could be reached. `failures` has the reason by server, without credentials."""

    def __init__(self, failures: dict[str, str]) -> None:
        self.failures = failures
        each = ", ".join(f"{server} ({reason})" for server, reason in failures.items())
        super().__init__(f"no broker at {each}; start one with `fumarole serve`")


class AuthorizationError(ClientError):
    """The server is there, and refuses the credentials of this client."""

    def __init__(self, server: str, text: str) -> None:
        super().__init__(f"{server} refused the credentials ({text}); check user and password, or token")


class DisconnectedError(ClientError, ConnectionError):
    """The connection was lost before the server confirmed an operation. `reason` is the reason, if known."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(f"the connection to {server} was lost ({reason}) before this was confirmed; try again")
        self.reason = reason


class ClosedError(ClientError):
    """The client was closed, by `close` or because it gave up reconnecting."""


class RefusedError(ClientError):
    """The server refused an operation: a topic that its grammar does not allow, or a missing permission."""


class QueryRefusedError(RefusedError):
    """A query that the server does not understand: `position`, what was `found` there, and what was `expected`."""

    def __init__(self, query: str, position: int, found: str, expected: str) -> None:
        self._error = QueryError(query, position, found, expected)
        super().__init__(str(self._error))
        self.query = query
        self.position = position
        self.found = found
        self.expected = expected

    def caret(self) -> str:
        """The query with a caret under the position, then the sentence: three lines for a terminal."""
        return self._error.caret()


class InvalidReadingError(ClientError, ValueError):
    """An invalid identity, metadata or value of a producer."""


class NoResponders(ClientError):
    """The topic of a request has no subscriber, so no reply can come."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"no responder for requests to {topic!r}; start one, or check the topic")
        self.topic = topic


class RequestTimeoutError(ClientError, TimeoutError):
    """The request reached a responder, and no reply came in time."""


class FlushTimeoutError(ClientError, TimeoutError):
    """The server did not confirm in time that it received everything, or there was no connection."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"no server confirmed within {seconds:g} s that it received everything; some of it may be lost"
        )


class NoReplyTopicError(ClientError):
    """The message was not a request: it has no reply topic."""


class PendingFullError(ClientError, BufferError):
    """Disconnected, and the bytes that wait for the next connection have reached the limit."""


class PayloadTooLargeError(ClientError, ValueError):
    """More than the server accepts."""
