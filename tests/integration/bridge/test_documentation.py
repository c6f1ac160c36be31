"""docs/reference/bridge.md: its commands, its programs in Python and in C, and its tables, against a real RabbitMQ."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fumarole.bridge import BlockingBridgeClient, BridgeClient, operations
from fumarole.bridge.erlang_messages import TYPES
from fumarole.bridge.exchange_link import HOP, PREFIX, PRIVATE
from fumarole.bridge.fields import PROPERTIES
from tests.docs.test_docs import rows
from tests.integration.bridge.bridges import RunningBridge
from tests.integration.bridge.rabbitmq import RabbitMq

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "bridge.md").read_text()
PROGRAMS = re.findall(r"```python\n((?:(?!```).)*)```\n```output\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def example(rabbitmq: RabbitMq) -> Iterator[RunningBridge]:
    """The bridge of the page, with its own values; only the addresses are those of the test."""
    command = re.findall(r"```sh\n(fumarole bridge --amqp.*?)```", PAGE, re.DOTALL)[0]
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:2] == ["fumarole", "bridge"]
    arguments = [
        {"amqp://guest:guest@localhost:5672": rabbitmq.url, "tcp://127.0.0.1:5555": "tcp://127.0.0.1:*"}.get(word, word)
        for word in words[2:]
    ]
    running = RunningBridge(*arguments)
    yield running
    running.stop()


@pytest.mark.parametrize(("program", "printed"), PROGRAMS, ids=[program.splitlines()[0] for program, _ in PROGRAMS])
def test_a_program_prints_what_the_page_says(example: RunningBridge, program: str, printed: str) -> None:
    code = program.replace("tcp://localhost:5555", example.endpoint)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.stderr) == (printed, "")


def test_keys_are_made(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(import os(?:(?!```).)*)```", PAGE, re.DOTALL)
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=30)
    made = {path.name for path in (tmp_path / "keys").iterdir()}
    assert made == {f"{name}.key{half}" for name in ("bridge", "client") for half in ("", "_secret")}


def test_the_program_in_c(example: RunningBridge, tmp_path: Path) -> None:
    (source,) = re.findall(r"```c\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "dealer.c").write_text(source)
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    assert compiler, "there is no C compiler; `make setup-test` installs it (Debian package gcc)"
    command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", "dealer", "dealer.c", "-lzmq"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr}\n`make setup-test` installs libzmq (Debian package libzmq3-dev)"
    ran = subprocess.run(
        [tmp_path / "dealer", example.endpoint], capture_output=True, text=True, timeout=30, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "test.c hello\n")


def test_every_operation_and_answer_is_in_the_tables() -> None:
    asked = {re.findall("`([a-z]+)`", row[0])[i] for row in rows("reference/bridge.md", "to the bridge") for i in (0,)}
    assert asked == {name.decode() for name in operations._OPERATIONS}
    answered = {re.findall("`([a-z]+)`", row[0])[0] for row in rows("reference/bridge.md", "from the bridge")}
    assert answered == {name.decode() for name in (operations.MSG, operations.REPLY, operations.DONE, operations.ERROR)}


def test_every_property_is_named() -> None:
    section = PAGE.partition("## Properties and headers")[2].partition("\n## ")[0]
    assert all(f"`{name}`" in section for name in PROPERTIES if name != "headers")


def test_every_type_of_erlang_is_named() -> None:
    section = PAGE.partition("### In Erlang")[2].partition("\n### ")[0]
    assert all(f"`{name}`" in section for name in TYPES)
    fields = re.findall(r"'P_basic', (.*?)\}", section, re.DOTALL)[0].split(",")
    assert [field.strip().lower() for field in fields] == [name.replace("_", "") for name in PROPERTIES]


def test_every_method_of_both_clients_is_in_the_table() -> None:
    table = " ".join(row[0] for row in rows("reference/bridge.md", "method"))
    for client, others in ((BridgeClient, {"open", "close"}), (BlockingBridgeClient, {"open", "close", "receive"})):
        methods = {name for name in vars(client) if not name.startswith("_")}
        assert {name for name in methods - others if f"{name}(" not in table} == set()


def test_what_the_link_uses_is_named() -> None:
    for word in (HOP, PREFIX, *PRIVATE):
        assert f"`{word}" in PAGE
