"""The kinds of values of settings.

Each kind is a type whose reader turns what was written (in TOML, a variable or a flag) into the value, or raises
`RefusedError` with what it expected. Kinds that hold secrets never repeat them, neither in an error nor in `repr`.
"""

import ipaddress
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct

from fumarole.cluster.identity import LONGEST_NAME
from fumarole.config.mistakes import kind, shown
from fumarole.core.errors import NamespaceError
from fumarole.core.limits import DEEPEST_QUERY, KIB, MIB
from fumarole.core.nkeys import decode_user_key
from fumarole.core.periods import PeriodError, parse_period
from fumarole.exchange.namespaces import check_name

Reader = Callable[[object], object]
GIB: Final = 1024 * MIB
HIGHEST_PORT: Final = 65535


class RefusedError(ValueError):
    """A value that its kind does not accept."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"found {found}, expected {expected}")
        self.found = found
        self.expected = expected


class Secret:
    """A text that `repr` hides; `reveal()` returns it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(…)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


class Address(Struct, frozen=True):
    """Where a door listens. Port 0 is any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


# What `[0-9]` says and `int()` does not: no sign, no underscore, no digits of other scripts.
_SIZE = re.compile(r"([0-9]{1,13}) ?(B|KiB|MiB|GiB)?")
_COUNT = re.compile(r"[0-9]{1,12}")
_ADDRESS = re.compile(r"(?:\[(?P<v6>[^\[\]]+)\]|(?P<host>[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})?)):(?P<port>[0-9]{1,5})")
_PASSWORD_HASH = re.compile(
    r"\$argon2id\$v=19\$m=[0-9]{1,7},t=[0-9]{1,3},p=[0-9]{1,3}\$[A-Za-z0-9+/]{11,128}\$[A-Za-z0-9+/]{22,256}"
)
_TOKEN_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_AMQP_ADDRESS = re.compile(
    r"amqps?://([^@/\s]*@)?((?P<host>[A-Za-z0-9_.-]+)|\[(?P<v6>[0-9A-Fa-f:.]+)\])(:(?P<port>[0-9]{1,5}))?(/\S*)?(\?\S*)?"
)
_ENDPOINT = re.compile(r"tcp://(\*|[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5}|\*)|ipc://\S{1,100}")
_COLLECTOR = re.compile(
    r"https?://(?:(?P<host>[A-Za-z0-9_.-]+)|\[(?P<v6>[0-9A-Fa-f:.]+)\])(?::(?P<port>[0-9]{1,5}))?(?P<path>/[!-~]*)?"
)
COLLECTOR_PATH: Final = "/v1/traces"
_BYTES_IN = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}
_LONGEST_TIME: Final = 24 * 3600.0


def size_between(lowest: int, highest: int) -> Reader:
    """Reads a number of bytes: `4096`, `"4 KiB"`."""

    def read(value: object) -> int:
        size = value if isinstance(value, int) and not isinstance(value, bool) else None
        if isinstance(value, str) and (match := _SIZE.fullmatch(value)):
            size = int(match[1]) * _BYTES_IN[match[2] or "B"]
        if size is None or not lowest <= size <= highest:
            bounds = f"{size_text(lowest)} to {size_text(highest)}"
            raise RefusedError(shown(value), f'{bounds}, as bytes or as text such as "64 KiB" (B, KiB, MiB, GiB)')
        return size

    return read


def size_text(size: int) -> str:
    """A number of bytes in the largest unit that divides it: `4 KiB`."""
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % _BYTES_IN[unit] == 0:
            return f"{size // _BYTES_IN[unit]} {unit}"
    return f"{size} B"


def read_seconds(value: object) -> float:
    """Reads a time: `2`, `0.5`, `"500 ms"`, `"5m"` (F9)."""
    try:
        seconds = parse_period(value)
    except PeriodError:
        seconds = math.nan
    if not 0.001 <= seconds <= _LONGEST_TIME:  # neither is true of NaN
        raise RefusedError(shown(value), '1 ms to 24 h, as seconds or as text such as "500 ms" (ms, s, m or min, h)')
    return seconds


def read_grace(value: object) -> float:
    """Reads a time that may be none: the same, and `0`."""
    try:
        return 0.0 if parse_period(value) == 0 else read_seconds(value)
    except PeriodError:
        return read_seconds(value)


def read_count(value: object) -> int:
    """Reads a whole number above zero."""
    count = value if isinstance(value, int) and not isinstance(value, bool) else 0
    if isinstance(value, str) and _COUNT.fullmatch(value):
        count = int(value)
    if not 1 <= count < 2**31:
        raise RefusedError(shown(value), "a whole number, at least 1")
    return count


def read_qos(value: object) -> int:
    """Reads a QoS of MQTT."""
    known = {str(qos): qos for qos in range(3)}
    if isinstance(value, bool) or str(value) not in known:
        raise RefusedError(shown(value), "0, 1 or 2")
    return known[str(value)]


def read_flag(value: object) -> bool:
    """Reads true or false, also as the text that variables and flags are."""
    known = {"true": True, "false": False}
    flag = known.get(value) if isinstance(value, str) else value
    if not isinstance(flag, bool):
        raise RefusedError(shown(value), "true or false")
    return flag


def read_query_depth(value: object) -> int:
    """Reads a count that is at most DEEPEST_QUERY."""
    depth = read_count(value)
    if depth > DEEPEST_QUERY:
        raise RefusedError(shown(value), f"a whole number from 1 to {DEEPEST_QUERY}")
    return depth


def read_text(value: object) -> str:
    """Reads a text that is not empty and has no control characters."""
    if not isinstance(value, str) or not value or not value.isprintable():
        raise RefusedError(shown(value), "a text, not empty, without control characters")
    return value


def read_pattern_text(value: object) -> str:
    """Reads a pattern as text. It is checked later, by the grammar of its namespace."""
    if not isinstance(value, str):
        raise RefusedError(shown(value), "a pattern")
    return value


def read_path(value: object) -> Path:
    """Reads the path of a file or folder."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise RefusedError(shown(value), "a path")
    return Path(value)


