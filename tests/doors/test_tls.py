"""TLS at the NATS door, as a client in a hurry sees it."""

import socket
import ssl
from pathlib import Path

import pytest
import trustme

from tests.client.brokers import BrokerProcess


class HastyClient:
    """Begins TLS in the moment in which it has INFO, and speaks in the moment in which TLS has begun."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")

    def answer_to(self, said: bytes) -> bytes:
        assert self._socket.recv(4096).startswith(b"INFO ")
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._exchange()
        # The end of the handshake and the first words leave together.
        self._tls.write(said)
        while True:
            try:
                return self._tls.read(100)
            except ssl.SSLWantReadError:
                self._exchange()

    def _exchange(self) -> None:
        self._socket.sendall(self._outgoing.read())
        self._incoming.write(self._socket.recv(65536))

    def close(self) -> None:
        self._socket.close()


@pytest.mark.parametrize("engine", ["compiled", "plain"])
def test_a_client_that_answers_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    if engine == "plain":
        monkeypatch.setenv("FUMAROLE_PURE", "1")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    file = tmp_path / "certificate.pem"
    issued.private_key_and_cert_chain_pem.write_to_path(str(file))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    broker = BrokerProcess(tmp_path, "--tls-certificate", str(file), "--tls-key", str(file))
    try:
        port = int(broker.url.rpartition(":")[2])
        for _ in range(50):
            client = HastyClient(port, context)
            assert client.answer_to(b'CONNECT {"verbose":false}\r\nPING\r\n') == b"PONG\r\n"
            client.close()
    finally:
        assert broker.stop() == 0
