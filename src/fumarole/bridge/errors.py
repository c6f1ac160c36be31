"""The errors of a bridge, with sentences for a person."""

from fumarole.core.errors import FumaroleError


class BridgeError(FumaroleError):
    """The base of all errors of the bridge and its client."""


class MalformedError(BridgeError):
    """A client of the bridge, or an AMQP publisher, sent what docs/reference/bridge.md refuses: the peer's fault."""


class BridgeRefusedError(BridgeError):
    """The bridge answered with an error: an unknown exchange, a broker that is away, a call without a responder."""


class BridgeClosedError(BridgeError):
    """The client was closed."""


class CannotBridgeError(BridgeError):
    """The bridge cannot start; the text has the reason."""
