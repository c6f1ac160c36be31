import subprocess
import sys
from pathlib import Path

import pytest

from fumarole.config.settings import Settings, StandardDoors, only
from fumarole.config.values import Address
from fumarole.core.limits import Limits
from fumarole.core.packages import MissingPackageError
from fumarole.doors.placement import Placement
from fumarole.exchange.readings import Reading
from fumarole.server.broker import Broker, openable
from fumarole.server.workers import Worker

PRODUCER = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"


@pytest.mark.parametrize("number", [None, 0, 1])
def test_only_who_writes_it_down_notes_what_is_to_be_written(tmp_path: Path, number: int | None) -> None:
    """Elsewhere it would never be taken off, and no namespace would end."""
    placement = Placement(2)
    worker = None if number is None else Worker(number, 2, tmp_path, placement)
    namespaces = Broker(Settings(data=tmp_path), worker).node.namespaces
    exchange = namespaces.join("lab")
    exchange.producers.hear(Reading(PRODUCER, {"Room": "410"}, 1.0), 0.0)
    exchange.producers.forget(PRODUCER)
    namespaces.leave(exchange)
    assert (namespaces.get("lab") is None) == (number == 1)
    placement.close()


def test_of_the_standard_doors_those_open_whose_packages_are_installed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert openable(Settings()) == Settings()
    assert caplog.messages == []
    monkeypatch.setitem(sys.modules, "h2", None)
    assert openable(Settings()).doors == StandardDoors(kubemq=())
    assert caplog.messages == [
        "left shut: the KubeMQ door needs h2, which is not installed: pip install 'fumarole[kubemq]'"
    ]


def test_a_door_that_was_named_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h2", None)
    address = (Address("127.0.0.1", 0),)
    settings = Settings(doors=only(nats=address))
    assert openable(settings) == settings
    with pytest.raises(MissingPackageError, match="the KubeMQ door needs h2"):
        openable(Settings(doors=only(nats=address, kubemq=address)))


def test_doors_load_what_only_clients_need_with_the_first_client() -> None:
    """The memory of an idle broker."""
    late = {"argon2", "email", "h2", "hpack", "re2"}
    doors = ", ".join(f"fumarole.doors.{door}" for door in ("nats", "msgpack", "kubemq", "mqtt", "http"))
    code = f"import sys, fumarole.server.broker, {doors}; print(sorted(sys.modules.keys() & {late!r}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"[]\n"


def test_the_watermark_of_memory_is_looked_at(tmp_path: Path) -> None:
    """A10"""
    for most, is_reached in ((1, True), (1 << 40, False)):
        node = Broker(Settings(data=tmp_path, limits=Limits(memory=most))).node
        node.tick(1.0)
        assert node.namespaces.memory.is_reached is is_reached
