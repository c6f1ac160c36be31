"""What can go wrong with a bridge, in sentences for a person."""

from fumarole.core.errors import FumaroleError


class BridgeError(FumaroleError):
    """Whatever the bridge and its client raise on purpose."""


class MalformedError(BridgeError):
    """A client of the bridge, or an AMQP publisher, sent what docs/reference/bridge.md refuses: the peer's fault."""


class BridgeRefusedError(BridgeError):
    """The bridge answered with an error: an unknown exchange, a broker that is away, a call without a responder."""


class BridgeClosedError(BridgeError):
    """The client was closed."""


class CannotBridgeError(BridgeError):
    """The bridge cannot start; the text says why."""
