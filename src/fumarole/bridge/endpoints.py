"""The listening endpoint of the bridge in ZeroMQ's form, as socket addresses.

tcp://127.0.0.1:5555    tcp://[::1]:5555    tcp://localhost:5555    one address, or those of a name
tcp://eth0:5555                                                     the address of a network interface
tcp://*:5555                                                        every address of this machine
tcp://127.0.0.1:*                                                   a free port
ipc:///run/bridge       ipc://@bridge                               a socket of this machine; @: without a file
"""

from __future__ import annotations

import fcntl
import re
import socket
import struct
from ipaddress import ip_address
from typing import Final, NamedTuple

from fumarole.bridge.errors import CannotBridgeError

_TCP: Final = re.compile(r"tcp://(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:/]+)):(?P<port>[0-9]{1,5}|\*)")
_IPC: Final = re.compile(r"ipc://(?P<path>[^\s*]\S*)")
_INTERFACE_ADDRESS: Final = 0x8915
"""SIOCGIFADDR of Linux."""


class ListenAddress(NamedTuple):
    """The address of a socket: host and port, or the path of a UNIX socket."""

    family: socket.AddressFamily
    address: tuple[str, int] | str

    @property
    def is_local(self) -> bool:
        """True when other machines cannot reach it."""
        return isinstance(self.address, str) or ip_address(self.address[0]).is_loopback


def listen_addresses(endpoint: str) -> list[ListenAddress]:
    """The addresses of an endpoint, none twice. Raises CannotBridgeError."""
    if ipc := _IPC.fullmatch(endpoint):
        path = ipc["path"]
        return [ListenAddress(socket.AF_UNIX, f"\0{path[1:]}" if path.startswith("@") else path)]
    tcp = _TCP.fullmatch(endpoint)
    if tcp is None:
        raise CannotBridgeError(f"cannot listen on {endpoint}: an endpoint is tcp://ADDRESS:PORT or ipc://PATH")
    port = 0 if tcp["port"] == "*" else int(tcp["port"])
    if tcp["host"] == "*":
        return [ListenAddress(socket.AF_INET, ("0.0.0.0", port))]  # noqa: S104 - what was asked for
    host = tcp["v6"] or interface_address(tcp["host"]) or tcp["host"]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, OverflowError, UnicodeError):
        raise CannotBridgeError(f"cannot listen on {endpoint}: {host} is no address of this machine") from None
    addresses = [ListenAddress(family, (str(address[0]), port)) for family, _, _, _, address in found]
    return list(dict.fromkeys(addresses))


def interface_address(name: str) -> str | None:
    """The IPv4 address of a network interface; None where there is no interface of that name."""
    try:
        request = struct.pack("256s", name.encode()[:15])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            answer = fcntl.ioctl(any_socket, _INTERFACE_ADDRESS, request)
    except OSError:
        return None
    return socket.inet_ntoa(answer[20:24])


def check_reach(endpoint: str, addresses: list[ListenAddress], encrypted: bool, insecure: bool) -> str | None:
    """A1: without CURVE the bridge listens on this machine alone. `insecure` lets it; then the answer is a warning.

    Raises CannotBridgeError.
    """
    if encrypted or all(address.is_local for address in addresses):
        return None
    if insecure:
        return f"{endpoint} is open to other machines without CURVE: every peer may read, bind and publish"
    raise CannotBridgeError(
        f"{endpoint} is open to other machines, and without CURVE every peer may read, bind and publish. "
        "Set --curve-key (curve_key in the file), listen on tcp://127.0.0.1:5555, or accept it with --insecure"
    )
