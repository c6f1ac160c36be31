"""INFO, the counters, signs of life, and the limits on how many may come."""

from __future__ import annotations

import json
import time

import pytest

from tests.integration.conftest import Authority, Brokers
from tests.integration.raw import RawClient, messages
from tests.integration.running import RunningBroker

IMPATIENT = '[limits]\nidle = "300 ms"\nhandshake = "500 ms"\ntls_handshake = "600 ms"\n'


@pytest.fixture
def impatient(brokers: Brokers, engine_name: str) -> RunningBroker:
    return brokers.share(IMPATIENT, engine_name)


def test_info(broker: RunningBroker) -> None:
    with RawClient(broker.port) as client, RawClient(broker.port) as other:
        info = client.info
        assert info["server_id"].startswith("fumarole-")
        assert info["version"]
        assert (info["host"], info["port"], info["client_ip"]) == ("127.0.0.1", broker.port, "127.0.0.1")
        assert (info["proto"], info["headers"], info["max_payload"]) == (1, True, 1024 * 1024)
        assert "auth_required" not in info
        assert "tls_required" not in info
        assert other.info["client_id"] > info["client_id"]


def test_info_follows_the_settings(brokers: Brokers, authority: Authority) -> None:
    broker = brokers.share(f'users = []\n[limits]\npayload = "64 KiB"\n{authority.config()}')
    with RawClient(broker.port) as client:
        assert client.info["max_payload"] == 65536
        assert client.info["auth_required"] is True
        assert client.info["tls_required"] is True


def test_the_counters(broker: RunningBroker) -> None:
    with RawClient(broker.port) as client:
        client.connect(user="counted")
        client.talk(b"SUB heard 1\r\nSUB heard 2\r\nSUB in 3\r\n")
        client.talk(b"PUB heard 3\r\nabc\r\nPUB unheard 2\r\nab\r\nPUB not.* 1\r\na\r\n")
        client.send(b"PUB $FUM.stats in 0\r\n\r\nPING\r\n")
        ((topic, sid, _, _, payload),) = messages(client.read_until(b"PONG\r\n"))
        assert (topic, sid) == (b"in", b"3")
        counted = json.loads(payload)
        assert counted["namespace"] == "counted"
        assert (counted["connections"], counted["received"], counted["received_bytes"]) == (1, 2, 5)
        assert counted["delivered"] == 2
        assert counted["dropped"]["no consumer"] == 1
        assert counted["dropped"]["refused"] == 1
        assert counted["dropped"]["outbox full"] == 0


def test_who_answers_pings_stays(impatient: RunningBroker) -> None:
    with RawClient(impatient.port) as client:
        client.connect()
        for _ in range(3):
            assert client.read_until(b"\r\n") == b"PING\r\n"
            client.send(b"PONG\r\n")
        assert client.talk(b"") == b"PONG\r\n"


def test_who_says_anything_is_not_asked(impatient: RunningBroker) -> None:
    with RawClient(impatient.port) as client:
        client.connect()
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            client.send(b"PUB a 0\r\n\r\n")
            assert client.is_quiet(0.1)


def test_who_does_not_answer_is_cut_off(impatient: RunningBroker) -> None:
    with RawClient(impatient.port) as client:
        client.connect()
        assert client.read_to_end() == b"PING\r\nPING\r\n-ERR 'Stale Connection'\r\n"


def test_half_a_message_is_no_sign_of_life_for_ever(impatient: RunningBroker) -> None:
    with RawClient(impatient.port) as client:
        client.connect()
        client.send(b"PUB a 5\r\nhel")
        assert client.read_to_end().endswith(b"-ERR 'Stale Connection'\r\n")


def test_connect_and_say_nothing(impatient: RunningBroker) -> None:
    with RawClient(impatient.port) as client:
        began = time.monotonic()
        assert client.read_to_end() == b"-ERR 'Authentication Timeout'\r\n"
        assert time.monotonic() - began < 3


def test_only_pings_are_no_greeting(impatient: RunningBroker) -> None:
    with RawClient(impatient.port) as client:
        assert client.talk(b"") == b"PONG\r\n"
        assert client.read_to_end() == b"-ERR 'Authentication Timeout'\r\n"


def test_a_greeting_without_end(impatient: RunningBroker) -> None:
    """Each byte is a sign of life; the deadline is absolute all the same."""
    with RawClient(impatient.port) as client:
        began = time.monotonic()
        client.send(b'CONNECT {"name":"')
        while client.is_quiet(0.05) and time.monotonic() - began < 5:
            client.send(b"x")
        assert client.read_to_end() == b"-ERR 'Authentication Timeout'\r\n"
        assert time.monotonic() - began < 3


