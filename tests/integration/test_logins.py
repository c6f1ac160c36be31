"""Logins, under attack: hashing is slow on purpose, and must slow down only the attacker (hazards 7, 10)."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from fumarole.server.credentials import hash_password, new_token
from tests.integration.conftest import Authority, Brokers
from tests.integration.oracle import Target, watched
from tests.integration.raw import Closed, RawClient

PASSWORD = "correct horse battery staple"
TOKEN, DIGEST = new_token()
SECRETS = [PASSWORD, TOKEN, DIGEST.removeprefix("sha256:"), "argon2", "wrong-guess"]
VIOLATION = b"-ERR 'Authorization Violation'\r\n"
TIMEOUT = b"-ERR 'Authentication Timeout'\r\n"


@pytest.fixture(scope="module")
def users() -> str:
    """With a hash of the usual cost."""
    return f'[[users]]\nname = "ada"\npassword = "{hash_password(PASSWORD)}"\ntoken = "{DIGEST}"\n'


@pytest.fixture
def guarded(brokers: Brokers, engine_name: str, users: str) -> Iterator[Target]:
    broker = brokers.share(users, engine_name, observed=True)
    canary = brokers.canary(broker, "ada", PASSWORD)
    with watched(broker, canary) as target:
        target.secrets = SECRETS
        yield target


def greeting(**options: str) -> bytes:
    pairs = ",".join(f'"{key}":"{value}"' for key, value in options.items())
    return b"CONNECT {" + pairs.encode() + b',"verbose":false}\r\n' if pairs else b"CONNECT {}\r\n"


def logs_in(port: int, **options: str) -> bool:
    with RawClient(port) as client:
        try:
            client.talk(greeting(**options))
        except Closed as closed:
            assert closed.args[0].endswith(VIOLATION), closed  # noqa: PT017 (only one of the two may happen)
            return False
        return True


def test_a_flood_of_wrong_passwords(guarded: Target) -> None:
    """Three hundred at once, for known and unknown names; those who are in notice nothing, and it is soon over."""
    clients = [RawClient(guarded.port) for _ in range(300)]
    for number, client in enumerate(clients):
        client.send(greeting(**{"user": "ada" if number % 2 else f"eve-{number}", "pass": f"wrong-guess-{number}"}))
    for client in clients:
        assert client.read_to_end() in (VIOLATION, TIMEOUT)
        client.close()
    assert logs_in(guarded.port, user="ada", **{"pass": PASSWORD})


def test_a_fleet_comes_back_while_another_address_guesses(brokers: Brokers, engine_name: str) -> None:
    """A2: each right password gets in, and equal ones are verified once."""
    fleet = {f"station-{number}": f"password {number}" for number in range(4)}
    config = "".join(f'[[users]]\nname = "{name}"\npassword = "{hash_password(fleet[name])}"\n' for name in fleet)
    broker = brokers.share(config, engine_name)
    guesses = [socket.create_connection(("127.0.0.1", broker.port), 10, ("127.0.0.2", 0)) for _ in range(50)]
    for number, guess in enumerate(guesses):
        guess.sendall(greeting(**{"user": "station-0", "pass": f"wrong-guess-{number}"}))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker.port)) for _ in range(200)]
        for number, client in enumerate(clients):
            name = f"station-{number % 4}"
            client.send(greeting(**{"user": name, "pass": fleet[name]}) + b"PING\r\n")
        assert {client.read_until(b"PONG\r\n") for client in clients} == {b"PONG\r\n"}
    for guess in guesses:
        guess.close()


def test_clients_vanish_while_their_password_is_looked_at(guarded: Target) -> None:
    for number in range(50):
        client = RawClient(guarded.port)
        client.send(
            greeting(user="ada", **{"pass": PASSWORD if number % 2 else "wrong-guess"}) + b"SUB a 1\r\nPUB a 0\r\n\r\n"
        )
        if number % 3:
            client.vanish()
        else:
            client.close()


def test_tokens_are_quick_and_as_strict(guarded: Target) -> None:
    for number in range(200):
        assert not logs_in(guarded.port, auth_token=f"wrong-guess-{number}")
    assert logs_in(guarded.port, auth_token=TOKEN)


NOT_GREETED = {
    "PUB": b"PUB a 5\r\nhello\r\n",
    "a large PUB": b"PUB a 1048576\r\n",
    "SUB": b"SUB > 1\r\n",
    "UNSUB": b"UNSUB 1\r\n",
    "HPUB": b"HPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\n",
    "PUB behind CONNECT": greeting(user="ada", **{"pass": "wrong-guess"}) + b"PUB canary.song 1\r\n0\r\n",
    "SUB behind CONNECT": greeting(user="ada", **{"pass": "wrong-guess"}) + b"SUB > 1\r\n",
    "CONNECT twice": greeting(user="ada", **{"pass": "wrong-guess"}) + greeting(user="ada", **{"pass": PASSWORD}),
    "an empty password": greeting(user="ada", **{"pass": ""}),
    "nothing": greeting(),
    "half a surrogate pair": b'CONNECT {"user":"ada","pass":"\\ud800"}\r\n',
    "a password that is a number": b'CONNECT {"user":"ada","pass":5}\r\n',
    "a password that is null": b'CONNECT {"user":"ada","pass":null}\r\n',
    "a password of 3,000 bytes": greeting(user="ada", **{"pass": "wrong-guess" * 300}),
    "a token of 3,000 bytes": greeting(auth_token="wrong-guess" * 300),
}


@pytest.mark.parametrize("said", NOT_GREETED.values(), ids=NOT_GREETED)
def test_nothing_is_heard_from_who_is_not_known(guarded: Target, said: bytes) -> None:
    with RawClient(guarded.port) as client:
        client.send(said)
        heard = client.read_to_end()
        assert heard.startswith(b"-ERR 'Authorization Violation")
        assert heard.count(b"\r\n") == 1


def test_what_comes_behind_the_right_password_is_heard_in_order(guarded: Target) -> None:
    with RawClient(guarded.port) as client:
        said = b"".join(b"PUB a %d\r\n%d\r\n" % (len(b"%d" % n), n) for n in range(1000))
        heard = client.talk(greeting(user="ada", **{"pass": PASSWORD}) + b"SUB a 1\r\n" + said)
        assert heard == b"".join(b"MSG a 1 %d\r\n%d\r\n" % (len(b"%d" % n), n) for n in range(1000)) + b"PONG\r\n"


def test_tls_handshakes_do_not_take_the_places_of_logins(
    brokers: Brokers, engine_name: str, authority: Authority, users: str
) -> None:
    """Hundreds of connections that never finish their handshake, and one who wants to come in."""
    config = users + '[limits]\ntls_handshake = "8 s"\n' + authority.config()
    broker = brokers.share(config, engine_name, observed=True)
    with watched(broker, brokers.canary(broker, "ada", PASSWORD, str(authority.authority_file))) as target:
        target.secrets = SECRETS
        with contextlib.ExitStack() as stack:
            for _ in range(400):
                stack.enter_context(RawClient(broker.port)).send(b"\x16\x03\x01")
            client = stack.enter_context(RawClient(broker.port))
            client.start_tls(authority.client_context())
            assert client.talk(greeting(user="ada", **{"pass": PASSWORD})) == b"PONG\r\n"


def test_words_that_would_make_a_permission_slow(brokers: Brokers, engine_name: str, users: str) -> None:
    """Hazard 3: what is allowed has several `*` in a word, and what is asked for is long and almost fits."""
    config = users + 'subscribe = { allow = ["s*-*-*-*-*x", "canary.>"] }\npublish = { deny = ["s*-*-*-*-*x"] }\n'
    broker = brokers.share(config, engine_name, observed=True)
    with watched(broker, brokers.canary(broker, "ada", PASSWORD)), RawClient(broker.port) as client:
        client.talk(greeting(auth_token=TOKEN))
        word = b"s" + b"-" * 4000
        for _ in range(20):
            assert client.talk(b"SUB %b 1\r\n" % word).startswith(b"-ERR 'Permissions Violation")
            assert client.talk(b"PUB %b 0\r\n\r\n" % word) == b"PONG\r\n"
            assert client.talk(b"PUB %bx 0\r\n\r\n" % word).startswith(b"-ERR 'Permissions Violation")
