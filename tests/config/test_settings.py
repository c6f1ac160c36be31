"""The types of settings, and that the documents name every one of them with its default."""

import dataclasses
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import trustme
from msgspec import inspect

from fumarole.config.load import load
from fumarole.config.mistakes import Report
from fumarole.config.schema import ROOT, fields_of, read
from fumarole.config.settings import FIELD_KINDS, Settings, StandardDoors, UserSettings, only
from fumarole.config.values import Address, Secret
from fumarole.core.limits import MIB, Limits
from fumarole.exchange.namespaces import NamespaceRules

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = DOCS / "fumarole.toml"
GUIDE = (DOCS / "reference" / "configuration.md").read_text()


def settings_in(node: inspect.Type, prefix: str = "") -> Iterator[tuple[str, inspect.Type, object]]:
    """Every setting that is no table: its name as in the guide, its type, its default."""
    assert isinstance(node, inspect.StructType | inspect.DataclassType)
    types = fields_of(node)
    for field in node.fields:
        name, child = prefix + field.name, types[field.name]
        inner = next(choice for choice in getattr(child, "types", [child]) if not isinstance(choice, inspect.NoneType))
        if isinstance(inner, inspect.StructType | inspect.DataclassType):
            yield from settings_in(inner, f"{name}.")
        elif isinstance(inner, inspect.DictType):
            yield from settings_in(inner.value_type, f"{name}.NAME.")
        elif isinstance(inner, inspect.VarTupleType) and isinstance(inner.item_type, inspect.StructType):
            yield from settings_in(inner.item_type, f"{name}[].")
        else:
            yield name, child, None if field.default is msgspec.NODEFAULT else field.default


SETTINGS = {name: (node, default) for name, node, default in settings_in(ROOT)}
NAMES = set(SETTINGS)


def test_the_names_of_settings_are_found() -> None:
    kinds = {"data", "doors.nats", "limits.payload", "tls.key", "namespaces.NAME.outbox", "users[].publish.allow"}
    assert kinds < NAMES


def test_no_setting_is_set_by_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty.toml").touch()
    assert load(tmp_path / "empty.toml", {}, {}) == load(None, {}, {}) == Settings()


def test_defaults_come_from_where_they_belong() -> None:
    assert Settings().limits == Limits()
    assert Settings().doors == StandardDoors(
        nats=(Address("127.0.0.1", 4222),),
        msgpack=(Address("127.0.0.1", 4444),),
        kubemq=(Address("127.0.0.1", 50000),),
    )
    assert Settings().users is None


def test_doors_are_listed_with_each_address() -> None:
    addresses = (Address("::1", 1), Address("a", 0))
    doors = only(nats=addresses, kubemq=addresses[:1])
    assert list(doors.addresses()) == [("nats", addresses[0]), ("nats", addresses[1]), ("kubemq", addresses[0])]
    assert list(only().addresses()) == []


@pytest.mark.parametrize("owner", FIELD_KINDS)
def test_kinds_are_of_fields_that_exist(owner: type[Limits | NamespaceRules]) -> None:
    assert set(FIELD_KINDS[owner]) <= {field.name for field in dataclasses.fields(owner)}


def test_no_repr_shows_secrets() -> None:
    user = UserSettings(name="ada", password=Secret("hunter2"), token=Secret("hunter2"))
    assert "hunter2" not in f"{Settings(users=(user,))!r} {Settings(users=(user,))}"


def test_secrets_do_not_leave_by_encoding() -> None:
    user = UserSettings(name="ada", password=Secret("hunter2"))
    with pytest.raises(TypeError):
        msgspec.json.encode(user)


# The example file.


def uncommented(text: str) -> str:
    """With the settings that are commented out, which have no space after the `#`."""
    return re.sub(r"(?m)^#(?=\S)", "", text)


@pytest.fixture
def everything_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    authority = trustme.CA()
    server = authority.issue_cert("localhost")
    server.private_key_pem.write_to_path(str(tmp_path / "server.key"))
    server.cert_chain_pems[0].write_to_path(str(tmp_path / "server.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "clients.pem"))
    (tmp_path / "bridge.key_secret").touch()
    (tmp_path / "clients").mkdir()
    (tmp_path / "cluster.secret").write_text("open sesame, and the rest")
    (tmp_path / "collector.headers").write_text("Authorization: Bearer KEY")
    (tmp_path / "all.toml").write_text(uncommented(EXAMPLE.read_text()))
    monkeypatch.chdir(tmp_path)
    return load("all.toml", {}, {})


def test_the_example_has_the_defaults() -> None:
    """It names every door, which the defaults do not; the addresses are the same."""
    example = load(EXAMPLE, {}, {})
    doors = StandardDoors(**msgspec.structs.asdict(example.doors))
    assert msgspec.structs.replace(example, doors=doors) == Settings()


def test_the_example_has_every_setting() -> None:
    written: set[str] = set()
    table = ""
    for line in uncommented(EXAMPLE.read_text()).splitlines():
        if header := re.match(r"\[\[?([\w.]+)\]\]?", line):
            table = re.sub(r"^namespaces\.\w+", "namespaces.NAME", header[1]).replace("users.", "users[].")
            table += "[]." if line.startswith("[[") else "."
        elif key := re.match(r"(\w+) = (?:\{ (\w+) = .*, (\w+) = .*\})?", line):
            written |= {f"{table}{key[1]}.{inner}" for inner in key.groups()[1:] if inner} or {table + key[1]}
    assert written == NAMES


def test_what_the_example_has_commented_out_is_right(everything_set: Settings) -> None:
    assert everything_set.tls is not None
    assert everything_set.tls.client_certificates == "required"
    volcanoes = everything_set.namespaces["volcanoes"]
    assert volcanoes == NamespaceRules(outbox=1048576, producer_ttl=86400.0, quota=volcanoes.quota, last="all")
    assert volcanoes.quota.retained_bytes == 64 * MIB
    assert everything_set.bridges[0].topics == ("test.#",)
    assert everything_set.users is not None
    assert everything_set.users[0].publish.deny == ("volcanoes.usa.internal.>",)


# The guide.

ROWS = dict(re.findall(r"(?m)^\| `([^`]+)` \| (?:`([^`]+)`)? ?\|", GUIDE))


def test_the_guide_has_every_setting() -> None:
    assert set(ROWS) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_guide_has_the_default(name: str) -> None:
    node, default = SETTINGS[name]
    if default is None:
        assert not ROWS[name]
        return
    written = tomllib.loads(f"default = {ROWS[name]}")["default"]
    value = read(node, written, (), Report({}))
    assert value == (list(default) if isinstance(default, tuple) else default)


@pytest.mark.parametrize("number", range(GUIDE.count("```toml")))
def test_the_guide_has_examples_that_work(number: int, tmp_path: Path) -> None:
    example = re.findall(r"(?s)```toml\n(.*?)```", GUIDE)[number]
    (tmp_path / "example.toml").write_text(example)
    assert load(tmp_path / "example.toml", {}, {}) != Settings()
