import fcntl
import os
from pathlib import Path

import pytest

import fumarole
from fumarole.cli.pipeline import warm
from fumarole.cli.pipeline.warm import NoSessionError, Place, connect, runtime_folder


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


def test_a_session_that_holds_its_lock_and_is_silent_is_told(tmp_path: Path) -> None:
    (tmp_path / "spark-1.sock").touch()
    with (tmp_path / "spark-1.lock").open("wb") as held:
        assert warm.sessions(tmp_path) == []
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(NoSessionError, match="did not answer"):
            warm.sessions(tmp_path)


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
