"""scripts/debian-packages says what it installs before it does, and needs no root where nothing is missing."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the scripts, and in bin/ an apt-get that installs nothing and says what it was asked."""
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    (tmp_path / "build").mkdir()
    (tmp_path / "bin").mkdir()
    program(tmp_path, "apt-get", 'echo "apt-get $*" >> apt.log')
    program(tmp_path, "sudo", "exit 1")
    program(tmp_path, "no-compiler", "exit 1")
    return tmp_path


def program(folder: Path, name: str, line: str) -> None:
    path = folder / "bin" / name
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def run(folder: Path, *, user: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    """For `make setup`, as this user."""
    program(folder, "id", f"echo {user}")
    environment = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
        **variables,
    }
    command = [str(folder / "scripts" / "debian-packages"), "build"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def installed(folder: Path) -> str:
    log = folder / "apt.log"
    return log.read_text() if log.exists() else ""


def test_nothing_is_missing_and_root_is_not_needed(folder: Path) -> None:
    program(folder, "compiler", "exit 0")
    done = run(folder, user=1000, CC="compiler")
    assert (done.returncode, done.stdout, done.stderr, installed(folder)) == (0, "", "", "")


def test_packages_are_named_before_they_are_installed(folder: Path) -> None:
    done = run(folder, CC="no-compiler")
    said = done.stdout.splitlines()
    version = "{}.{}".format(*sys.version_info[:2])
    packages = f"gcc libc6-dev python{version}-dev"
    assert said[0] == f"Debian packages that are missing, now to be installed as root: {packages}"
    assert said[-1] == f"Installing {packages} …"
    assert installed(folder).endswith(f"install --no-install-recommends {packages}\n")


def test_without_root_it_says_what_to_install_and_goes_on(folder: Path) -> None:
    done = run(folder, user=1000, CC="no-compiler")
    assert (done.returncode, done.stdout, installed(folder)) == (0, "", "")
    assert "There is no C compiler with Python's headers" in done.stderr
    assert "apt-get install gcc" in done.stderr


def test_without_venv_and_root_it_fails_with_the_command(folder: Path) -> None:
    # A Python that has no ensurepip.
    program(folder, "bare-python", f'case "$*" in *ensurepip*) exit 1;; esac; exec {sys.executable} "$@"')
    done = run(folder, user=1000, CC="no-compiler", PYTHON="bare-python")
    assert (done.returncode, installed(folder)) == (1, "")
    assert "Install it as root: apt-get install python" in done.stderr


def test_what_drives_the_browser_runs_on_node_js_of_debian() -> None:
    """Debian 12 has 18. A newer playwright-core needs 20."""
    lock = SCRIPTS.parent / "tests" / "integration" / "console" / "package-lock.json"
    packages = json.loads(lock.read_text())["packages"]
    needed = [
        re.fullmatch(r">=(\d+)[.\dx]*", each["engines"]["node"]) for each in packages.values() if "engines" in each
    ]
    assert len(needed) == 2
    assert all(found is not None and int(found[1]) <= 18 for found in needed)
