"""A node that ends: streams say `bye` with the web doors of the others, NATS over WebSocket `ldm`, MQTT no will (A7, H3, H6)."""

from __future__ import annotations

import json
import re
import signal
import socket
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cluster.nodes import NodeProcess, Nodes, running

SECONDS = 20.0
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
UPGRADE = f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n"
WILL = b"\x10\x1a\x00\x04MQTT\x04\x06\x00\x3c\x00\x01c\x00\x04will\x00\x05lost!"
FLAGS = ("--http", "127.0.0.1:0", "--limits-drain", "3 s")


def web_port(node: NodeProcess) -> int:
    found = re.findall(r"Web door open on [0-9.]+:([0-9]+)", node.log.read_text())
    return int(found[-1])


class Web:
    """A plain socket at the web door."""

    def __init__(self, node: NodeProcess, target: str, fields: str = "") -> None:
        self.socket = socket.create_connection((node.host, web_port(node)), SECONDS)
        self.socket.settimeout(SECONDS)
        self.heard = b""
        self.socket.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n".encode())
        self.until(b"\r\n\r\n")

    def until(self, end: bytes) -> bytes:
        """Everything up to and with this; empty: the connection has ended before."""
        while end not in self.heard:
            more = self.socket.recv(65536)
            if not more:
                return b""
            self.heard += more
        at = self.heard.index(end) + len(end)
        said, self.heard = self.heard[:at], self.heard[at:]
        return said

    def frame(self, content: bytes) -> None:
        """A masked frame of at most 125 bytes, with a key that changes nothing."""
        self.socket.sendall(bytes((0x82, 0x80 | len(content))) + bytes(4) + content)

    def info(self) -> Any:
        self.until(b"INFO ")
        return json.loads(self.until(b"\r\n"))


@pytest.fixture(params=[signal.SIGTERM, signal.SIGUSR2], ids=["stop", "lame duck"])
def ending(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Nodes, signal.Signals]]:
    with running(tmp_path, 2, flags=FLAGS) as nodes:
        yield nodes, request.param


def test_clients_are_told_where_else_to_go(ending: tuple[Nodes, signal.Signals]) -> None:
    nodes, number = ending
    stays, ends = nodes[0], nodes[1]
    other = f"127.0.0.1:{web_port(stays)}"
    wills = Web(stays, "/v1/stream?topic=will")
    stream, view = Web(ends, "/v1/stream?topic=a"), Web(ends, "/v1/stream?where=select%20a%20where%20b%20=%201")
    nats = Web(ends, "/nats", UPGRADE)
    assert nats.info()["connect_urls"] == [f"127.0.0.1:{web_port(ends)}", other]
    nats.frame(b'CONNECT {"verbose":false}\r\nPING\r\n')
    assert nats.until(b"PONG\r\n")
    mqtt = Web(ends, "/mqtt", UPGRADE + "Sec-WebSocket-Protocol: mqtt\r\n")
    mqtt.frame(WILL)
    assert mqtt.until(b"\x20\x02\x00\x00")
    ends.signal(number)
    for each in (stream, view):
        said = each.until(b"event: bye\ndata: ") and each.until(b"\n\n")
        assert json.loads(said) == {"others": [f"http://{other}"]}
        assert each.until(b"event: bye") == b"", "said once"
    told: dict[str, Any] = {}
    while not told.get("ldm"):
        told = nats.info()
    assert told["connect_urls"] == [other]
    ended = threading.Thread(target=ends.process.wait)
    ended.start()
    ended.join(SECONDS)
    assert ends.process.returncode == 0
    with urllib.request.urlopen(f"http://{other}/v1/topics/will", b"first", SECONDS) as answer:
        assert answer.status == 202
    wills.until(b'"payload":"')
    assert wills.until(b'"') == b'first"'
    for each in (stream, view, nats, mqtt, wills):
        each.socket.close()
