"""`serve` and the commands around it, `stats`, `bench`, and the command line as a whole."""

import inspect
import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import nkeys
import pytest

from fumarole import __version__
from fumarole.cli import main as cli
from fumarole.cli import serve as server
from fumarole.cli.serve_options import HELP, default_text, serve_with_settings
from fumarole.config.load import FLAGS, load
from fumarole.config.settings import StandardDoors
from fumarole.server.credentials import token_digest, verify_password
from tests.cli.commands import CommandLine
from tests.client.brokers import BrokerProcess

COMMANDS = {name: cli.load(name) for name in cli.NAMES}


def test_serve_has_the_flags_of_the_configuration() -> None:
    parameters = inspect.signature(serve_with_settings(server.serve.run)).parameters
    names = [f"--{name.replace('_', '-')}" for name in parameters if name not in {"context", *server.NOT_SETTINGS}]
    assert names == list(FLAGS)


def test_no_help_outlives_its_flag() -> None:
    assert HELP.keys() <= FLAGS.keys()


def test_the_defaults_that_help_shows_are_the_defaults() -> None:
    shown = {flag: default_text(path) for flag, path in FLAGS.items()}
    given = {flag: default for flag, default in shown.items() if default}
    assert len(given) > 10
    named = load(None, {}, given)
    doors = StandardDoors(**msgspec.structs.asdict(named.doors))
    assert msgspec.structs.replace(named, doors=doors) == load(None, {}, {})


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_a_file_named_like_it_and_examples(command: str) -> None:
    one = COMMANDS[command]
    expected = command.replace("pipeline ", "pipeline.").replace(" ", "_")
    assert one.run.__module__ == f"fumarole.cli.{expected}"
    assert f"fumarole {command}" in one.examples


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command_line: CommandLine, command: str) -> None:
    ended = command_line.run_here(*command.split(), "--help", COLUMNS="200", TERM="dumb")
    assert (ended.code, ended.err) == (0, "")
    assert re.search(f"Usage: .*{command}", ended.out.decode())
    for example in COMMANDS[command].examples.split("\n"):
        assert example.strip() in ended.out.decode()


def test_version(command_line: CommandLine) -> None:
    assert command_line.run_here("--version").lines == [f"fumarole {__version__}"]


def test_a_command_that_is_none(command_line: CommandLine) -> None:
    ended = command_line.run_here("publish")
    assert ended.code == 2
    assert "publish" in ended.err


def test_help_needs_nothing_heavy() -> None:
    heavy = {
        "asyncio",
        "msgspec",
        "rich",
        "uvloop",
        "fumarole.client",
        "fumarole.server.broker",
        "fumarole.config.settings",
    }
    code = f"import sys, fumarole.cli.main; print(sorted(sys.modules.keys() & {heavy!r}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"[]\n"


