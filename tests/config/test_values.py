import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.config.values import (
    Address,
    Reader,
    RefusedError,
    Secret,
    read_address,
    read_amqp_address,
    read_collector,
    read_count,
    read_grace,
    read_namespace_name,
    read_node_name,
    read_password_hash,
    read_path,
    read_pattern_text,
    read_query_depth,
    read_seconds,
    read_text,
    read_token_digest,
    size_between,
    size_text,
)
from fumarole.server.credentials import hash_password, new_token

read_size = size_between(10, 2 * 1024**2)

READ: dict[str, tuple[Reader, object, object]] = {
    "a size in bytes": (read_size, 4096, 4096),
    "a size as digits": (read_size, "4096", 4096),
    "a size with its unit": (read_size, "64 KiB", 65536),
    "a size without the space": (read_size, "1MiB", 1048576),
    "a collector": (read_collector, "http://127.0.0.1:4318/v1/traces", "http://127.0.0.1:4318/v1/traces"),
    "a collector without a path": (read_collector, "https://[::1]:4318", "https://[::1]:4318/v1/traces"),
    "a collector with the shortest path": (read_collector, "http://collector/", "http://collector/v1/traces"),
    "a collector with a path of its own": (read_collector, "https://a.example/otlp/x", "https://a.example/otlp/x"),
    "the lowest size": (read_size, "10 B", 10),
    "the highest size": (read_size, "2 MiB", 2097152),
    "whole seconds": (read_seconds, 2, 2.0),
    "parts of a second": (read_seconds, 0.25, 0.25),
    "seconds as text": (read_seconds, "2 s", 2.0),
    "seconds as digits": (read_seconds, "1.5", 1.5),
    "milliseconds": (read_seconds, "500 ms", 0.5),
    "minutes": (read_seconds, "5min", 300.0),
    "minutes, shorter": (read_seconds, "5m", 300.0),
    "no grace": (read_grace, 0, 0.0),
    "no grace as text": (read_grace, "0s", 0.0),
    "a grace": (read_grace, "500ms", 0.5),
    "the longest time": (read_seconds, "24 h", 86400.0),
    "the shortest time": (read_seconds, "1 ms", 0.001),
    "a count": (read_count, 1, 1),
    "a count as digits": (read_count, "2147483647", 2147483647),
    "the deepest query": (read_query_depth, "100", 100),
    "a text": (read_text, "Ada L.", "Ada L."),
    "a path": (read_path, "a/b c", Path("a/b c")),
    "a pattern": (read_pattern_text, "a.>", "a.>"),
    "an empty pattern": (read_pattern_text, "", ""),
    "the longest name of a node": (read_node_name, "é" * 63, "é" * 63),
    "an address": (read_address, "127.0.0.1:4222", Address("127.0.0.1", 4222)),
    "any free port": (read_address, "0.0.0.0:0", Address("0.0.0.0", 0)),
    "the highest port": (read_address, "localhost:65535", Address("localhost", 65535)),
    "a host name": (read_address, "a-1.example.org:1", Address("a-1.example.org", 1)),
    "a host name that ends with a dot": (read_address, "example.org.:1", Address("example.org.", 1)),
    "a host name with the longest word": (read_address, f"{'a' * 63}.b:1", Address(f"{'a' * 63}.b", 1)),
    "an IPv6 address": (read_address, "[::1]:4222", Address("::1", 4222)),
    "an IPv6 address with its zone": (read_address, "[fe80::1%eth0]:1", Address("fe80::1%eth0", 1)),
    "a namespace": (read_namespace_name, "Lab-2", "Lab-2"),
    "a namespace of one character": (read_namespace_name, "a", "a"),
    "the longest namespace": (read_namespace_name, "a" * 63, "a" * 63),
    "a token's digest": (read_token_digest, "sha256:" + "0a" * 32, Secret("sha256:" + "0a" * 32)),
}


