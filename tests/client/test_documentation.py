"""Every example of docs/how-to/client.md is run, and prints what the page says it prints."""

import ast
import asyncio
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fumarole
from fumarole.client import errors
from tests.client.brokers import RealBroker
from tests.client.conftest import StartProcess

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "client.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n(?:```output\n(.*?)```\n)?", PAGE, re.DOTALL)
PROGRAM, *FRAGMENTS = EXAMPLES


def test_the_program(start_process: StartProcess) -> None:
    code = PROGRAM[0].replace("nats://127.0.0.1:4222", start_process().url)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == (PROGRAM[1], "")


@pytest.mark.parametrize(("code", "printed"), FRAGMENTS, ids=[code.splitlines()[0][:40] for code, _ in FRAGMENTS])
async def test_an_example(broker: RealBroker, code: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = compile(code, "docs/how-to/client.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    async with fumarole.connect(broker.url) as client:
        result = eval(compiled, {"fumarole": fumarole, "asyncio": asyncio, "client": client})
        assert inspect.iscoroutine(result)
        await result
    assert capsys.readouterr().out == printed


def test_every_error_is_on_the_page() -> None:
    raised = {
        name
        for name, each in vars(errors).items()
        if inspect.isclass(each) and issubclass(each, errors.ClientError) and each is not errors.ClientError
    }
    table = re.findall(r"^\| `(\w+)` \| ", PAGE.partition("## Errors")[2], re.MULTILINE)
    assert set(table) == raised
    assert raised <= set(fumarole.__all__)


def test_every_argument_of_connect_and_subscribe_is_on_the_page() -> None:
    tables = re.findall(r"^\| (`.*?`) \|", PAGE, re.MULTILINE)
    named = {name for cell in tables for name in re.findall(r"`(\w+)`", cell)}
    assert set(inspect.signature(fumarole.connect).parameters) <= named
    assert set(inspect.signature(fumarole.Client.subscribe).parameters) - {"self"} <= named


def test_the_package_offers_what_the_client_offers() -> None:
    assert set(fumarole.__all__) - {"__version__"} - fumarole.AT_THE_PROMPT == set(fumarole.client.__all__)
    for name in fumarole.__all__:
        assert getattr(fumarole, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        fumarole.nonsense  # noqa: B018
