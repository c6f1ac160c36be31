"""The service unit: what systemd says of it, and a broker that a real systemd starts with it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.deploy.containers import make_base, run

UNIT = Path(__file__).parents[2] / "deploy" / "fumarole.service"
PROGRAM = "/opt/fumarole/bin/fumarole"
CHECK_UNIT = """\
[Unit]
After=fumarole.service
Wants=fumarole.service
[Service]
Type=oneshot
ExecStart=/check.sh
StandardOutput=append:/check.out
StandardError=append:/check.out
ExecStopPost=/bin/systemctl --no-block poweroff
"""
CHECK = """\
#!/bin/sh
set -e
PATH=/opt/fumarole/bin:$PATH
systemctl is-active fumarole || journalctl --unit=fumarole --no-pager
fumarole pub hall 21.5 -H 'Producer: 2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60' -H 'Metadata: {"Room": "410"}'
grep -E '^(Uid|CapEff|NoNewPrivs|Seccomp):' /proc/$(systemctl show -P MainPID fumarole)/status
echo "heirs: $(cat /proc/[0-9]*/comm | grep -c '^fumarole-heir')"
fumarole cluster status --json
systemctl restart fumarole
fumarole producers --json
systemctl stop fumarole
stat -c '%a %n' /var/lib/private/fumarole /var/lib/private/fumarole/producers.sqlite
systemctl show fumarole -P Result
"""
CONFIGURATION = 'node = "a"\ncluster = "127.0.0.1:6222"\nworkers = 2\n'


def analyze(*arguments: str, folder: Path) -> str:
    """systemd-analyze, on the unit with a program that is there."""
    copy = folder / UNIT.name
    copy.write_text(UNIT.read_text().replace(PROGRAM, "/bin/true"))
    program = shutil.which("systemd-analyze")
    assert program, "systemd-analyze is missing: `make setup-test` installs it (Debian package systemd)"
    done = subprocess.run([program, *arguments, str(copy)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    assert analyze("verify", folder=tmp_path) == ""


def test_the_exposure_is_low(tmp_path: Path) -> None:
    told = analyze("security", "--offline=yes", "--threshold=15", folder=tmp_path)
    level = re.findall(r"Overall exposure level for fumarole.service: ([0-9.]+)", told)
    assert [float(number) <= 1.5 for number in level] == [True]


@pytest.fixture
def machine(context: Path) -> Iterator[Path]:
    """The files of a system with systemd, Fumarole installed as the unit's first lines say, and a check that is run once."""
    with TemporaryDirectory(prefix="fumarole-machine-") as name:
        root = Path(name, "root")  # every user may enter it, unlike the folder around it
        root.mkdir(mode=0o755)
        run("tar", "--directory", str(root), "--extract", "--file", str(make_base()))
        shutil.copytree(context / "dist", root / "dist")
        run("chroot", str(root), "python3", "-m", "venv", "/opt/fumarole")
        run(
            "chroot",
            str(root),
            "/opt/fumarole/bin/pip",
            "install",
            "--no-index",
            "--find-links",
            "/dist",
            "fumarole[fast]",
        )
        units = root / "etc/systemd/system"
        shutil.copy(UNIT, units)
        (units / "check.service").write_text(CHECK_UNIT)
        for unit in ("fumarole.service", "check.service"):
            (units / "multi-user.target.wants" / unit).symlink_to(f"/etc/systemd/system/{unit}")
        (root / "etc/fumarole").mkdir(mode=0o700)
        (root / "etc/fumarole/fumarole.toml").write_text(CONFIGURATION)
        (root / "etc/fumarole/fumarole.toml").chmod(0o600)
        (root / "check.sh").write_text(CHECK)
        (root / "check.sh").chmod(0o755)
        yield root


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_real_systemd_starts_a_broker_with_the_unit(machine: Path) -> None:
    """Two workers and a cluster, so that processes, Unix sockets and the heir meet the filters too."""
    subprocess.run(
        ["systemd-nspawn", f"--directory={machine}", "--register=no", "--keep-unit", "--private-network", "--boot"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        check=False,
    )
    told = (machine / "check.out").read_text()
    assert "\nsuccess\n" in told, told
    values = dict(re.findall(r"(?m)^(\w+):\s+(\S+)", told))
    assert int(values["Uid"]) > 60_000
    assert (values["CapEff"], values["NoNewPrivs"], values["Seccomp"]) == ("0" * 16, "1", "2")
    assert values["heirs"] == "2"
    assert "700 /var/lib/private/fumarole\n600 /var/lib/private/fumarole/producers.sqlite\n" in told
    assert '"state": "live"' in told
    assert '"metadata": {"Room": "410", "_online": ' in told
