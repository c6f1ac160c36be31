"""TLS at the NATS door, as a client in a hurry sees it."""

import socket
import ssl
from collections.abc import Callable, Iterator
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
        if data := self._socket.recv(65536):
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def close(self) -> None:
        self._socket.close()


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
def start_broker(
    tmp_path: Path, context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Callable[..., BrokerProcess]]:
    if request.param == "plain":
        monkeypatch.setenv("FUMAROLE_PURE", "1")
    file = str(tmp_path / "certificate.pem")
    started: list[BrokerProcess] = []

    def start(*flags: str) -> BrokerProcess:
        started.append(BrokerProcess(tmp_path, "--tls-certificate", file, "--tls-key", file, *flags))
        return started[-1]

    yield start
    assert [broker.stop() for broker in started] == [0]


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    return start_broker()


def port_of(broker: BrokerProcess) -> int:
    return int(broker.url.rpartition(":")[2])


def test_a_client_that_answers_at_once(broker: BrokerProcess, context: ssl.SSLContext) -> None:
    for _ in range(50):
        client = HastyClient(port_of(broker), context)
        assert client.answer_to(b'CONNECT {"verbose":false}\r\nPING\r\n') == b"PONG\r\n"
        client.close()


def said_too_early(broker: BrokerProcess, words: bytes) -> bytes:
    """What the broker says to words that are there, in plain text, before it has said anything itself."""
    with broker.frozen():  # so that the words are there before it looks
        client = socket.create_connection(("127.0.0.1", port_of(broker)), timeout=10)
        client.sendall(words)
    with client:
        return b"".join(iter(lambda: client.recv(4096), b""))


def test_what_came_in_plain_text_is_not_obeyed(broker: BrokerProcess) -> None:
    """An attacker on the way may have put words before the client's own."""
    said = said_too_early(broker, b'CONNECT {"verbose":false}\r\nSUB secrets 1\r\nPUB secrets 0\r\n\r\n')
    assert said.startswith(b"INFO ")
    assert said.count(b"\r\n") == 1
    assert "spoke before TLS had begun" in broker.log.read_text()


def test_a_client_that_begins_with_tls_hears_why_it_cannot(broker: BrokerProcess, context: ssl.SSLContext) -> None:
    """Its TLS gets INFO in plain text, as from nats-server, and says that this is no handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    incoming.write(said_too_early(broker, outgoing.read()))
    with pytest.raises(ssl.SSLError, match="WRONG_VERSION_NUMBER"):
        tls.do_handshake()


def test_a_client_without_a_certificate_gets_an_alert(
    start_broker: Callable[..., BrokerProcess], context: ssl.SSLContext, tmp_path: Path
) -> None:
    """It hears what is wrong with it: a connection that ends without a word looks like a lost one, and it would come again."""
    authority = str(tmp_path / "certificate.pem")
    broker = start_broker("--tls-client-authority", authority, "--tls-client-certificates", "required")
    client = HastyClient(port_of(broker), context)
    with pytest.raises(ssl.SSLError, match="ALERT_CERTIFICATE_REQUIRED"):
        client.answer_to(b'CONNECT {"verbose":false}\r\nPING\r\n')
    client.close()
