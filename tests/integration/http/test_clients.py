"""The web door and HTTP clients of others: httpx, aiohttp, and schemathesis with /openapi.json (H2-H6)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.http.webs import WebBroker

BIN = Path(__file__).parents[3] / "build" / "web" / "bin"
CLIENT = Path(__file__).parent / "clients" / "http_clients.py"
WITHOUT_PROXY = {**os.environ, "NO_PROXY": "*", "no_proxy": "*"}
DONE = ["publish_and_read_back", "lines_in_chunks", "streams", "requests", "sizes", "text_in_frames"]


@pytest.fixture(scope="module", params=["compiled", "plain"])
def web(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    started = WebBroker(tmp_path_factory.mktemp("web"), hot_path=request.param)
    yield started
    started.stop()


def test_httpx_and_aiohttp(web: WebBroker) -> None:
    command = [str(BIN / "python"), str(CLIENT), web.web]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=WITHOUT_PROXY)
    assert run.stdout.split() == [word for name in DONE for word in ("ok", name)], run.stderr


def test_the_description_is_true(tmp_path: Path) -> None:
    """Random requests by the description, and by what it does not allow: each answer is one that it has.

    Left out: streams, which do not end; lines of JSON, a type that schemathesis cannot write. What a topic may have is the
    grammar of its namespace, which a description cannot say: so a refused topic is no fault.
    """
    web = WebBroker(tmp_path)
    left_out = ["--exclude-path", "/v1/stream", "--exclude-path", "/v1/topics", "--exclude-checks"]
    limits = ["--max-examples", "4", "--phases", "coverage,fuzzing", "--request-timeout", "20", "--seed", "1"]
    command = [
        str(BIN / "schemathesis"),
        "run",
        f"{web.web}/openapi.json",
        *left_out,
        "positive_data_acceptance",
        *limits,
    ]
    run = subprocess.run(
        [*command, "--no-color"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env=WITHOUT_PROXY,
    )
    web.stop()
    assert run.returncode == 0, run.stdout[-8_000:]
