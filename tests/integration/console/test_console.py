"""The console in a real browser, used as a person would: the scenarios of the .mjs files beside this one."""

import hashlib
import json
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

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


def one_node(folder: Path, lane: int) -> Outcomes:
    """Every second scenario, beside a broker of their own."""
    broker = WebBroker(folder)
    try:
        return outcomes("one_node.mjs", broker.web, str(broker.port), f"{lane}/{LANES}")
    finally:
        broker.stop()


def users(folder: Path) -> Outcomes:
    digests = {name: f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" for name, text in SECRETS.items()}
    broker = WebBroker(folder, USERS.format(**digests))
    try:
        return outcomes("users.mjs", broker.web, json.dumps(SECRETS))
    finally:
        broker.stop()


def cluster(folder: Path) -> Outcomes:
    ports = [free_port() for _ in range(3)]
    with running(folder, 0) as nodes:
        for port in ports:
            nodes.add(flags=("--http", f"127.0.0.1:{port}"))
        addresses = [f"http://127.0.0.1:{port}" for port in ports]
        try:
            return outcomes("cluster.mjs", *addresses, str(nodes[2].process.pid))
        finally:
            nodes[2].kill()
            nodes.nodes.pop()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Outcomes]]]:
    """Scenarios mostly wait for the page. So those of one node, in two halves, users and a cluster run side by side."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    copy_scripts()
    with ThreadPoolExecutor(LANES + 2) as side_by_side:
        begun = {"users": side_by_side.submit(users, tmp_path_factory.mktemp("users"))}
        for lane in range(LANES):
            begun[f"one node {lane}"] = side_by_side.submit(one_node, tmp_path_factory.mktemp("node"), lane)
        begun["cluster"] = side_by_side.submit(cluster, tmp_path_factory.mktemp("cluster"))
        yield begun


@pytest.mark.parametrize(("number", "name"), list(enumerate(names("one_node.mjs"))), ids=names("one_node.mjs"))
def test_one_node(seen: dict[str, Future[Outcomes]], number: int, name: str) -> None:
    assert seen[f"one node {number % LANES}"].result()[name] == ""


@pytest.mark.parametrize("name", names("users.mjs"))
def test_users(seen: dict[str, Future[Outcomes]], name: str) -> None:
    assert seen["users"].result()[name] == ""


@pytest.mark.parametrize("name", names("cluster.mjs"))
def test_a_cluster(seen: dict[str, Future[Outcomes]], name: str) -> None:
    assert seen["cluster"].result()[name] == ""