def test_no_tls_handshake(brokers: Brokers, engine_name: str, authority: Authority) -> None:
    """The same without a word in plain text behind INFO."""
    broker = brokers.share(IMPATIENT + authority.config(), engine_name)
    with RawClient(broker.port) as client:
        began = time.monotonic()
        assert client.read_to_end() == b""
        assert time.monotonic() - began < 3


def test_silence_after_the_tls_handshake(brokers: Brokers, engine_name: str, authority: Authority) -> None:
    broker = brokers.share(IMPATIENT + authority.config(), engine_name)
    with RawClient(broker.port) as client:
        client.start_tls(authority.client_context())
        assert client.read_to_end() == b"-ERR 'Authentication Timeout'\r\n"


def test_a_client_that_comes_again_resumes_its_tls_session(
    brokers: Brokers, engine_name: str, authority: Authority
) -> None:
    """With the one ticket that it was given."""
    broker = brokers.share(authority.config(), engine_name)
    context = authority.client_context()
    session = None
    for is_resumed in (False, True, True):
        with RawClient(broker.port) as client:
            plain = client.socket
            client.socket = secured = context.wrap_socket(plain, server_hostname="127.0.0.1", session=session)
            client.connect()
            assert secured.session_reused is is_resumed
            session = secured.session


def test_too_many_connections(brokers: Brokers, engine_name: str) -> None:
    broker = brokers.share("[limits]\nconnections = 3\n", engine_name)
    clients = [RawClient(broker.port) for _ in range(3)]
    try:
        for client in clients:
            client.connect()
        with RawClient(broker.port, greet=False) as one_more:
            assert one_more.read_to_end() == b"-ERR 'maximum connections exceeded'\r\n"
        assert clients[0].talk(b"") == b"PONG\r\n"
        clients.pop().close()
        assert clients[0].talk(b"") == b"PONG\r\n"
        with RawClient(broker.port) as welcome:
            welcome.connect()
    finally:
        for client in clients:
            client.close()


def test_too_many_connections_from_one_address(brokers: Brokers, engine_name: str) -> None:
    broker = brokers.share("[limits]\nconnections_per_address = 1\n", engine_name)
    with RawClient(broker.port), RawClient(broker.port, greet=False) as one_more:
        assert one_more.read_to_end() == b"-ERR 'maximum connections exceeded'\r\n"


def test_too_many_subscriptions(brokers: Brokers, engine_name: str) -> None:
    broker = brokers.share("[limits]\nconsumers_per_connection = 2\n", engine_name)
    with RawClient(broker.port) as client:
        client.connect()
        heard = client.talk(b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nPUB c 0\r\n\r\nPUB a 0\r\n\r\n")
        refusal = b"-ERR 'Permissions Violation for Subscription to \"c\": maximum subscriptions exceeded'\r\n"
        assert heard == refusal + b"MSG a 1 0\r\n\r\nPONG\r\n"
        assert client.talk(b"UNSUB 1\r\nSUB c 3\r\nPUB c 0\r\n\r\n") == b"MSG c 3 0\r\n\r\nPONG\r\n"


def test_only_the_allowed_namespaces(brokers: Brokers, engine_name: str) -> None:
    broker = brokers.share('allowed_namespaces = ["volcanoes"]\n', engine_name)
    for name in ("volcanoes", "default", ""):
        with RawClient(broker.port) as client:
            client.connect(user=name)
    with RawClient(broker.port) as client:
        client.send(b'CONNECT {"user":"glaciers"}\r\n')
        assert client.read_to_end().startswith(b"-ERR 'Authorization Violation")


@pytest.mark.parametrize("grammar", ["strict", "channel"])
def test_each_namespace_has_its_grammar(brokers: Brokers, engine_name: str, grammar: str) -> None:
    broker = brokers.share('[namespaces.wide]\ngrammar = "channel"\n', engine_name)
    with RawClient(broker.port) as client:
        client.connect(user="wide" if grammar == "channel" else "narrow")
        heard = client.talk("SUB ü/λ.* 1\r\nPUB ü/λ.x ü 2\r\nhi\r\n".encode())
        if grammar == "channel":
            assert heard == "MSG ü/λ.x 1 ü 2\r\nhi\r\nPONG\r\n".encode()
        else:
            assert heard.count(b": Invalid") == 2
