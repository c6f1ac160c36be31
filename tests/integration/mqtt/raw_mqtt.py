"""A socket with the client's end of MQTT 5, which waits for answers instead of sleeping."""

from __future__ import annotations

import socket
from typing import Self

from fumarole.protocols import mqtt_packets as packets
from fumarole.protocols.mqtt import ClientProtocol
from fumarole.protocols.mqtt_fields import NONE, Properties
from fumarole.protocols.mqtt_packets import V5, Connect, Event, Filter, Pong, Publish, Subscribe, Will

PATIENCE = 20.0


class Raw:
    """One connection."""

    def __init__(self, port: int, client_id: str = "", will: Will | None = None, given: Properties = NONE) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._protocol = ClientProtocol(V5)
        self._events: list[Event] = []
        self.say(packets.connect(Connect(V5, client_id, True, 0, None, None, will, given)))
        self.connack = self.hear()

    def say(self, data: bytes) -> None:
        self.socket.sendall(data)

    def hear(self) -> Event:
        """The next packet. Raises EOFError when the broker has hung up."""
        while not self._events:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError
            self._protocol.receive_data(data)
            while more := self._protocol.events_received():
                self._events += more
        return self._events.pop(0)

    def subscribe(self, *filters: str) -> Event:
        self.say(packets.subscribe(Subscribe(1, tuple(Filter(each, 0) for each in filters), NONE), V5))
        return self.hear()

    def publish(self, topic: str, payload: bytes, retain: bool = False, given: Properties = NONE) -> None:
        self.say(packets.publish(Publish(topic, payload, 0, retain, False, 0, given), V5))

    def settle(self) -> None:
        """All that was said has been taken in. What comes meanwhile is kept."""
        self.say(packets.PINGREQ)
        heard = []
        while not isinstance(event := self.hear(), Pong):
            heard.append(event)
        self._events[:0] = heard

    def heard(self) -> list[Event]:
        """What has come and was not looked at yet."""
        events, self._events = self._events, []
        return events

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
