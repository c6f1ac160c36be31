"""The console in a real browser, used as a person would: the scenarios of the .mjs files beside this one."""

import hashlib
import json
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.integration.cluster.nodes import running
from tests.integration.console.browser import HERE, ROOT, copy_scripts, run_node
from tests.integration.http.webs import WebBroker
from tests.ports import free_port

PICTURES = ROOT / "build" / "pictures"
LANES = 2
Outcomes = dict[str, str]
SECRETS = {"boss": "kiR4Zq0ZyEw5yL1vD1Vw7e", "reader": "pS2mYd8uQn3tXb6cLf9hJ0"}
USERS = """
[[users]]
name = "boss"
roles = ["admin"]
token = "{boss}"

[[users]]
name = "reader"
publish.allow = []
subscribe.allow = ["open.>", "_INBOX.>"]
token = "{reader}"
"""


def names(script: str) -> list[str]:
    return re.findall(r'^  async "(.*)"\(page\)', (HERE / script).read_text(), re.MULTILINE)


def outcomes(script: str, *arguments: str) -> Outcomes:
    """What was wrong with each scenario; empty: nothing."""
    told = [json.loads(line) for line in run_node(script, arguments[0], str(PICTURES), *arguments[1:]).splitlines()]
    return {each["name"]: each["problem"] for each in told}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Outcomes]]]:
    """Scenarios mostly wait for the page. So those of one node, in two halves, users and a cluster run side by side.

    First all brokers start, one after the other: many starts at once take longer.
    """
    PICTURES.mkdir(parents=True, exist_ok=True)
    copy_scripts()
    digests = {name: f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" for name, text in SECRETS.items()}
    with ExitStack() as ends, running(tmp_path_factory.mktemp("cluster"), 0) as nodes:
        ports = [free_port() for _ in range(3)]
        for port in ports:
            nodes.add(flags=("--http", f"127.0.0.1:{port}"))
        addresses = [f"http://127.0.0.1:{port}" for port in ports]
        runs = {"cluster": ["cluster.mjs", *addresses, str(nodes[2].process.pid)]}
        guarded = WebBroker(tmp_path_factory.mktemp("users"), USERS.format(**digests))
        ends.callback(guarded.stop)
        runs["users"] = ["users.mjs", guarded.web, json.dumps(SECRETS)]
        for lane in range(LANES):
            broker = WebBroker(tmp_path_factory.mktemp("node"))
            ends.callback(broker.stop)
            runs[f"one node {lane}"] = ["one_node.mjs", broker.web, str(broker.port), f"{lane}/{LANES}"]
        with ThreadPoolExecutor(len(runs)) as side_by_side:
            yield {name: side_by_side.submit(outcomes, *arguments) for name, arguments in runs.items()}
        nodes[2].kill()  # a scenario has done so already
        nodes.nodes.pop()


@pytest.mark.parametrize(("number", "name"), list(enumerate(names("one_node.mjs"))), ids=names("one_node.mjs"))
def test_one_node(seen: dict[str, Future[Outcomes]], number: int, name: str) -> None:
    assert seen[f"one node {number % LANES}"].result()[name] == ""


@pytest.mark.parametrize("name", names("users.mjs"))
def test_users(seen: dict[str, Future[Outcomes]], name: str) -> None:
    assert seen["users"].result()[name] == ""


@pytest.mark.parametrize("name", names("cluster.mjs"))
def test_a_cluster(seen: dict[str, Future[Outcomes]], name: str) -> None:
    assert seen["cluster"].result()[name] == ""
