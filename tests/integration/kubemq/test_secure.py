"""Tokens, permissions and TLS: with KubeMQ's own clients, and without."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import trustme

from fumarole.server.credentials import token_digest
from tests.integration.conftest import Brokers
from tests.integration.kubemq.calls import Calls, fault_of
from tests.integration.kubemq.conftest import DOOR, kubemq_port
from tests.integration.kubemq.sdks import SDKS, Faulty, Sdk
from tests.integration.running import RunningBroker

DENIED = "Error 412: access denied to resource|Permission denied"
"""What the SDKs say; 3.6.0 makes a text of its own from the status."""
ADA, LIMITED, OTHER = "token-of-ada", "token-of-a-limited-one", "token-of-another-namespace"
USERS = f"""
[[users]]
name = "ada"
token = "{token_digest(ADA)}"
namespace = "kubemq"

[[users]]
name = "limited"
token = "{token_digest(LIMITED)}"
namespace = "kubemq"
publish = {{ allow = ["open.>"], deny = ["open.secret"] }}
subscribe = {{ allow = ["open.>"], deny = ["open.secret"] }}

[[users]]
name = "other"
token = "{token_digest(OTHER)}"
namespace = "other"
"""


class Certificates:
    """An authority, and what it has signed."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        server, client = authority.issue_cert("127.0.0.1", "localhost"), authority.issue_cert("python@example.org")
        self.authority = self._write(folder / "authority.pem", [authority.cert_pem])
        self.key = self._write(folder / "server.key", [server.private_key_pem])
        self.chain = self._write(folder / "server.pem", server.cert_chain_pems)
        self.client_key = self._write(folder / "client.key", [client.private_key_pem])
        self.client_chain = self._write(folder / "client.pem", client.cert_chain_pems)

    @staticmethod
    def _write(path: Path, blobs: list[trustme.Blob]) -> str:
        path.write_bytes(b"".join(blob.bytes() for blob in blobs))
        return str(path)

    def config(self, more: str = "") -> str:
        return f'[tls]\ncertificate = "{self.chain}"\nkey = "{self.key}"\n{more}'


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secure(brokers: Brokers, certificates: Certificates) -> RunningBroker:
    """With TLS, and with users."""
    return brokers.share(DOOR + USERS + certificates.config(), observed=True)


class Secured:
    """Clients of one SDK, connected with TLS, each with a token of its own."""

    def __init__(self, name: str, broker: RunningBroker, certificates: Certificates) -> None:
        self._name = name
        self._options = {
            "address": f"localhost:{kubemq_port(broker)}",
            "authority": certificates.authority,
            "certificate": certificates.client_chain,
            "key": certificates.client_key,
        }
        self._connected: list[Sdk] = []

    def connect(self, token: str) -> Sdk:
        sdk = Sdk(self._name)
        self._connected.append(sdk)
        sdk.do("connect", token=token, **self._options)
        return sdk

    def close(self) -> None:
        for sdk in self._connected:
            sdk.close()


@pytest.fixture(params=SDKS)
def secured(request: pytest.FixtureRequest, secure: RunningBroker, certificates: Certificates) -> Iterator[Secured]:
    clients = Secured(request.param, secure, certificates)
    yield clients
    clients.close()


def test_a_token_decides(secured: Secured) -> None:
    """What is allowed goes through; what is not says why, or, where the SDK does not listen, goes nowhere."""
    ada, limited = secured.connect(ADA), secured.connect(LIMITED)
    # Who is subscribed is asked by sending until it is heard: there are no eyes for that in an SDK.
    ada.do("subscribe", name="all", channel=">")
    until_heard(ada, ada, "all", "first")
    for channel in ("closed", "open.secret", "open.x"):
        try:
            limited.do("send", events=[{"channel": channel, "body": channel}])
        except Faulty as fault:
            assert re.search(DENIED, str(fault))  # noqa: PT017
            assert channel != "open.x"
    assert next_channel(ada, "all") == "open.x"
    limited.do("subscribe", name="refused", channel="closed")
    assert re.search(DENIED, limited.failed("refused"))
    limited.do("subscribe", name="allowed", channel="open.>")
    until_heard(limited, ada, "allowed", "open.first")
    for channel in ("closed", "open.secret", "open.y"):
        ada.do("send", events=[{"channel": channel, "body": channel}])
    assert next_channel(limited, "allowed") == "open.y"


def until_heard(listener: Sdk, sender: Sdk, name: str, channel: str) -> None:
    """Sends until the subscription is in force."""
    for _ in range(1000):
        sender.do("send", events=[{"channel": channel, "body": "?"}])
        if listener.heard_by([name], 0)[name]:
            return
    raise AssertionError("nothing was heard")


