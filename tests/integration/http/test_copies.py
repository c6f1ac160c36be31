"""Each form that the console offers under "copy as" is run as it stands, and shows what is published.

JavaScript runs in tests/integration/console, in the page; Spark in tests/pipeline/live/test_copies.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

import nats
import pytest

import fumarole
from tests.integration.http.webs import WebBroker

ONE = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
WHERE = "Kind = 'so2' and Room like '4%'"
TOPIC = "copied.*"
VIEW = "select Room, count(*) where Kind = 'so2'"
VALUE = "17.25"
PATIENCE = 60.0
DOORS = "doors.msgpack = ['127.0.0.1:0']\ndoors.mqtt = ['127.0.0.1:0']\n"
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    """One with all doors that have a form, and a producer whose readings do not end."""
    broker = WebBroker(tmp_path_factory.mktemp("broker"), DOORS)
    ended = threading.Event()

    async def publish() -> None:
        async with fumarole.connect(broker.url) as client:
            producer = client.producer({"Kind": "so2", "Room": "410"}, "copied.one", ONE)
            while not ended.is_set():
                await producer.publish(float(VALUE))
                await asyncio.sleep(0.05)

    publishing = threading.Thread(target=lambda: asyncio.run(publish()))
    publishing.start()
    yield broker
    ended.set()
    publishing.join()
    broker.stop()


def lines_of(broker: WebBroker, form: str, **asked: str) -> str:
    with urlopen(f"{broker.web}/v1/copies?{urlencode(asked)}", timeout=PATIENCE) as answer:
        copies = json.load(answer)["copies"]
    (found,) = [each for each in copies if each["form"] == form]
    assert found["lines"], found["why_not"]
    return str(found["lines"])


def shows(command: list[str], *texts: str) -> None:
    """Run until it has shown all of these."""
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True) as run:
        late = threading.Timer(PATIENCE, run.kill)
        late.start()
        said = ""
        assert run.stdout is not None
        try:
            for line in run.stdout:
                said += line
                if all(text in said for text in texts):
                    return
        finally:
            late.cancel()
            run.kill()
    raise AssertionError(f"it showed only this:\n{said}")


@pytest.mark.parametrize("asked", [{"where": WHERE}, {"topic": TOPIC}], ids=["query", "pattern"])
def test_python(broker: WebBroker, asked: dict[str, str]) -> None:
    shows([sys.executable, "-c", lines_of(broker, "python", **asked)], VALUE)


@pytest.mark.parametrize("asked", [{"where": WHERE}, {"topic": TOPIC}], ids=["query", "pattern"])
def test_the_command_line(broker: WebBroker, asked: dict[str, str]) -> None:
    shows(["sh", "-c", f"exec {lines_of(broker, 'fumarole', **asked)}"], VALUE)


def test_curl_with_a_query(broker: WebBroker) -> None:
    shows(["sh", "-c", f"exec {lines_of(broker, 'curl', where=WHERE)}"], f'"New":["{ONE}"]', VALUE)


def test_a_view(broker: WebBroker) -> None:
    shows([sys.executable, "-c", lines_of(broker, "python", where=VIEW)], "410")
    shows(["sh", "-c", f"exec {lines_of(broker, 'curl', where=VIEW)}"], '"New":[["410",1]]')
    shows([sys.executable, "-c", lines_of(broker, "msgpack", where=VIEW)], "410")
    shows(["sh", "-c", f"exec {lines_of(broker, 'fumarole', where=VIEW)}"], "410")


def test_curl_with_a_pattern(broker: WebBroker) -> None:
    shows(["sh", "-c", f"exec {lines_of(broker, 'curl', topic=TOPIC)}"], "copied.one", VALUE)


def test_msgpack(broker: WebBroker) -> None:
    shows([sys.executable, "-c", lines_of(broker, "msgpack", where=WHERE)], ONE, VALUE)


def test_mosquitto_sub(broker: WebBroker) -> None:
    shows(["sh", "-c", f"exec {lines_of(broker, 'mosquitto_sub', topic=TOPIC)}"], f"copied/one {VALUE}")


@pytest.mark.parametrize(
    "asked", [{"where": WHERE}, {"topic": TOPIC}, {"where": VIEW}], ids=["query", "pattern", "view"]
)
def test_nats(broker: WebBroker, asked: dict[str, str]) -> None:
    """The command `nats` cannot be installed by the project; its arguments are read here, and done by nats-py."""
    line = lines_of(broker, "nats", **asked).splitlines()[-1]
    command, server_option, server, verb, subject, *payload = shlex.split(line)
    assert (command, server_option) == ("nats", "--server")

    async def do() -> str:
        client = await nats.connect(server)
        try:
            if verb == "request":
                return (await client.request(subject, payload[0].encode(), timeout=PATIENCE)).data.decode()
            assert verb == "sub"
            assert not payload
            subscription = await client.subscribe(subject)
            return (await subscription.next_msg(PATIENCE)).data.decode()
        finally:
            await client.close()

    expected = VALUE if "topic" in asked else ONE if asked["where"] == WHERE else "410"
    assert expected in asyncio.run(do())
