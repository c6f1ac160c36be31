"""The MQTT door."""

import ssl

from fumarole.doors.logins import Logins
from fumarole.doors.pump import Pump
from fumarole.doors.stream import MakeReader, StreamDoor
from fumarole.exchange.node import Node
from fumarole.sessions.mqtt import MqttSession, Terms
from fumarole.sessions.stream import RemoteAddress


class MqttDoor(StreamDoor):
    """Where MQTT clients come in, 3.1.1 and 5.0. TLS, where it is on, begins at once."""

    scheme = "mqtt"

    def __init__(
        self,
        node: Node,
        make_reader: MakeReader | None,
        terms: Terms,
        tls: ssl.SSLContext | None,
        logins: Logins | None,
    ) -> None:
        super().__init__(node, make_reader, tls, logins)
        self._terms = terms

    def session(self, remote: RemoteAddress, now: float, pump: Pump) -> MqttSession:
        return MqttSession(self._node, remote, now, pump, self._terms)

    def _send_away(self, session: MqttSession) -> None:
        session.send_away()

    def refusal(self, text: str) -> bytes:  # noqa: ARG002 - which version the client speaks is not known yet
        return b""
