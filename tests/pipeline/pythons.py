"""A Python as workers of a cluster may have it: with what this package needs, and without this package."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

OWN = ("fumarole", "__editable__")


def python_without_fumarole(folder: Path) -> Path:
    """The path of its interpreter."""
    packages = folder / "packages"
    packages.mkdir()
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if not each.name.startswith(OWN):
            (packages / each.name).symlink_to(each)
    python = folder / "python-of-workers"
    # Without `site`, which would find what is installed beside the interpreter.
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    subprocess.run([python, "-c", "import msgspec, pyarrow, pyspark"], check=True)
    command = [str(python), "-c", "import fumarole"]
    lacking = subprocess.run(command, cwd=folder, env=with_workers(python), capture_output=True, text=True, check=False)
    assert "No module named 'fumarole'" in lacking.stderr
    return python


def with_workers(python: Path) -> dict[str, str]:
    """The environment of a program of Spark whose workers are of this Python."""
    own = {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | own
