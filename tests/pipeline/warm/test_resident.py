"""The resident and those who ask it, as processes; with something smaller than Spark behind them."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fumarole.cli.pipeline.warm import Place, connect, sessions, stop_sessions

PROGRAM = Path(__file__).with_name("resident.py")
ASK = """
import sys
from pathlib import Path
from fumarole.cli.pipeline import warm
from fumarole.cli.pipeline.warm import Place, ask
warm._started = lambda place: sys.exit("there is no session")  # of the real ones none is started
sys.exit(ask(Place("local[*]", [], Path(sys.argv[1])), sys.argv[2:]))
"""
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def one(idle: float = 60, first: str = "0", folder: Path = tmp_path) -> "subprocess.Popen[str]":
        place = Place("local[*]", [], folder)
        place.socket.with_suffix(".started").write_text(first)
        program = [sys.executable, "-m", "tests.pipeline.warm.resident", str(place.socket), str(idle)]
        process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=PROGRAM.parents[3])
        started.append(process)
        while (connection := connect(place)) is None:
            assert process.poll() is None
        connection.close()
        return process

    yield one
    for process in started:
        with process:  # closes its pipe, and waits
            process.kill()


def asking(
    folder: Path, *arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None
) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", ASK, str(folder), *arguments]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=cwd, env=env)


def test_a_command_has_the_streams_folder_environment_and_exit_code_of_who_asks(tmp_path: Path, start: Start) -> None:
    start()
    environment = {**os.environ, "SAID": "this"}
    asked = asking(tmp_path, "tell", cwd=tmp_path, env=environment)
    assert asked.communicate("typed") == (f"{tmp_path} this java typed", "aside")
    assert asked.returncode == 3


def test_commands_side_by_side_and_ctrl_c_for_one_of_them(tmp_path: Path, start: Start) -> None:
    start()
    first, second = asking(tmp_path, "wait"), asking(tmp_path, "wait")
    for each in (first, second):
        assert each.stdout is not None
        assert each.stdout.readline() == "waiting\n"
    (status,) = sessions(tmp_path)
    assert status["running"] == 2
    first.send_signal(signal.SIGINT)
    assert first.wait() == 130
    assert second.poll() is None
    second.kill()  # its child ends too
    for each in (first, second):
        each.communicate()
    while sessions(tmp_path)[0]["running"]:
        pass


@pytest.mark.parametrize(("command", "said"), [("die", "ended before the command did"), ("raise", "ended before")])
def test_a_command_that_ends_badly_harms_no_other(tmp_path: Path, start: Start, command: str, said: str) -> None:
    start()
    asked = asking(tmp_path, command)
    assert said in asked.communicate()[1]
    assert asked.returncode == 1
    again = asking(tmp_path, "tell", env={**os.environ, "SAID": "this"}, cwd=tmp_path)
    assert "this java" in again.communicate("")[0]


def test_it_ends_when_it_is_idle_but_not_while_a_command_runs(tmp_path: Path, start: Start) -> None:
    resident = start(5)
    asked = asking(tmp_path, "wait")
    assert asked.stdout is not None
    asked.stdout.readline()
    with pytest.raises(subprocess.TimeoutExpired):
        resident.wait(6)
    asked.send_signal(signal.SIGINT)
    asked.communicate()
    assert resident.wait(30) == 0
    assert connect(Place("local[*]", [], tmp_path)) is None


def test_stop_ends_it_and_what_it_runs(tmp_path: Path, start: Start) -> None:
    resident = start()
    asked = asking(tmp_path, "wait")
    assert asked.stdout is not None
    asked.stdout.readline()
    assert stop_sessions(tmp_path) == 1
    assert resident.communicate()[0].endswith("stopped\n")
    asked.communicate()
    assert asked.returncode != 0
    assert stop_sessions(tmp_path) == 0


def test_its_socket_is_this_users_alone(tmp_path: Path, start: Start) -> None:
    start()
    assert stat.S_IMODE(Place("local[*]", [], tmp_path).socket.stat().st_mode) == 0o600


def test_while_it_starts_it_says_so_and_commands_wait(tmp_path: Path, start: Start) -> None:
    start(first="")
    waiting = asking(tmp_path, "tell", env={**os.environ, "SAID": "this"}, cwd=tmp_path)
    while not (status := sessions(tmp_path)[0])["running"]:
        assert status["starting"]
    Place("local[*]", [], tmp_path).socket.with_suffix(".started").write_text("0")
    assert "this java" in waiting.communicate("")[0]
    while sessions(tmp_path)[0]["running"]:
        pass
    (status,) = sessions(tmp_path)
    assert (status["starting"], status["commands"]) == (False, 1)


def test_a_command_hears_that_spark_did_not_start(tmp_path: Path, start: Start) -> None:
    resident = start(first="")
    waiting = asking(tmp_path, "tell")
    while not sessions(tmp_path)[0]["running"]:
        pass
    Place("local[*]", [], tmp_path).socket.with_suffix(".started").write_text("1")
    assert "there is no session" in waiting.communicate("")[1]
    assert resident.wait() != 0


def test_a_folder_with_a_long_name(tmp_path: Path, start: Start) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    start(folder=folder)
    asked = asking(folder, "tell", env={**os.environ, "SAID": "this"}, cwd=tmp_path)
    assert "this java" in asked.communicate("")[0]
    assert len(sessions(folder)) == 1
    assert stop_sessions(folder) == 1


def test_a_slow_request_holds_up_no_other(tmp_path: Path, start: Start) -> None:
    start()
    with connect(Place("local[*]", [], tmp_path)) as slow:  # type: ignore[union-attr]
        slow.sendall(b"\x00\x00")
        asked = asking(tmp_path, "tell", env={**os.environ, "SAID": "this"}, cwd=tmp_path)
        assert "this java" in asked.communicate("")[0]


def test_what_is_no_request_ends_nothing(tmp_path: Path, start: Start) -> None:
    resident = start()
    place = Place("local[*]", [], tmp_path)
    for junk in (b"", b"\xff\xff\xff\xff", b"\x00\x00\x00\x02{}", b"\x00\x00\x00\x02[]", b"\x00\x00\x00\x09{"):
        connection = connect(place)
        assert connection is not None
        with connection:
            connection.sendall(junk)
    assert len(sessions(tmp_path)) == 1
    assert resident.poll() is None