def read_address(value: object) -> Address:
    """Reads where a door listens: `HOST:PORT`, `[v6]:PORT`."""
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match["port"]) > HIGHEST_PORT or not _is_host(match["host"], match["v6"]):
        raise RefusedError(shown(value), 'HOST:PORT such as "127.0.0.1:4222" or "[::1]:4222" (port 0: any free one)')
    return Address(match["host"] or match["v6"], int(match["port"]))


def _is_host(name: str | None, v6: str | None) -> bool:
    try:
        if v6 is not None:
            ipaddress.IPv6Address(v6)
        elif name is not None and not re.search("[A-Za-z_]", name):
            ipaddress.IPv4Address(name)
        elif name is not None:
            name.encode("idna")  # as a lookup does, which checks the length of each label
    except ValueError:
        return False
    return True


def read_node_name(value: object) -> str:
    """Reads the name of a node. A longer one would be refused by every other node."""
    if not isinstance(value, str) or not value.isprintable() or not 1 <= len(value) <= LONGEST_NAME:
        raise RefusedError(shown(value), f"a text of 1 to {LONGEST_NAME} characters, without control characters")
    return value


def read_workers(value: object) -> int:
    """Reads how many processes: a count, or `auto` for one per core (0)."""
    return 0 if value == "auto" else read_count(value)


def worker_count(workers: int) -> int:
    """The number of processes on this machine."""
    return workers or len(os.sched_getaffinity(0))


def read_namespace_name(value: object) -> str:
    """Reads the name of a namespace (N1)."""
    expected = "the name of a namespace"
    if not isinstance(value, str):
        raise RefusedError(shown(value), expected)
    try:
        check_name(value)
    except NamespaceError as error:
        raise RefusedError(shown(value), f"{expected}: {error}") from None
    return value


def read_password_hash(value: object) -> Secret:
    """Reads an argon2 hash. A password as it is typed is refused."""
    if not isinstance(value, str) or not _PASSWORD_HASH.fullmatch(value):
        found = "a text that is no such hash (not shown)" if isinstance(value, str) else kind(value)
        raise RefusedError(found, "an argon2id hash; `fumarole password` makes one from a password")
    return Secret(value)


