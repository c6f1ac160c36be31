import fcntl
import json
import os
import socket
import threading
from pathlib import Path

import pytest

import fumarole
from fumarole.cli.pipeline import spark, warm
from fumarole.cli.pipeline.options import SparkOptions
from fumarole.cli.pipeline.warm import NoSessionError, Place, connect, runtime_folder
from tests.pipeline.commands import run_command


def test_a_session_for_each_master_settings_and_environment_of_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name(master: str = "local[*]", *settings: str) -> str:
        return Place(master, settings, tmp_path).socket.name

    same = name()
    assert name() == same
    others = {name("local[2]"), name("local[*]", "a=b")}
    monkeypatch.setenv("EDITOR", "ed")
    assert name() == same
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    others.add(name())
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.setattr(warm, "_newest", lambda: 1)
    others.add(name())
    assert len(others - {same}) == 4


def test_code_that_is_compiled_later_makes_no_other_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "__pycache__").mkdir()
    for name in ("__init__.py", "__pycache__/__init__.pyc"):
        (tmp_path / name).touch()
    os.utime(tmp_path / "__init__.py", (100, 100))
    monkeypatch.setattr(fumarole, "__file__", str(tmp_path / "__init__.py"))
    assert warm._newest() == 100


def test_a_session_that_holds_its_lock_and_is_silent_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "ANSWER_SECONDS", 0.05)
    place = tmp_path / "spark-1.sock"
    with (tmp_path / "spark-1.lock").open("wb") as held, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        assert warm.sessions(tmp_path) == []  # it is about to begin, or to end
        listener.listen()
        assert warm.sessions(tmp_path) == []  # of another program
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(NoSessionError, match="did not answer"):
            warm.sessions(tmp_path)


@pytest.mark.parametrize("listens", [False, True])
def test_a_session_that_is_about_to_end_is_told_of(
    tmp_path: Path, listens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has closed its socket, with a question in it or before; Java is still ending."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = runtime_folder()
    place = folder / "spark-1.sock"

    def hang_up() -> None:
        for _ in range(warm.LOOKS):
            listener.accept()[0].close()

    with place.with_suffix(".lock").open("wb") as held, socket.socket(socket.AF_UNIX) as listener:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write(b'{"pid": 12345}')
        held.flush()
        listener.bind(str(place))
        if listens:
            listener.listen()
            threading.Thread(target=hang_up, daemon=True).start()
        told = json.loads(run_command("pipeline", "server", "status", "--json")[0])
        assert (told["pid"], told["ending"], told["running"]) == (12345, True, 0)
        fcntl.flock(held, fcntl.LOCK_UN)
        assert warm.sessions(folder) == []


def test_its_folder_is_this_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = runtime_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    with pytest.raises(NoSessionError, match="not a folder of this user alone"):
        runtime_folder()
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NoSessionError, match="not a folder"):
        runtime_folder()


def test_no_session_where_nothing_listens(tmp_path: Path) -> None:
    place = Place("local[*]", [], tmp_path)
    assert connect(place) is None
    place.socket.touch()
    assert connect(place) is None
    assert not warm.is_held(place.lock)
    assert os.environ[warm.COLD]


def test_a_command_without_a_session_says_why_it_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask() -> int:
        raise NoSessionError("it did not start")

    monkeypatch.setattr(spark, "session", lambda *_: pytest.fail("Spark is started"))
    hand_over = warm.hand_over.set(ask)
    try:
        with pytest.raises(pytest.fail.Exception), spark.spark_session(SparkOptions(), "test"):
            pass
    finally:
        warm.hand_over.reset(hand_over)
    assert capsys.readouterr().err.startswith("no warm session: it did not start. Spark is started for this command")