def next_channel(sdk: Sdk, name: str) -> str:
    """Past those that asked whether there is a consumer."""
    while (channel := str(sdk.heard(name)[0]["channel"])).endswith("first"):
        pass
    return channel


@pytest.mark.parametrize(("token", "reason"), [("", "a token is needed"), ("wrong", "no user has this token")])
def test_without_the_right_token_nothing_goes(secured: Secured, token: str, reason: str) -> None:
    """Though a connection is made: a ping needs no token, because SDK 4 sends none with it."""
    sdk = secured.connect(token)
    assert sdk.do("ping").startswith("2.6.0")
    sdk.do("subscribe", name="refused", channel="a")
    refused = f"authentication verification failed, {reason}|Invalid authentication token"
    assert re.search(refused, sdk.failed("refused"))
    with pytest.raises(Faulty, match=refused):
        sdk.do("ask", kind="queries", channel="a", body="?")


# Without an SDK.


@pytest.fixture
def guarded(brokers: Brokers, engine_name: str) -> RunningBroker:
    """Users, and no TLS."""
    return brokers.share(DOOR + USERS, engine_name)


def test_namespaces_by_token(guarded: RunningBroker) -> None:
    """N2."""
    port = kubemq_port(guarded)
    with Calls(port, ADA) as ada, Calls(port, OTHER) as other:
        here, there = ada.receiver("a"), other.receiver("a")
        ada.send("a", b"here")
        other.send("a", b"there")
        assert (here.next().Body, there.next().Body) == (b"here", b"there")


def test_a_stream_with_a_wrong_token(guarded: RunningBroker) -> None:
    with Calls(kubemq_port(guarded), "wrong") as calls:
        stream = calls.stream()
        with pytest.raises(grpc.RpcError) as caught:
            stream.result()
        assert fault_of(caught.value)[0] == "UNAUTHENTICATED"
        stream.cancel()


def test_a_denied_event_in_a_stream(guarded: RunningBroker) -> None:
    with Calls(kubemq_port(guarded), LIMITED) as limited, Calls(kubemq_port(guarded), ADA) as ada:
        receiver, stream = ada.receiver(">"), limited.stream()
        stream.send("closed", EventID="7")
        result = stream.result()
        assert (result.EventID, result.Sent, result.Error) == ("7", False, "Error 412: access denied to resource")
        stream.send("open.a")
        assert receiver.next().Channel == "open.a"
        assert stream.end() == []


def test_the_namespace_of_the_configuration(brokers: Brokers, engine_name: str) -> None:
    """K2: those without a token are where the configuration says; a token says otherwise."""
    broker = brokers.share(DOOR + 'kubemq.namespace = "plant"\n', engine_name)
    with Calls(kubemq_port(broker)) as calls, Calls(kubemq_port(broker), "plant") as named:
        receiver = named.receiver("a")
        calls.send("a")
        assert receiver.next().Body == b"x"
        with pytest.raises(grpc.RpcError) as caught:
            calls.send("ä")
        assert "'ä' is not allowed" in fault_of(caught.value)[1]


def secure_channel(broker: RunningBroker, certificates: Certificates, with_certificate: bool) -> grpc.Channel:
    files = [certificates.authority, certificates.client_key, certificates.client_chain]
    root, key, chain = (Path(file).read_bytes() for file in files)
    credentials = grpc.ssl_channel_credentials(root, *((key, chain) if with_certificate else ()))
    return grpc.secure_channel(f"localhost:{kubemq_port(broker)}", credentials)


@pytest.mark.parametrize("wanted", ["optional", "required"])
def test_certificates_of_clients(brokers: Brokers, certificates: Certificates, wanted: str) -> None:
    more = f'client_authority = "{certificates.authority}"\nclient_certificates = "{wanted}"\n'
    broker = brokers.share(DOOR + certificates.config(more))
    for with_certificate in (True, False):
        with Calls(0) as calls, secure_channel(broker, certificates, with_certificate) as channel:
            calls.channel.close()
            calls.channel = channel
            if with_certificate or wanted == "optional":
                assert calls.send("a").Sent
            else:
                with pytest.raises(grpc.RpcError) as caught:
                    calls.send("a")
                assert fault_of(caught.value)[0] == "UNAVAILABLE"


def test_without_tls_where_there_is_tls(secure: RunningBroker) -> None:
    with Calls(kubemq_port(secure), ADA) as calls, pytest.raises(grpc.RpcError) as caught:
        calls.send("a")
    assert fault_of(caught.value)[0] == "UNAVAILABLE"