def read_token_digest(value: object) -> Secret:
    """Reads the digest of a token. A token as a client gives it is refused."""
    if not isinstance(value, str) or not _TOKEN_DIGEST.fullmatch(value):
        found = "a text that is no such digest (not shown)" if isinstance(value, str) else kind(value)
        raise RefusedError(found, '"sha256:" and 64 hexadecimal digits; `fumarole token` makes a token and this')
    return Secret(value)


def read_user_key(value: object) -> str:
    """Reads the public key of a user of NATS."""
    expected = "the public key of a user, `U` and 55 letters and digits; `fumarole nkey` makes one"
    if not isinstance(value, str):
        raise RefusedError(kind(value), expected)
    try:
        decode_user_key(value)
    except ValueError as error:
        # It may be a seed by mistake, which is a secret.
        raise RefusedError(f"a text that is no such key (not shown; {error})", expected) from None
    return value


def read_amqp_address(value: object) -> Secret:
    """Reads the address of an AMQP broker, which may have a password in it."""
    match = _AMQP_ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match["port"] or 0) > HIGHEST_PORT or not _is_host(match["host"], match["v6"]):
        raise RefusedError(shown(value), "amqp://[USER:PASSWORD@]HOST[:PORT][/VHOST], or amqps://…")
    return Secret(match[0])


def read_broker_addresses(value: object) -> Secret:
    """Reads addresses of fumarole brokers, which may have passwords in them."""
    if not isinstance(value, str) or not value or not value.isprintable():
        raise RefusedError(shown(value), "nats://[USER:PASSWORD@|TOKEN@]HOST:PORT, several with commas")
    return Secret(value)


def read_collector(value: object) -> str:
    """Reads where spans go over OTLP/HTTP. Without a path it is the one that collectors have."""
    match = _COLLECTOR.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match["port"] or 80) > HIGHEST_PORT or not _is_host(match["host"], match["v6"]):
        raise RefusedError(shown(value), "http://HOST[:PORT][/PATH] or https://…, without a user; 4318 is usual")
    return match[0] if match["path"] not in (None, "/") else match[0].removesuffix("/") + COLLECTOR_PATH


def read_endpoint(value: object) -> str:
    """Reads where a ZeroMQ socket listens."""
    if not isinstance(value, str) or not _ENDPOINT.fullmatch(value):
        raise RefusedError(shown(value), 'an endpoint of ZeroMQ such as "tcp://127.0.0.1:5555" or "ipc:///run/bridge"')
    return value


def read_amqp_name(value: object) -> str:
    """Reads the name of an exchange or queue, or a key: up to 255 bytes."""
    text = read_text(value)
    if len(text.encode("utf-8", "replace")) > 255:
        raise RefusedError(shown(value), "at most 255 bytes")
    return text


def _of(reader: Reader) -> Meta:
    return Meta(extra={"read": reader})


Size = Annotated[int, _of(size_between(1, 512 * MIB))]
Bytes = Annotated[int, _of(size_between(1, 1024 * GIB))]
LineSize = Annotated[int, _of(size_between(256, 1 * MIB))]
Seconds = Annotated[float, _of(read_seconds)]
Grace = Annotated[float, _of(read_grace)]
Count = Annotated[int, _of(read_count)]
QueryDepth = Annotated[int, _of(read_query_depth)]
Qos = Annotated[int, _of(read_qos)]
Text = Annotated[str, _of(read_text)]
PatternText = Annotated[str, _of(read_pattern_text)]
FilePath = Annotated[Path, _of(read_path)]
ListenAddress = Annotated[Address, _of(read_address)]
NodeName = Annotated[str, _of(read_node_name)]
Workers = Annotated[int, _of(read_workers)]
NamespaceName = Annotated[str, _of(read_namespace_name)]
PasswordHash = Annotated[Secret, _of(read_password_hash)]
TokenDigest = Annotated[Secret, _of(read_token_digest)]
UserKey = Annotated[str, _of(read_user_key)]
AmqpAddress = Annotated[Secret, _of(read_amqp_address)]
BrokerAddresses = Annotated[Secret, _of(read_broker_addresses)]
Collector = Annotated[str, _of(read_collector)]
Endpoint = Annotated[str, _of(read_endpoint)]
AmqpName = Annotated[str, _of(read_amqp_name)]
