"""The programs of examples/, each run as it is against a real broker. Those with Spark: tests/pipeline/test_examples.py."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.brokers import BrokerProcess

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(EXAMPLES.glob("*.py"))
PUBLIC = {"fumarole", "fumarole.pipeline"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path_factory.mktemp("broker"))
    yield running
    assert running.stop() == 0


def start(broker: BrokerProcess, name: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / name), *arguments],
        env={**os.environ, "FUMAROLE_SERVERS": broker.url, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    """What it has printed, on stdout and stderr."""
    out, errors = process.communicate(timeout=30)
    assert process.returncode == code, errors
    return out, errors


def run(broker: BrokerProcess, name: str, *arguments: str) -> str:
    out, errors = end(start(broker, name, *arguments))
    assert errors == ""
    return out


def wait_for_consumer(broker: BrokerProcess, name: str) -> None:
    """Returns when a client of this name has a subscription."""
    asks = (
        "import asyncio, fumarole, sys\n"
        "async def main():\n"
        "    async with fumarole.connect(sys.argv[1]) as client:\n"
        "        while sys.argv[2] not in str(await client.consumers()):\n"
        "            await asyncio.sleep(0.05)\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", asks, broker.url, name], timeout=30, check=True)


def test_publish_and_subscribe(broker: BrokerProcess) -> None:
    subscriber = start(broker, "subscribe.py", "volcanoes.>", "25")
    wait_for_consumer(broker, "subscribe.py")
    assert run(broker, "publish.py") == "published 25 messages\n"
    lines = end(subscriber)[0].splitlines()
    assert lines[0] == "volcanoes.usa.atka 21.5 {'Unit': 'celsius'}"
    assert lines[1:] == [f"volcanoes.italy.etna.{hour} 84.0 {{}}" for hour in range(24)]


def test_group_workers(broker: BrokerProcess) -> None:
    assert run(broker, "group_workers.py") == "jobs done: 300\neach worker did its share: True\n"


def test_drain(broker: BrokerProcess) -> None:
    worker = start(broker, "drain.py")
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n"
    asks = (
        "import asyncio, fumarole, sys\n"
        "async def main():\n"
        "    async with fumarole.connect(sys.argv[1]) as client:\n"
        "        replies = [client.request('shout', f'job {n}', timeout=20) for n in range(50)]\n"
        "        print({reply.text for reply in await asyncio.gather(*replies)} == {f'JOB {n}' for n in range(50)})\n"
        "asyncio.run(main())\n"
    )
    asked = subprocess.run([sys.executable, "-c", asks, broker.url], capture_output=True, timeout=30, check=True)
    assert asked.stdout == b"True\n"
    worker.send_signal(signal.SIGTERM)
    assert end(worker) == ("answered 50 requests\n", "")


def test_request_reply(broker: BrokerProcess) -> None:
    assert run(broker, "request_reply.py").splitlines() == [
        "True",
        "['atka has power', 'etna has power']",
        "no responder for requests to 'stations.nowhere'; start one, or check the topic",
    ]


def test_producer_and_list(broker: BrokerProcess) -> None:
    metadata = "{'Kind': 'temperature', 'Room': '510', 'Floor': 5}"
    assert run(broker, "producer.py") == f"True {metadata[:-1]}, '_online': True}} 19.0\n"
    identity = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
    listed = run(broker, "list_producers.py", "Floor >= 5")
    assert re.sub(r", '_online': (True|False)", "", listed) == f"{identity} {metadata} 19.0\n"
    assert run(broker, "list_producers.py", "Floor < 5") == ""
    out, errors = end(start(broker, "list_producers.py", "Floor ="), code=1)
    assert (out, errors.splitlines()[:2]) == ("", ["Floor =", "       ^"])


def test_live_query(broker: BrokerProcess) -> None:
    assert run(broker, "live_query.py").splitlines() == [
        "+  ",
        "21.5 {'Kind': 'temperature', 'Room': '420'}",
        "  -",
    ]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_is_short_and_uses_the_public_api_only(program: Path) -> None:
    text = program.read_text()
    assert len(text.splitlines()) < 40
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {f"{node.module}.{alias.name}" for alias in node.names}
    ours = {name for name in imported if name.split(".")[0] == "fumarole"}
    assert ours <= PUBLIC
    assert ours
    assert not re.search(r"\b_[a-z]\w*\.", text)


def test_every_program_is_in_the_list_and_run() -> None:
    listed = set(re.findall(r"(?m)^\| \[(\w+\.py)\]", (EXAMPLES / "README.md").read_text()))
    assert listed == {program.name for program in PROGRAMS}
    here = Path(__file__)
    tests = here.read_text() + (here.parents[1] / "pipeline" / here.name).read_text()
    assert {name for name in listed if f'"{name}"' not in tests} == set()
