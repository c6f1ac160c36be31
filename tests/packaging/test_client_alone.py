"""The client needs the standard library and nothing else: what `pip install --no-deps fumarole` gives runs on it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.brokers import BrokerProcess

ROOT = Path(__file__).parents[2]
DEVICE = Path(__file__).with_name("device.py")
PRINTED = "volcanoes.usa.atka 21.5 celsius\n12:00\n21.5 410\n[]\n"


def bare(code: str, *arguments: str) -> str:
    """What a program prints that sees the sources and the standard library: no site-packages, no variables."""
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); {code}"
    command = [sys.executable, "-I", "-S", "-c", code, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_a_program_of_the_client(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    try:
        assert bare(f"import runpy; runpy.run_path({str(DEVICE)!r}, run_name='__main__')", broker.url) == PRINTED
    finally:
        broker.stop()


def test_a_pattern_at_the_prompt() -> None:
    assert bare("import fumarole; print(fumarole.matches('volcanoes.*', 'volcanoes.usa'))") == "True\n"


@pytest.mark.parametrize(
    ("code", "module"),
    [
        ("from fumarole.core.query.parse import parse", "lark"),
        ("import fumarole; fumarole.Query('a = 1')", "lark"),
        ("from fumarole.exchange import Exchange", "re2"),
    ],
)
def test_the_rest_says_what_to_install(code: str, module: str) -> None:
    program = f"""
try:
    {code}
except ImportError as error:
    from fumarole.core.packages import explained
    print(explained(error))
"""
    sentence = f"Fumarole beyond its client needs {module}, which is not installed: pip install fumarole\n"
    assert bare(f"exec({program!r})") == sentence
