"""The NATS door."""

from fumarole.doors.pump import Pump
from fumarole.doors.stream import StreamDoor
from fumarole.protocols import nats
from fumarole.sessions.nats import NatsSession
from fumarole.sessions.stream import Peer


class NatsDoor(StreamDoor):
    """Where NATS clients come in."""

    scheme = "nats"
    greets = True

    def session(self, peer: Peer, now: float, pump: Pump) -> NatsSession:
        return NatsSession(self._node, peer, now, pump)

    def refusal(self, text: str) -> bytes:
        return nats.error(text)