@pytest.mark.parametrize(("reader", "written", "value"), READ.values(), ids=READ.keys())
def test_read(reader: Reader, written: object, value: object) -> None:
    read = reader(written)
    assert read == value
    assert type(read) is type(value)


REFUSED: dict[str, tuple[Reader, object]] = {
    "a size below": (read_size, 9),
    "a size above": (read_size, 2 * 1024**2 + 1),
    "a size above, with its unit": (read_size, "1 GiB"),
    "a negative size": (read_size, -4096),
    "a size with a fraction": (read_size, 4096.0),
    "a size that is true": (read_size, True),
    "a size in decimal units": (read_size, "4 KB"),
    "a size in lower case": (read_size, "4 kib"),
    "a size with a sign": (read_size, "+4096"),
    "a size with an underscore": (read_size, "40_96"),
    "a size in other digits": (read_size, "٤٠٩٦"),
    "a size with a line end": (read_size, "4096\n"),
    "an empty size": (read_size, ""),
    "a list of sizes": (read_size, [4096]),
    "no time": (read_seconds, 0),
    "a grace before now": (read_grace, -1),
    "a grace that is none": (read_grace, "soon"),
    "a grace without end": (read_grace, "25h"),
    "a negative time": (read_seconds, -1.0),
    "not a number": (read_seconds, float("nan")),
    "an endless time": (read_seconds, float("inf")),
    "a number beyond floats": (read_seconds, 10**400),
    "a time that is true": (read_seconds, True),
    "a time of days": (read_seconds, "2 d"),
    "a time with an exponent": (read_seconds, "1e3"),
    "a long time": (read_seconds, "25 h"),
    "a short time": (read_seconds, "0 ms"),
    "a count of none": (read_count, 0),
    "a count that is true": (read_count, True),
    "a count with a fraction": (read_count, 1.0),
    "a count with a sign": (read_count, "+1"),
    "a count beyond": (read_count, 2**31),
    "a query too deep": (read_query_depth, 101),
    "a query without depth": (read_query_depth, 0),
    "an empty text": (read_text, ""),
    "a text on two lines": (read_text, "a\nb"),
    "a text that is a number": (read_text, 5),
    "an empty path": (read_path, ""),
    "a path with NUL": (read_path, "a\0b"),
    "a path that is a number": (read_path, 5),
    "a pattern that is a number": (read_pattern_text, 5),
    "a name of a node that is too long": (read_node_name, "n" * 64),
    "an empty name of a node": (read_node_name, ""),
    "a name of a node with a line end": (read_node_name, "a\n"),
    "a name of a node that is a number": (read_node_name, 7),
    "an address without a port": (read_address, "127.0.0.1"),
    "an address without a host": (read_address, ":4222"),
    "an address with an empty port": (read_address, "127.0.0.1:"),
    "a port alone": (read_address, 4222),
    "a port beyond": (read_address, "127.0.0.1:65536"),
    "a port with a sign": (read_address, "127.0.0.1:+1"),
    "a port in other digits": (read_address, "127.0.0.1:٤"),
    "a URL": (read_address, "nats://127.0.0.1:4222"),
    "IPv6 without brackets": (read_address, "::1:4222"),
    "brackets without IPv6": (read_address, "[127.0.0.1]:4222"),
    "IPv4 beyond": (read_address, "256.0.0.1:4222"),
    "IPv4 cut short": (read_address, "127.1:4222"),
    "a host with a space": (read_address, "local host:4222"),
    "a host with an empty word": (read_address, "a..b:1"),
    "a collector without a scheme": (read_collector, "127.0.0.1:4318"),
    "a collector of another protocol": (read_collector, "grpc://127.0.0.1:4317"),
    "a collector with a password": (read_collector, "http://ann:secret@a.example"),
    "a collector with a line end": (read_collector, "http://a.example/\r\nX: y"),
    "a collector with a port that is none": (read_collector, "http://a.example:99999"),
    "a collector that is a number": (read_collector, 4318),
    "an AMQP host with an empty word": (read_amqp_address, "amqp://a..b"),
    "an AMQP port that is none": (read_amqp_address, "amqp://a:99999"),
    "a host with an empty word at its end": (read_address, "a..:1"),
    "a host with a word that is too long": (read_address, f"a.{'b' * 64}.c:1"),
    "an address with a line end": (read_address, "127.0.0.1:4222\n"),
    "an empty namespace": (read_namespace_name, ""),
    "a namespace too long": (read_namespace_name, "a" * 64),
    "a namespace with a dot": (read_namespace_name, "a.b"),
    "a namespace that ends with a hyphen": (read_namespace_name, "a-"),
    "a namespace that begins with a hyphen": (read_namespace_name, "-a"),
    "a namespace with other letters": (read_namespace_name, "é"),
    "a namespace that is a number": (read_namespace_name, 5),
    "a password": (read_password_hash, "hunter2"),
    "an empty password": (read_password_hash, ""),
    "a bcrypt hash": (read_password_hash, "$2b$12$" + "a" * 53),
    "an argon2 hash of another variant": (read_password_hash, "$argon2d$v=19$m=8,t=1,p=1$" + "a" * 22 + "$" + "a" * 43),
    "an argon2 hash cut short": (read_password_hash, "$argon2id$v=19$m=65536,t=3,p=4$" + "a" * 22),
    "a token": (read_token_digest, "kX3vPq"),
    "a digest cut short": (read_token_digest, "sha256:" + "0" * 63),
    "a digest of another kind": (read_token_digest, "md5:" + "0" * 64),
    "a digest in upper case": (read_token_digest, "sha256:" + "A" * 64),
}


