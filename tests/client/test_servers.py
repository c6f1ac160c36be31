import pytest

from fumarole.client.errors import ServerAddressError
from fumarole.client.servers import Server, Servers, parse_server, parse_servers

READ = [
    ("scheme and port", "nats://127.0.0.1:4333", Server("127.0.0.1", 4333)),
    ("host only", "broker.example", Server("broker.example", 4222)),
    ("host and port", "broker.example:1", Server("broker.example", 1)),
    ("slash at the end", "nats://a:1/", Server("a", 1)),
    ("IPv6", "nats://[::1]:4222", Server("::1", 4222)),
    ("TLS", "tls://a", Server("a", 4222, tls=True)),
    ("user and password", "nats://lab:secret@a:1", Server("a", 1, user="lab", password="secret")),
    ("user and empty password", "nats://lab:@a:1", Server("a", 1, user="lab", password="")),
    ("token", "nats://t0ken@a:1", Server("a", 1, token="t0ken")),
    ("percent-encoded", "nats://l%40b:s%3Ac%2F@a:1", Server("a", 1, user="l@b", password="s:c/")),
]


@pytest.mark.parametrize(("text", "server"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_an_address_is_read(text: str, server: Server) -> None:
    assert parse_server(text) == server


@pytest.mark.parametrize(
    "text",
    [
        "",
        "http://a",
        "nats://",
        "nats://:4222",
        "nats://a:0",
        "nats://a:99999",
        "nats://a:x",
        "nats://a/path",
        "nats://a?q=1",
        "nats://a..b",
        "nats://.a",
        f"nats://{'a' * 64}.b",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ServerAddressError, match="expected nats://HOST:PORT"):
        parse_server(text)


def test_several_servers() -> None:
    assert parse_servers("a, b:2,") == parse_servers(["a", "b:2"]) == [Server("a"), Server("b", 2)]


@pytest.mark.parametrize("servers", ["", " , ", []])
def test_no_server_is_refused(servers: str | list[str]) -> None:
    with pytest.raises(ServerAddressError):
        parse_servers(servers)


def test_secrets_are_not_shown() -> None:
    server = parse_server("nats://lab:secret@a:1")
    assert "secret" not in repr(server) + str(server)
    assert str(server) == "nats://a:1"
    with pytest.raises(ServerAddressError) as error:
        parse_server("nats://lab:secret@a:99999")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("text", ["nats://a:1", "tls://a:1", "nats://[::1]:4222"])
def test_an_address_is_shown_as_it_is_written(text: str) -> None:
    assert str(parse_server(text)) == text


A, B, C = (Server(host) for host in "abc")


def test_the_one_that_was_connected_last_comes_last() -> None:
    servers = Servers([A, B, C])
    assert servers.in_turn(None) == servers.in_turn(C) == [A, B, C]
    assert servers.in_turn(A) == [B, C, A]


def test_who_was_told_of_comes_after_those_that_were_given() -> None:
    servers = Servers([B, A])
    servers.learn(A, ["c:4222", "a:4222", "d:1"])
    assert servers.in_turn(None)[:2] == [B, A]
    assert set(servers.in_turn(None)[2:]) == {C, Server("d", 1)}
    assert len(servers) == 4


def test_who_is_told_of_no_more_is_forgotten() -> None:
    servers = Servers([A])
    servers.learn(A, ["b", "c"])
    servers.learn(A, ["c"])
    assert servers.in_turn(None) == [A, C]
    servers.learn(C, ["b"])
    assert servers.in_turn(None) == [A, C, B], "the one that tells stays"


@pytest.mark.parametrize("told", [None, [], "b", {"b": 1}])
def test_who_tells_nothing_takes_nothing_back(told: object) -> None:
    servers = Servers([A])
    servers.learn(A, ["b"])
    servers.learn(A, told)
    assert servers.in_turn(None) == [A, B]


def test_what_is_no_address_is_not_learned() -> None:
    servers = Servers([A])
    servers.learn(A, ["a..b", None, 1, ["c"], "c"])
    assert servers.in_turn(None) == [A, C]


def test_login_and_tls_are_those_of_the_one_that_tells() -> None:
    teller = Server("a", tls=True, user="lab", password="secret")
    servers = Servers([teller])
    servers.learn(teller, ["other:secret@b:1"])
    assert servers.in_turn(None)[1] == Server("b", 1, tls=True, user="lab", password="secret")


def test_a_number_has_the_certificate_of_the_name_that_tells() -> None:
    servers = Servers([A])
    servers.learn(A, ["10.0.0.1"])
    (first,) = servers.in_turn(A)[:1]
    assert first == Server("10.0.0.1", certified="a")
    servers.learn(first, ["[::1]", "b"])
    assert set(servers.in_turn(None)) == {A, B, first, Server("::1", certified="a")}
    numbers = Servers([Server("10.0.0.1")])
    numbers.learn(Server("10.0.0.1"), ["10.0.0.2"])
    assert numbers.in_turn(None)[1] == Server("10.0.0.2")
