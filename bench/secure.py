"""TLS beside nats-server: messages a second one to one, and processor time of the server for a handshake.

Both have the same certificate, and the same client: Python's ssl, in one thread, with buffers so large that a message
costs it little. It is a limit for both, so the ratio is on the safe side.
"""

from __future__ import annotations

import socket
import ssl
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import trustme

from bench.effort import Effort
from bench.figures import PEER, Figure, against
from bench.servers import CannotMeasureError, Server, fumarole, nats_server

CLAIM = "TLS"
SIZES = {"128 B": 128, "1 KiB": 1024}
BYTES = 64 * 1024 * 1024
WINDOW = 1024 * 1024
"""Bytes under way: fewer than fill an outbox."""
HANDSHAKES = 300
PATIENCE = 30.0


def measure(effort: Effort) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        chain, key, authority = _certificate(Path(folder))
        context = ssl.create_default_context(cafile=authority)
        config = Path(folder) / "fumarole.toml"
        config.write_text(f'[tls]\ncertificate = "{chain}"\nkey = "{key}"\n')
        with (
            fumarole("compiled", "--config", str(config)) as ours,
            nats_server("--tls", f"--tlscert={chain}", f"--tlskey={key}") as peer,
        ):
            for name, size in SIZES.items():
                rates: dict[str, list[float]] = {ours.name: [], PEER: []}
                for turn in range(effort.rounds):
                    for server in (ours, peer):
                        effort.tell(f"{name}, {server.name}, round {turn + 1}")
                        rates[server.name].append(_rate(server, context, size, effort.share(BYTES)))
                yield _ratio(f"one to one, {name}", rates, ours.name, 1.0)
            rates = {ours.name: [], PEER: []}
            for turn in range(effort.rounds):
                for server in (ours, peer):
                    effort.tell(f"handshakes, {server.name}, round {turn + 1}")
                    rates[server.name].append(1 / _handshake(server, context, effort.share(HANDSHAKES)))
            yield _ratio("handshakes in a second of a processor", rates, ours.name, 0.8)


def _ratio(name: str, rates: dict[str, list[float]], own: str, wanted: float) -> Figure:
    rounds = [mine / theirs for mine, theirs in zip(rates[own], rates[PEER], strict=True)]
    return against(PEER, CLAIM, name, max(rates[own]), max(rates[PEER]), "/s", at_least=wanted, rounds=rounds)


def _certificate(folder: Path) -> tuple[Path, Path, Path]:
    authority = trustme.CA()
    server = authority.issue_cert("127.0.0.1", "localhost")
    chain, key, root = folder / "server.pem", folder / "server.key", folder / "authority.pem"
    chain.write_bytes(b"".join(blob.bytes() for blob in server.cert_chain_pems))
    key.write_bytes(server.private_key_pem.bytes())
    root.write_bytes(authority.cert_pem.bytes())
    return chain, key, root


def _connect(server: Server, context: ssl.SSLContext) -> ssl.SSLSocket:
    """INFO in plain text, then TLS, as NATS has it."""
    plain = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    said = b""
    while not said.endswith(b"\r\n"):
        said += plain.recv(1)  # not a byte of the handshake
    made = context.wrap_socket(plain, server_hostname="localhost")
    made.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\nPING\r\n')
    heard = b""
    while b"PONG\r\n" not in heard:
        heard += made.recv(4096)
    return made


def _rate(server: Server, context: ssl.SSLContext, size: int, wanted: int) -> float:
    """Messages a second."""
    payload = b"x" * size
    out = b"PUB volcanoes.atka %d\r\n%b\r\n" % (size, payload)
    back = len(b"MSG volcanoes.atka 1 %d\r\n%b\r\n" % (size, payload))
    batch = out * (65_536 // len(out))
    each = len(batch) // len(out)
    rounds = max(wanted // len(batch), 1)
    with _connect(server, context) as consumer, _connect(server, context) as publisher:
        consumer.sendall(b"SUB volcanoes.> 1\r\nPING\r\n")
        while consumer.recv(4096)[-6:] != b"PONG\r\n":
            pass
        began, heard, sent = time.perf_counter(), 0, 0
        while heard < rounds * each * back:
            if sent < rounds and sent * each * back - heard < WINDOW:
                publisher.sendall(batch)
                sent += 1
            else:
                more = len(consumer.recv(1 << 18))
                if not more:
                    raise CannotMeasureError(f"{server.name} closed a connection")
                heard += more
        return rounds * each / (time.perf_counter() - began)


def _handshake(server: Server, context: ssl.SSLContext, count: int) -> float:
    """Seconds of a processor."""
    before = server.processor_seconds()
    for _ in range(count):
        _connect(server, context).close()
    return (server.processor_seconds() - before) / count
