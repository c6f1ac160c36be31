"""The NATS door."""

from fumarole.doors.flushing import flush
from fumarole.doors.pump import Pump
from fumarole.doors.stream import StreamDoor
from fumarole.protocols import nats
from fumarole.sessions.nats import NatsSession
from fumarole.sessions.stream import RemoteAddress


class NatsDoor(StreamDoor):
    """Where NATS clients come in."""

    scheme = "nats"
    greets = True

    def session(self, remote: RemoteAddress, now: float, pump: Pump) -> NatsSession:
        return NatsSession(self._node, remote, now, pump)

    def inform(self, lame_duck: bool = False) -> None:
        """Tells clients where else they may go, or that they should go there now."""
        for pump in list(self._pumps):
            session = pump.session
            if isinstance(session, NatsSession):
                session.inform(lame_duck)
        flush(self._node.ready)

    def refusal(self, text: str) -> bytes:
        return nats.error(text)
