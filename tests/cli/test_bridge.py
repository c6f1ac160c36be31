"""Bridges in the configuration and on the command line: what fits together, and what is said where it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from fumarole.config.load import ConfigurationError, load, load_bridge
from fumarole.config.settings import BridgeSettings
from fumarole.server.bridges import options_of
from tests.cli.commands import CommandLine


def mistakes_of(text: str, tmp_path: Path) -> list[str]:
    path = tmp_path / "bridges.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        load(path, {}, {})
    return [str(mistake).removeprefix(f"{path}:") for mistake in raised.value.mistakes]


MISTAKES = {
    "two of a name": ('[[bridges]]\n[[bridges]]\nrouter = "tcp://*:5556"\n', "2: bridges[1].name: found 'bridge', which bridges[0].name has too"),
    "two on a port": ('[[bridges]]\nname = "a"\n[[bridges]]\nname = "b"\n', "3: bridges[1].router: found 'tcp://127.0.0.1:5555', which bridges[0].router has too"),
    "one queue for two": (
        '[[bridges]]\nname = "a"\ndirect_queue = "q"\n[[bridges]]\nname = "b"\nrouter = "ipc:///x"\ndirect_queue = "q"\n',
        "7: bridges[1].direct_queue: found 'q', which bridges[0].direct_queue has too",
    ),
    "no address": ('[[bridges]]\namqp = "localhost"\n', "2: bridges[0].amqp: found 'localhost', expected amqp://"),
    "no endpoint": ('[[bridges]]\nrouter = "*:5555"\n', "2: bridges[0].router: found '*:5555', expected an endpoint of ZeroMQ"),
    "a topic too long": (f'[[bridges]]\ntopics = ["{"a" * 256}"]\n', "2: bridges[0].topics[0]: found 'aaa"),
    "no time": ("[[bridges]]\nttl = 0\n", "2: bridges[0].ttl: found 0, expected 1 ms to 24 h"),
    "no such namespace": (
        'allowed_namespaces = ["a"]\n[[bridges]]\nexchange = "b"\n',
        "3: bridges[0].exchange: found 'b', expected one of allowed_namespaces",
    ),
    "keys of clients alone": ('[[bridges]]\ncurve_clients = "."\n', "2: bridges[0].curve_clients: found clients' keys without curve_key"),
    "a key that is not there": ('[[bridges]]\ncurve_key = "none"\n', "2: bridges[0].curve_key: found 'none', which cannot be read"),
    "no folder": (f'[[bridges]]\ncurve_key = "{__file__}"\ncurve_clients = "none"\n', "3: bridges[0].curve_clients: found 'none', which is no folder"),
    "a folder at a path too long": (f'[[bridges]]\ncurve_key = "{__file__}"\ncurve_clients = "{"x" * 300}"\n', "3: bridges[0].curve_clients: found 'xxx"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes(text: str, said: str, tmp_path: Path) -> None:
    (found,) = mistakes_of(text, tmp_path)
    assert found.startswith(said)


def test_no_mistake_shows_a_password(tmp_path: Path) -> None:
    found = mistakes_of('[[bridges]]\namqp = "amqp://guest:hunter2@ho st"\nservers = ""\n', tmp_path)
    assert len(found) == 2
    assert "hunter2" not in "\n".join(found)


def test_flags_are_settings() -> None:
    given = {"--amqp": "amqp://a:b@c:1/v", "--topics": ["a.#", "b"], "--ttl": "2", "--waiting": "5", "--exchange": None}
    settings = load_bridge(given)
    assert (settings.amqp.reveal(), settings.topics, settings.ttl, settings.waiting) == (
        "amqp://a:b@c:1/v",
        ("a.#", "b"),
        2.0,
        5,
    )
    assert "b@c" not in repr(settings)
    options = options_of(settings)
    assert (options.amqp, options.topics, options.ttl, options.router.waiting) == (
        "amqp://a:b@c:1/v",
        ("a.#", "b"),
        2.0,
        5,
    )
    assert load_bridge({}) == BridgeSettings()
    with pytest.raises(ConfigurationError, match=r"--router: bridges\[0\].router: found 'x'"):
        load_bridge({"--router": "x"})


def test_a_wrong_flag(command_line: CommandLine) -> None:
    ended = command_line.run_here("bridge", "--ttl", "never")
    assert ended.code == 2
    assert "--ttl: bridges[0].ttl: found 'never'" in ended.err


def test_a_file_and_flags(command_line: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "bridges.toml"
    path.write_text("[[bridges]]\n")
    ended = command_line.run_here("bridge", "--config", str(path), "--ttl", "5")
    assert (ended.code, "--ttl is for a bridge of flags alone" in ended.err) == (2, True)
    path.write_text("")
    ended = command_line.run_here("bridge", "--config", str(path))
    assert (ended.code, "has no [[bridges]]" in ended.err) == (2, True)


def test_a_port_that_is_taken(command_line: CommandLine, tmp_path: Path) -> None:
    import zmq

    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    taken = context.socket(zmq.ROUTER)
    port = taken.bind_to_random_port("tcp://127.0.0.1")
    try:
        ended = command_line.run("bridge", "--router", f"tcp://127.0.0.1:{port}")
    finally:
        context.destroy(0)
    assert (ended.code, ended.out) == (1, b"")
    assert f"cannot listen on tcp://127.0.0.1:{port}: Address already in use" in ended.err


def test_beyond_loopback_without_curve_it_does_not_start(command_line: CommandLine) -> None:
    """A1, B1: the default is loopback."""
    assert BridgeSettings().router == "tcp://127.0.0.1:5555"
    ended = command_line.run("bridge", "--router", "tcp://*:5555")
    assert (ended.code, ended.out) == (1, b"")
    assert "tcp://*:5555 is open to other machines" in ended.err
    assert "--insecure" in ended.err
    assert options_of(BridgeSettings(), insecure=True).router.insecure
