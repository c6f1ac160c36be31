"""WebSocket between a connection and a session that speaks a protocol of bytes: NATS, MQTT (H6).

The session and its compiled reader are the ones that TCP connections have; they know nothing of frames. What the frames
carry goes to the reader, and what leaves the outbox at once is one frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fumarole.protocols import websocket
from fumarole.protocols.stream import Data
from fumarole.protocols.websocket import CLOSE, PING, PONG, FrameFault, FrameReader
from fumarole.sessions.reader import Reader

Write = Callable[[bytes], None]
"""Sends bytes before what the outbox has, or drops them: between two frames there is always a place for one."""


class WebSocketReader:
    """The reader of a connection that has been upgraded, and its framing."""

    def __init__(self, frames: FrameReader, session: Any, reader: Reader, write: Write) -> None:
        self._frames = frames
        self._session = session
        self._reader = reader
        self._write = write
        self._code = websocket.NORMAL
        self._has_said_last = False

    # A reader.

    @property
    def unfinished(self) -> bool:
        return self._reader.unfinished

    def go_on(self) -> None:
        self._reader.go_on()

    def receive_data(self, data: Data) -> None:
        try:
            carried = self._frames.take(data)
        except FrameFault as fault:
            self._code = fault.code
            self._session.close()
            return
        if carried:
            self._reader.receive_data(carried)
        if self._frames.controls:
            self._answer()

    def _answer(self) -> None:
        """A ping has a pong, and the end has an end."""
        for opcode, content in self._frames.controls:
            if opcode == PING:
                self._write(websocket.frame(PONG, content))
            elif opcode == CLOSE:
                self._code = int.from_bytes(content[:2], "big") or websocket.NORMAL
                while self._reader.unfinished:
                    self._reader.go_on()
                self._session.close()

    # A framing.

    def wrap(self, data: bytes) -> bytes:
        return websocket.frame(websocket.BINARY, data)

    def last(self) -> bytes:
        if self._has_said_last:
            return b""
        self._has_said_last = True
        return websocket.close_frame(self._code)
