"""A gRPC client of KubeMQ's service without sockets: h2's connection, and ours on a desk."""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, TrailersReceived

from fumarole.doors.flushing import flush
from fumarole.sessions.kubemq import KubemqService
from fumarole.sessions.kubemq_connection import KubemqConnection, Surroundings
from fumarole.sessions.stream import RemoteAddress
from tests.desk import Desk

READ = 16 * 1024
"""Bytes that the pump reads at once."""


class Timers:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self._due: dict[int, tuple[float, Callable[[], None]]] = {}
        self._set = 0

    def later(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        self._set += 1
        number = self._set
        self._due[number] = seconds, call

        def cancel() -> None:
            if number in self._due:
                del self._due[number]

        return cancel

    def __len__(self) -> int:
        return len(self._due)

    def pass_by(self, seconds: float) -> None:
        for number, (due, call) in list(self._due.items()):
            if due <= seconds and number in self._due:
                del self._due[number]
                call()


class GrpcDoor:
    """What the connections of a desk share."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.timers = Timers()
        service = KubemqService(desk.node, "kubemq", lambda: "made", 0.0)
        calls: Counter[str] = Counter()
        self.surroundings = Surroundings(service, lambda *_: None, self.timers.later, time.time, calls)

    def connect(self) -> GrpcClient:
        return GrpcClient(self)


class GrpcClient:
    """One connection. Owner of its outbox, as the pump is in real life."""

    def __init__(self, door: GrpcDoor) -> None:
        self._door = door
        self.session = KubemqConnection(door.desk.node, RemoteAddress("", 0, "::1"), 0.0, self, door.surroundings)
        self.http = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self.http.initiate_connection()
        self.reads = True
        self.messages: dict[int, bytes] = {}
        """What has come in each call."""
        self.heads: set[int] = set()
        self.statuses: dict[int, tuple[int, str]] = {}
        self.exchange()

    def flush(self) -> None:
        """As the pump does, where the client reads."""
        outbox: Any = self.session.outbox
        if outbox.overflowed:
            self.session.fail("Slow Consumer")
        while self.reads and outbox.size:
            self._hear(outbox.take(1 << 16))

    def _hear(self, data: bytes) -> None:
        for event in self.http.receive_data(data):
            if isinstance(event, DataReceived):
                assert event.stream_id is not None
                self.messages[event.stream_id] = self.messages.get(event.stream_id, b"") + (event.data or b"")
            elif isinstance(event, ResponseReceived | TrailersReceived):
                assert event.stream_id is not None
                self.heads.add(event.stream_id)
                found = dict(event.headers or ())
                if b"grpc-status" in found:
                    said = found.get(b"grpc-message", b"")
                    self.statuses[event.stream_id] = int(found[b"grpc-status"]), bytes(said).decode()

    def exchange(self) -> None:
        """Both say what they have to say."""
        while True:
            said = self.http.data_to_send()
            for at in range(0, len(said), READ):
                self.session.receive_data(said[at : at + READ])
                while self.session.unfinished:
                    self.session.go_on()
                flush(self._door.desk.node.ready)
            flush(self._door.desk.node.ready)
            if not said:
                return

    def begin(self, method: str, *messages: Any, end: bool = True) -> int:
        """Begins a call."""
        stream = self.http.get_next_available_stream_id()
        path = method if method.startswith("/") else f"/kubemq.kubemq/{method}"
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "x"),
            ("content-type", "application/grpc"),
        ]
        self.http.send_headers(stream, headers)
        self.say(stream, *messages, end=end)
        return stream

    def say(self, stream: int, *messages: Any, end: bool = False) -> None:
        for each in messages:
            data = each if isinstance(each, bytes) else each.SerializeToString()
            self.http.send_data(stream, b"\0" + struct.pack(">I", len(data)) + data)
        if end:
            self.http.end_stream(stream)
        self.exchange()

    def heard(self, stream: int, kind: Any) -> list[Any]:
        """The whole messages of a call, taken."""
        data = self.messages.get(stream, b"")
        found = []
        while len(data) >= 5 and len(data) >= 5 + int.from_bytes(data[1:5]):
            end = 5 + int.from_bytes(data[1:5])
            found.append(kind.FromString(data[5:end]))
            data = data[end:]
        self.messages[stream] = data
        return found

    def read(self, stream: int, count: int) -> None:
        """Lets so many more bytes come in this call."""
        self.http.increment_flow_control_window(count)
        self.http.increment_flow_control_window(count, stream)
        self.exchange()
