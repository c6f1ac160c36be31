"""This package as a file that Spark sends to where its Python runs: workers of a cluster, and Connect servers."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import fumarole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SENT = {".py", ".toml", ".css", ".html", ".js", ".lark"}
"""Sources and what they read. Compiled modules are of one machine; the pure ones do without."""


def is_remote(spark: SparkSession) -> bool:
    """Is it a session of Spark Connect? Such a session has neither a Java of its own nor a `sparkContext`."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def ship(spark: SparkSession) -> None:
    """Brings the package to where this session runs Python. What it needs (pyarrow, msgspec) has to be there."""
    if is_remote(spark):
        spark.addArtifacts(str(packed()), pyfile=True)
        return
    context = spark.sparkContext
    chosen = os.environ.get("PYSPARK_PYTHON") or context.getConf().get("spark.pyspark.python")
    if not (context.master or "").startswith("local"):
        context.addPyFile(str(packed()))
    elif not chosen:
        context.pythonExec = sys.executable  # any other python3 on this machine has no fumarole


@cache
def packed() -> Path:
    """A zip file of the package, made once and deleted when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="fumarole-package-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    root = Path(fumarole.__file__).parent
    path = folder / "fumarole.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        for file in sorted(root.rglob("*")):
            if file.suffix in _SENT:
                package.write(file, Path("fumarole") / file.relative_to(root))
    return path
