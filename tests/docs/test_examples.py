"""The Python examples of README and of how-to pages, run against a real broker."""

import doctest
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.brokers import BrokerProcess

ROOT = Path(__file__).parents[2]


def examples(document: str) -> list[str]:
    found = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    assert found
    return found


def test_the_prompt_of_readme() -> None:
    """Without a server."""
    (session,) = re.findall(r"```pycon\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    lines = doctest.DocTestParser().get_doctest(session, {}, "README.md", None, None)
    assert doctest.DocTestRunner().run(lines) == (0, 8)


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Where a broker with all its doors is: one address for each."""
    folder = tmp_path_factory.mktemp("broker")
    broker = BrokerProcess(folder, "--msgpack", "127.0.0.1:0")
    yield [line.split("//")[1] for line in broker.url.split()]
    assert broker.stop() == 0


def run(code: str, addresses: list[str], seconds: float = 20) -> str:
    nats, msgpack = (address.rsplit(":", 1)[1] for address in addresses)
    code = code.replace("4222", nats).replace("4444", msgpack)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode()
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_ten_lines_of_readme(addresses: list[str]) -> None:
    assert run(examples("README.md")[0], addresses) == "volcanoes.usa.atka b'21.5'\n"


def test_the_msgpack_lines_of_readme(addresses: list[str]) -> None:
    said = run(examples("README.md")[1], addresses)
    assert re.match(r"\{'New': \[.*\], 'Del': \[\]\} \{'New': \['[-0-9a-f]{36}'\], 'Del': \[\]\} \['", said)
    assert said.endswith(", {'Room': '410', 'Kind': 'temperature'}, 21.5]\n")


FRESH_STATE = {
    "last-values": ["doors.cellar.state closed known before", "doors.cellar.state open live"],
    "conflation": ["gusts.tower 0", "gusts.tower 999"],
    "views": ["[('hall', 1)]", "(('hall', 1),) (('hall', 2),)"],
    "presence": ["() (('roof', True),)", "(('roof', True),) (('roof', False),)"],
    "message-tests": ["81", "99.5"],
    "keyed-groups": ["100 topics; 0 with two members"],
}


@pytest.mark.parametrize("page", FRESH_STATE)
def test_fresh_state(page: str, addresses: list[str]) -> None:
    """What each page says that its example prints."""
    (code,) = examples(f"docs/how-to/{page}.md")
    assert run(code, addresses).splitlines() == FRESH_STATE[page]


def test_fresh_state_from_a_nats_client(addresses: list[str]) -> None:
    (code,) = examples("docs/how-to/fresh-state.md")
    said = run(code, addresses).splitlines()
    assert sorted(said[:-1]) == ["81.5", "[[4, 1]]", "gates.north closed known before", "gusts.roof 0 live"]
    assert said[-1] == "gusts.roof 999 live"


def test_sensor_and_subscriber_of_the_metadata_page(addresses: list[str]) -> None:
    sensor, subscriber = examples("docs/how-to/readings.md")
    run(sensor, addresses)
    listens = f"import signal\nsignal.alarm(3)\n{subscriber.replace('print(value)', 'print(value, flush=True)')}"
    done = subprocess.run(
        [sys.executable, "-c", listens.replace("4444", addresses[1].rsplit(":", 1)[1])],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert re.match(r"\{'New': \['[-0-9a-f]{36}'", done.stdout), done.stderr