@pytest.mark.parametrize(("reader", "written"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(reader: Reader, written: object) -> None:
    with pytest.raises(RefusedError) as error:
        reader(written)
    assert error.value.found
    assert error.value.expected


ANYTHING: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers()) | st.dates()
)
READERS = {reader for reader, *_ in [*READ.values(), *REFUSED.values()]}


@given(st.sampled_from(sorted(READERS, key=repr)), ANYTHING)
def test_nothing_but_a_refusal_is_raised(reader: Reader, written: object) -> None:
    with suppress(RefusedError):
        reader(written)


@pytest.mark.parametrize("reader", [read_password_hash, read_token_digest])
@given(secret=st.text(min_size=8, alphabet=st.characters(min_codepoint=0x100)))
def test_refused_secrets_are_not_repeated(reader: Reader, secret: str) -> None:
    with pytest.raises(RefusedError) as error:
        reader(secret)
    assert secret not in str(error.value)


@pytest.mark.parametrize(("reader", "command"), [(read_password_hash, "password"), (read_token_digest, "token")])
def test_a_secret_that_is_refused_names_the_command_that_makes_what_is_wanted(reader: Reader, command: str) -> None:
    with pytest.raises(RefusedError, match=f"`fumarole {command}`"):
        reader("hunter2")


def test_what_credentials_makes_is_read() -> None:
    password_hash, (_, digest) = hash_password("hunter2"), new_token()
    assert read_password_hash(password_hash) == Secret(password_hash)
    assert read_token_digest(digest) == Secret(digest)


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret("hunter2")
    assert secret.reveal() == "hunter2"
    for text in (str(secret), repr(secret), f"{secret}", f"{[secret]}"):
        assert "hunter2" not in text
    with pytest.raises(TypeError):
        json.dumps(secret)


def test_secrets_are_compared_by_what_they_hold() -> None:
    assert Secret("a") == Secret("a")
    assert hash(Secret("a")) == hash(Secret("a"))
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"


@given(st.integers(1, 2**40))
def test_sizes_as_text_are_read_again(size: int) -> None:
    assert size_between(1, 2**40)(size_text(size)) == size


@given(st.ip_addresses(), st.integers(0, 65535))
def test_addresses_as_text_are_read_again(host: object, port: int) -> None:
    address = Address(str(host), port)
    assert read_address(str(address)) == address
