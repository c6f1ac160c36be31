"""Where the bridge listens, and when it refuses to (A1, B1)."""

from __future__ import annotations

import socket

import pytest

from fumarole.bridge.endpoints import ListenAddress, check_reach, interface_address, listen_addresses
from fumarole.bridge.errors import CannotBridgeError

V4, V6, UNIX = socket.AF_INET, socket.AF_INET6, socket.AF_UNIX


@pytest.mark.parametrize(
    ("endpoint", "address", "local"),
    [
        pytest.param("tcp://127.0.0.1:5555", ListenAddress(V4, ("127.0.0.1", 5555)), True, id="loopback"),
        pytest.param("tcp://127.9.9.9:5555", ListenAddress(V4, ("127.9.9.9", 5555)), True, id="all of 127"),
        pytest.param("tcp://[::1]:5555", ListenAddress(V6, ("::1", 5555)), True, id="loopback of version 6"),
        pytest.param("tcp://lo:5555", ListenAddress(V4, ("127.0.0.1", 5555)), True, id="an interface"),
        pytest.param("tcp://127.0.0.1:*", ListenAddress(V4, ("127.0.0.1", 0)), True, id="any port"),
        pytest.param("ipc:///run/bridge", ListenAddress(UNIX, "/run/bridge"), True, id="a file"),
        pytest.param("ipc://@bridge", ListenAddress(UNIX, "\0bridge"), True, id="no file"),
        pytest.param("tcp://*:5555", ListenAddress(V4, ("0.0.0.0", 5555)), False, id="the seed's"),
        pytest.param("tcp://0.0.0.0:*", ListenAddress(V4, ("0.0.0.0", 0)), False, id="every address"),
        pytest.param("tcp://[::]:5555", ListenAddress(V6, ("::", 5555)), False, id="every address of version 6"),
        pytest.param("tcp://192.0.2.1:5555", ListenAddress(V4, ("192.0.2.1", 5555)), False, id="an address"),
        pytest.param("tcp://[::ffff:192.0.2.1]:1", ListenAddress(V6, ("::ffff:192.0.2.1", 1)), False, id="4 in 6"),
    ],
)
def test_endpoints(endpoint: str, address: ListenAddress, local: bool) -> None:
    (found,) = listen_addresses(endpoint)
    assert (found, found.is_local) == (address, local)


def test_the_names_of_loopback_are_local() -> None:
    assert all(address.is_local for address in listen_addresses("tcp://localhost:5555"))


@pytest.mark.parametrize(
    "endpoint", ["tcp://nowhere.invalid:5555", "tcp://127.0.0.1", "tcp://a:b", "udp://127.0.0.1:1", "ipc://*", "ipc://"]
)
def test_what_is_no_endpoint_of_this_machine(endpoint: str) -> None:
    with pytest.raises(CannotBridgeError, match=r"^cannot listen on "):
        listen_addresses(endpoint)


def test_interfaces() -> None:
    assert interface_address("lo") == "127.0.0.1"
    assert interface_address("no-such-interface") is None


@pytest.mark.parametrize("endpoint", ["tcp://*:5555", "tcp://[::]:5555", "tcp://192.0.2.1:5555"])
def test_beyond_loopback_only_with_curve_or_knowingly(endpoint: str) -> None:
    """A1: refused in one sentence; with --insecure it is a warning, with CURVE neither."""
    addresses = listen_addresses(endpoint)
    with pytest.raises(CannotBridgeError, match=r"other machines.*--curve-key.*127\.0\.0\.1:5555.*--insecure"):
        check_reach(endpoint, addresses, encrypted=False, insecure=False)
    assert "without CURVE" in str(check_reach(endpoint, addresses, encrypted=False, insecure=True))
    assert check_reach(endpoint, addresses, encrypted=True, insecure=False) is None


def test_one_address_beyond_loopback_is_enough_to_refuse() -> None:
    addresses = [*listen_addresses("tcp://127.0.0.1:1"), *listen_addresses("tcp://*:1")]
    with pytest.raises(CannotBridgeError):
        check_reach("tcp://name:1", addresses, encrypted=False, insecure=False)


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:5555", "ipc:///run/bridge", "tcp://[::1]:5555"])
def test_loopback_needs_no_curve(endpoint: str) -> None:
    assert check_reach(endpoint, listen_addresses(endpoint), encrypted=False, insecure=False) is None
