"""Runs a script of this folder in node, which drives the browser."""

import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
BUILD = ROOT / "build" / "console"
PATIENCE = 240


def copy_scripts() -> None:
    """Node looks for packages beside a script."""
    for each in HERE.glob("*.mjs"):
        shutil.copy(each, BUILD)


def run_node(script: str, *arguments: str, patience: float = PATIENCE) -> str:
    """What the script prints."""
    command = ["node", str(BUILD / script), *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout
