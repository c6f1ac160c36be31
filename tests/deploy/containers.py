"""Images and containers in a folder of their own: buildah and podman, without a registry and without a daemon.

The image that ours is built on stands in for the registry's: a Debian made by debootstrap, kept in build/containers. Layers
are plain copies (vfs), and builds are isolated by chroot, so this works inside a container as well. It needs root.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "containers"
TOOLS = ("buildah", "podman", "podman-compose", "runc", "debootstrap", "systemd-nspawn")
PACKAGES = "python3,python3-venv,systemd-sysv"
BASE, IMAGE = "localhost/base", "localhost/fumarole"

CONTAINERS_CONF = """\
[containers]
default_ulimits = ["nofile={files}:{files}", "nproc=1000:1000"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
"""
STORAGE_CONF = """\
[storage]
driver = "vfs"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""


def missing_tools() -> list[str]:
    return [tool for tool in TOOLS if shutil.which(tool) is None] + (["root"] if os.geteuid() else [])


class Containers:
    """One test's own images, containers, volumes and networks."""

    def __init__(self, folder: Path) -> None:
        files = min(10_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        (folder / "containers.conf").write_text(CONTAINERS_CONF.format(files=files))
        (folder / "storage.conf").write_text(STORAGE_CONF.format(folder=folder))
        self._folder = folder
        self._environment = {
            **os.environ,
            "BUILDAH_ISOLATION": "chroot",
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        }

    def call(self, *command: str, cwd: Path | None = None, seconds: float = 600) -> str:
        """What it prints on stdout. It must succeed."""
        done = subprocess.run(
            command, cwd=cwd, env=self._environment, capture_output=True, text=True, timeout=seconds, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout.strip()

    def inspect(self, kind: str, name: str) -> dict[str, Any]:
        (found,) = json.loads(self.call("podman", kind, "inspect", name))
        assert isinstance(found, dict)
        return found

    def import_base(self) -> None:
        """The stand-in for an image of the registry."""
        self.call("podman", "import", str(make_base()), BASE)

    def build(self, context: Path, arguments: Mapping[str, str]) -> None:
        """The container file, as its first lines say."""
        given = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        file = context / "deploy" / "Containerfile"
        self.call("buildah", "build", "--format=docker", *given, "--file", str(file), "--tag", IMAGE, str(context))

    def remove_everything(self) -> None:
        """All of it ends with the folder; networks and mounts have to be told."""
        self.call("podman", "rm", "--all", "--force", "--time=0")
        self.call("podman", "volume", "prune", "--force")
        self.call("podman", "network", "prune", "--force")
        self.call("podman", "rmi", "--all", "--force")


def make_base() -> Path:
    """A Debian like this machine's, with Python and systemd, as an archive."""
    release = _release()["VERSION_CODENAME"]
    archive = KEPT / f"{release}.tar"
    if not archive.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="fumarole-base-") as folder:
            run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", release, folder)
            Path(folder).chmod(0o755)  # that of /, which every user may enter
            run("tar", "--directory", folder, "--create", "--file", f"{archive}.part", ".")
        Path(f"{archive}.part").rename(archive)
    return archive


def make_context(folder: Path) -> Path:
    """What an image is built from: deploy/, and in dist/ our wheel with all that it needs, so that no index is asked."""
    context = folder / "context"
    shutil.copytree(ROOT / "deploy", context / "deploy")
    dist = context / "dist"
    dist.mkdir()
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    wheels = sorted((ROOT / "dist").glob("fumarole-*.whl"))
    for wheel in wheels:
        shutil.copy(wheel, dist)
    if not wheels:
        run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(dist), str(ROOT))
    python = python_of_base()
    fits = re.compile(rf"-(py3|cp{python.replace('.', '')})-")
    ours = next(str(wheel) for wheel in dist.iterdir() if fits.search(wheel.name))
    where = ("--find-links", str(dist), "--dest", str(dist))
    run(*pip, "download", "--only-binary=:all:", "--python-version", python, *where, f"{ours}[fast]")
    return context


def python_of_base() -> str:
    """The version of its Python, for instance 3.11."""
    with tarfile.open(make_base()) as archive:
        target = archive.getmember("./usr/bin/python3").linkname
    return target.removeprefix("python")


def run(*command: str) -> str:
    """What it prints on stdout. It must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def _release() -> dict[str, str]:
    lines = Path("/etc/os-release").read_text().splitlines()
    return {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines) if value}
