"""The MsgPack door."""

import ssl

from fumarole.doors.logins import Logins
from fumarole.doors.pump import Pump
from fumarole.doors.stream import MakeReader, StreamDoor
from fumarole.exchange.node import Node
from fumarole.protocols.msgpack import pack
from fumarole.sessions.msgpack import MsgPackSession
from fumarole.sessions.stream import RemoteAddress


class MsgPackDoor(StreamDoor):
    """Where producers bring their readings, and subscribers their queries. TLS, where it is on, begins at once."""

    scheme = "msgpack"

    def __init__(
        self,
        node: Node,
        make_reader: MakeReader | None,
        namespace: str,
        tls: ssl.SSLContext | None,
        logins: Logins | None,
    ) -> None:
        super().__init__(node, make_reader, tls, logins)
        self._namespace = namespace

    def session(self, remote: RemoteAddress, now: float, pump: Pump) -> MsgPackSession:
        return MsgPackSession(self._node, remote, now, pump, self._namespace)

    def refusal(self, text: str) -> bytes:
        return pack({"Error": text})
