"""NATS over WebSocket with nats-py, and MQTT's handshake, at a real web door (H6)."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.http.webs import WebBroker

PYTHON = Path(__file__).parents[3] / "build" / "web" / "bin" / "python"
CLIENT = Path(__file__).parent / "clients" / "nats_over_web.py"


@pytest.fixture(scope="module", params=["compiled", "plain"])
def web(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    started = WebBroker(tmp_path_factory.mktemp("web"), hot_path=request.param)
    yield started
    started.stop()


@pytest.mark.parametrize("path", ["/nats", ""], ids=["nats", "root"])
def test_nats_py(web: WebBroker, path: str) -> None:
    address = f"ws://127.0.0.1:{web.web_port}{path}"
    run = subprocess.run([PYTHON, CLIENT, address], capture_output=True, text=True, timeout=60, check=False)
    done = ["publish_and_subscribe", "large_messages", "request_and_reply", "unsubscribe", "groups"]
    assert run.stdout.split() == [word for name in done for word in ("ok", name)], run.stderr
