"""A gRPC client that is not the limit: frames of HTTP/2 made in advance, one system call for many, only lengths parsed.

It publishes through SendEventsStream, one message to a DATA frame as most gRPC libraries do, and counts what a
subscription on another connection receives. So many events are under way at most; none may be lost.

    python bench/grpc_load.py PORT COUNT [SIZE]     prints the seconds that so many events took
"""

from __future__ import annotations

import selectors
import socket
import struct
import sys
import time
from pathlib import Path

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fumarole.protocols.kubemq_pb2 import Event, EventReceive, Subscribe

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
HEAD = 9
INITIAL_WINDOW_SIZE = 4
WIDE = 2**31 - 1
FIRST_WINDOW = 65_535
UNDER_WAY = 4_000
"""Fewer than fill an outbox of 4 MiB: nothing is dropped, and the client would see it if something were."""
BATCH = 100
IDENTITY = "00000000"
PATIENCE = 30.0


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


def message(data: bytes) -> bytes:
    return b"\0" + struct.pack(">I", len(data)) + data


def literal(name: bytes, value: bytes) -> bytes:
    """A header that is in no table and enters none."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def call(method: str) -> bytes:
    """The head of a call."""
    pairs = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": f"/kubemq.kubemq/{method}".encode(),
        b":authority": b"localhost",
        b"te": b"trailers",
        b"content-type": b"application/grpc",
    }
    return frame(HEADERS, END_HEADERS, 1, b"".join(literal(*pair) for pair in pairs.items()))


class Connection:
    """One call on one connection."""

    def __init__(self, port: int, method: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wide = struct.pack(">HI", INITIAL_WINDOW_SIZE, WIDE)
        more = frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WIDE - FIRST_WINDOW))
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0, wide) + more + call(method))
        self.windows = {0: FIRST_WINDOW, 1: FIRST_WINDOW}
        self._first = FIRST_WINDOW
        self.received = 0
        """Bytes of DATA."""
        self.has_head = False
        self._rest = b""

    def read(self) -> None:
        """What is there, as far as it is whole."""
        data = self._rest + self.socket.recv(1 << 18)
        if len(data) == len(self._rest):
            raise SystemExit("the server has closed the connection")
        at = 0
        while len(data) - at >= HEAD:
            size = int.from_bytes(data[at : at + 3])
            end = at + HEAD + size
            if end > len(data):
                break
            self._take(data[at + 3], data[at + 4], int.from_bytes(data[at + 5 : at + HEAD]), data[at + HEAD : end])
            at = end
        self._rest = data[at:]

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == DATA:
            self.received += len(payload)
        elif kind == WINDOW_UPDATE:
            self.windows[stream] += int.from_bytes(payload)
        elif kind == SETTINGS and not flags & ACK:
            for place in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[place : place + 6])
                if name == INITIAL_WINDOW_SIZE:
                    self.windows[1] += value - self._first
                    self._first = value
            self.socket.sendall(frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self.socket.sendall(frame(PING, ACK, 0, payload))
        elif kind == HEADERS:
            self.has_head = True
            if flags & END_STREAM:
                raise SystemExit(f"the call has ended: {payload!r}")
        elif kind == GOAWAY:
            raise SystemExit(f"the server says goodbye: {payload!r}")


def load(port: int, count: int, size: int) -> float:
    """Seconds until so many events have come back."""
    receiver = Connection(port, "SubscribeToEvents")
    asked = Subscribe(SubscribeTypeData=Subscribe.Events, ClientID="bench", Channel="volcanoes.*")
    receiver.socket.sendall(frame(DATA, END_STREAM, 1, message(asked.SerializeToString())))
    while not receiver.has_head:
        receiver.read()
    body = b"x" * size
    event = Event(EventID=IDENTITY, ClientID="bench", Channel="volcanoes.atka", Body=body)
    back = EventReceive(EventID=IDENTITY, Channel="volcanoes.atka", Body=body)
    out = message(event.SerializeToString())
    each = len(message(back.SerializeToString()))
    batch = frame(DATA, 0, 1, out) * BATCH
    sender = Connection(port, "SendEventsStream")
    waiting = selectors.DefaultSelector()
    waiting.register(receiver.socket, selectors.EVENT_READ, receiver)
    waiting.register(sender.socket, selectors.EVENT_READ, sender)
    sent, began = 0, time.perf_counter()
    while receiver.received < count * each:
        bytes_out = len(out) * BATCH
        while (
            sent < count
            and sent - receiver.received // each <= UNDER_WAY - BATCH
            and min(sender.windows.values()) > bytes_out
        ):
            sender.socket.sendall(batch)
            sent += BATCH
            for stream in sender.windows:
                sender.windows[stream] -= bytes_out
        found = waiting.select(PATIENCE)
        if not found:
            raise SystemExit(f"{sent} events were sent, and {receiver.received // each} came back")
        for key, _ in found:
            key.data.read()
    return time.perf_counter() - began


if __name__ == "__main__":
    print(
        load(
            int(sys.argv[1]), max(int(sys.argv[2]) // BATCH, 1) * BATCH, int(sys.argv[3]) if len(sys.argv) > 3 else 128
        )
    )
