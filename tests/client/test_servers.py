import pytest

from fumarole.client.errors import ServerAddressError
from fumarole.client.servers import Server, parse_server, parse_servers

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