def test_settings_need_neither_a_loop_nor_a_parser() -> None:
    """`fumarole serve --help` and `config check` read them; only a running broker needs the rest."""
    heavy = {"asyncio", "lark", "ssl", "fumarole.fastpath.nats"}
    code = f"import sys, fumarole.config.load; print(sorted(sys.modules.keys() & {heavy!r}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"[]\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_until_it_is_told_to_end(tmp_path: Path, number: signal.Signals) -> None:
    broker = BrokerProcess(tmp_path)
    host, port = broker.url.removeprefix("nats://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        assert connection.recv(5) == b"INFO "
        assert broker.stop(number) == 0
    assert f"NATS door open on {host}:{port}" in broker.log.read_text()


def test_serve_on_a_port_that_is_taken(command_line: CommandLine, broker_process: BrokerProcess) -> None:
    address = broker_process.url.removeprefix("nats://")
    ended = command_line.run("serve", "--nats", address)
    assert ended.code == 1
    assert ended.err.startswith(f"cannot listen on {address}: ")
    assert ended.err.count("\n") == 1


def test_serve_names_every_mistake(command_line: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "fumarole.toml"
    file.write_text('[limits]\npaylod = 1\noutbox = "x"\n')
    ended = command_line.run("serve", "--config", str(file), "--nats", "nowhere", FUMAROLE_LOG_LEVEL="loud")
    assert ended.code == 2
    places = [line.split(": found")[0] for line in ended.err.splitlines()]
    assert places == [
        f"{file}:2: limits.paylod",
        f"{file}:3: limits.outbox",
        "FUMAROLE_LOG_LEVEL: log.level",
        "--nats: doors.nats[0]",
    ]


def test_serve_with_a_ready_file_that_cannot_be(command_line: CommandLine, tmp_path: Path) -> None:
    ended = command_line.run("serve", "--nats", "127.0.0.1:0", "--ready-file", str(tmp_path / "no" / "such" / "file"))
    assert ended.code == 1
    assert "cannot write" in ended.err


def test_config_check(command_line: CommandLine, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text("[limits]\npayload = 1\n")
    bad.write_text("[limits]\npayload = 0\n\n[log]\nlevel = 1\n")
    ended = command_line.run_here("config", "check", str(good))
    assert (ended.code, ended.lines, ended.err) == (0, [f"{good}: no mistakes"], "")
    ended = command_line.run_here("config", "check", str(bad))
    assert (ended.code, ended.out) == (2, b"")
    assert [line.split(": ")[0] for line in ended.err.splitlines()] == [f"{bad}:2", f"{bad}:5"]
    ended = command_line.run_here("config", "check", str(tmp_path / "none.toml"))
    assert (ended.code, "no such file" in ended.err) == (2, True)


def test_password(command_line: CommandLine) -> None:
    ended = command_line.run("password", stdin="sécret\n".encode())
    assert (ended.code, ended.err) == (0, "")
    assert verify_password(ended.lines[0], "sécret".encode())
    assert not verify_password(ended.lines[0], b"secret")


def test_no_password(command_line: CommandLine) -> None:
    ended = command_line.run("password", stdin=b"\n")
    assert (ended.code, ended.out) == (1, b"")
    assert "a password has 1 to 1024 bytes" in ended.err


def test_token(command_line: CommandLine) -> None:
    made = json.loads(command_line.run_here("token", "--json").out)
    assert made["digest"] == token_digest(made["token"])
    client, configuration = (line.split()[-1] for line in command_line.run_here("token").lines)
    assert configuration == token_digest(client)
    assert client != made["token"]


def test_nkey(command_line: CommandLine) -> None:
    made = json.loads(command_line.run_here("nkey", "--json").out)
    assert nkeys.from_seed(made["seed"].encode()).public_key.decode() == made["nkey"]
    seed, public = (line.split()[-1] for line in command_line.run_here("nkey").lines)
    assert nkeys.from_seed(seed.encode()).public_key.decode() == public
    assert seed != made["seed"]


def test_what_password_and_token_print_can_be_used(command_line: CommandLine, tmp_path: Path) -> None:
    hashed = command_line.run("password", stdin=b"secret").lines[0]
    made = json.loads(command_line.run("token", "--json").out)
    config = tmp_path / "fumarole.toml"
    config.write_text(
        f'[[users]]\nname = "lab"\npassword = "{hashed}"\n[[users]]\nname = "station"\ntoken = "{made["digest"]}"\n'
    )
    broker = BrokerProcess(tmp_path, "--config", str(config))
    try:
        for login, code in (("lab:secret", 0), (made["token"], 0), ("lab:wrong", 1)):
            ended = command_line.run("pub", "a", "x", "--servers", broker.url.replace("//", f"//{login}@"))
            assert ended.code == code
            assert ("refused the credentials" in ended.err) == bool(code)
    finally:
        broker.stop()


def test_stats(command_line: CommandLine) -> None:
    command_line.start("sub", "b")  # a namespace is there as long as a client is in it
    command_line.wait_for_consumers(1)
    command_line.run("pub", "a", "12345")
    stats = json.loads(command_line.run("stats", "--json", "--consumers").out)
    assert (stats["received_bytes"], stats["dropped"]["no consumer"]) == (5, 1)
    assert {each["pattern"] for each in stats["worst_consumers"]} >= {"b"}
    table = command_line.run("stats", "--consumers").lines
    sums = dict(line.rsplit(maxsplit=1) for line in table[2 : table.index("")])
    assert (sums["received bytes"], sums["dropped: no consumer"]) == ("5", "1")
    assert any("fumarole sub" in line for line in table)


def test_stats_again_and_again(command_line: CommandLine) -> None:
    process = command_line.start("stats", "--watch", "--interval", "0.1", "--json")
    assert process.stdout is not None
    looks = [json.loads(process.stdout.readline()) for _ in range(3)]
    assert [look["namespace"] for look in looks] == [looks[0]["namespace"]] * 3
    ended = command_line.interrupt(process)
    assert (ended.code, ended.err) == (0, "")


def test_bench(command_line: CommandLine) -> None:
    arguments = ("bench", "-p", "2", "-c", "2", "-s", "10", "-t", "7", "-d", "0.3", "--rate", "2000")
    result = json.loads(command_line.run(*arguments, "--json").out)
    assert (result["publishers"]["count"], result["consumers"]["count"], result["lost"]) == (2, 2, 0)
    assert result["consumers"]["messages"] == 2 * result["publishers"]["messages"] > 0
    assert 0 < result["latency_microseconds"]["p50"] <= result["latency_microseconds"]["max"]
    shared = command_line.run(*arguments, "--group", "g", "--no-latency")
    assert (shared.code, shared.err) == (0, "")
    publishers, consumers = (line.split() for line in shared.lines if line.startswith(("publishers", "consumers")))
    assert publishers[2] == consumers[2]
    assert "latency" not in shared.out.decode()


def test_bench_interrupted_leaves_nobody_behind(command_line: CommandLine) -> None:
    process = command_line.start("bench", "--duration", "60", "--consumers", "2")
    command_line.wait_for_consumers(2)
    ended = command_line.interrupt(process)
    assert (ended.code, ended.out, ended.err) == (130, b"", "")
    command_line.wait_for_consumers(0)


def test_commands_are_documented() -> None:
    text = Path(__file__).parents[2].joinpath("docs", "reference", "command-line.md").read_text()
    for command in COMMANDS:
        assert f"## fumarole {command}\n" in text
