"""TLS at the NATS door, as a client in a hurry sees it."""

import socket
import ssl
from collections.abc import Iterator
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
        """Empty where the broker hangs up instead of greeting."""
        greeting = self._socket.recv(4096)
        if not greeting:
            return b""
        assert greeting.startswith(b"INFO ")
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


class InjectedClient(HastyClient):
    """An attacker on the way has put words before its own, in plain text and before the broker has said anything."""

    def __init__(self, port: int, context: ssl.SSLContext, injected: bytes) -> None:
        super().__init__(port, context)
        self._socket.sendall(injected)


@pytest.fixture
def context(tmp_path: Path) -> ssl.SSLContext:
    """Trusts the certificate that it leaves in the folder."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "certificate.pem"))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture(params=["compiled", "plain"])
def broker(
    tmp_path: Path, context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[BrokerProcess]:
    if request.param == "plain":
        monkeypatch.setenv("FUMAROLE_PURE", "1")
    file = str(tmp_path / "certificate.pem")
    broker = BrokerProcess(tmp_path, "--tls-certificate", file, "--tls-key", file)
    try:
        yield broker
    finally:
        assert broker.stop() == 0


def port_of(broker: BrokerProcess) -> int:
    return int(broker.url.rpartition(":")[2])


def test_a_client_that_answers_at_once(broker: BrokerProcess, context: ssl.SSLContext) -> None:
    for _ in range(50):
        client = HastyClient(port_of(broker), context)
        assert client.answer_to(b'CONNECT {"verbose":false}\r\nPING\r\n') == b"PONG\r\n"
        client.close()


def test_what_came_in_plain_text_is_not_obeyed(broker: BrokerProcess, context: ssl.SSLContext) -> None:
    with broker.frozen():  # so that the words are there before it looks
        client = InjectedClient(port_of(broker), context, b'CONNECT {"verbose":false}\r\nSUB secrets 1\r\n')
    assert client.answer_to(b"PUB secrets 0\r\n\r\n") == b""
    client.close()
    assert "spoke before TLS had begun" in broker.log.read_text()
