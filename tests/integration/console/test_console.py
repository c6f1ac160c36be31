"""The console in a real browser, used as a person would: the scenarios of the .mjs files beside this one."""

import hashlib
import json
import re

import pytest

from tests.integration.cluster.nodes import running
from tests.integration.console.browser import HERE, ROOT, run_node
from tests.integration.http.webs import WebBroker
from tests.ports import free_port

PICTURES = ROOT / "build" / "pictures"
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
    PICTURES.mkdir(parents=True, exist_ok=True)
    told = [json.loads(line) for line in run_node(script, arguments[0], str(PICTURES), *arguments[1:]).splitlines()]
    return {each["name"]: each["problem"] for each in told}


@pytest.fixture(scope="module")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    broker = WebBroker(tmp_path_factory.mktemp("broker"))
    try:
        return outcomes("one_node.mjs", broker.web, str(broker.port))
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    digests = {name: f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" for name, text in SECRETS.items()}
    broker = WebBroker(tmp_path_factory.mktemp("broker"), USERS.format(**digests))
    try:
        return outcomes("users.mjs", broker.web, json.dumps(SECRETS))
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    ports = [free_port() for _ in range(3)]
    with running(tmp_path_factory.mktemp("cluster"), 0) as nodes:
        for port in ports:
            nodes.add(flags=("--http", f"127.0.0.1:{port}"))
        addresses = [f"http://127.0.0.1:{port}" for port in ports]
        try:
            return outcomes("cluster.mjs", *addresses, str(nodes[2].process.pid))
        finally:
            nodes[2].kill()
            nodes.nodes.pop()


@pytest.mark.parametrize("name", names("one_node.mjs"))
def test_one_node(one_node: Outcomes, name: str) -> None:
    assert one_node[name] == ""


@pytest.mark.parametrize("name", names("users.mjs"))
def test_users(users: Outcomes, name: str) -> None:
    assert users[name] == ""


@pytest.mark.parametrize("name", names("cluster.mjs"))
def test_a_cluster(cluster: Outcomes, name: str) -> None:
    assert cluster[name] == ""
