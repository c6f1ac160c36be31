"""NATS over WebSocket with nats-py and nats.js at a real web door (H6), and our reader of frames beside another one."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.http.webs import WebBroker

PYTHON = Path(__file__).parents[3] / "build" / "web" / "bin" / "python"
SOURCES = Path(__file__).parents[3] / "src"
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


def test_random_frames_and_the_reader_of_websockets() -> None:
    """An independent reader of RFC 6455 hears the same of 400 sequences of frames, of which about half are faulty."""
    command = [str(PYTHON), str(CLIENT.with_name("frames.py")), "400", "1"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert run.returncode == 0, run.stderr[-2_000:]
    sequences, refused, heard = map(int, run.stdout.split())
    assert sequences == 400
    assert 100 < refused < 300
    assert heard > 1_000_000


def node_flags() -> list[str] | None:
    """What lets Node speak WebSocket; None: this one does not."""
    for flags in ([], ["--experimental-websocket"]):
        run = subprocess.run(["node", *flags, "-e", "WebSocket"], capture_output=True, check=False)
        if run.returncode == 0:
            return flags
    return None


@pytest.mark.skipif(shutil.which("node") is None or node_flags() is None, reason="Node here has no WebSocket")
def test_nats_js(web: WebBroker) -> None:
    flags = node_flags() or []
    command = ["node", *flags, str(CLIENT.with_name("nats_js.cjs")), f"ws://127.0.0.1:{web.web_port}/nats"]
    environment = {**os.environ, "NODE_PATH": str(PYTHON.parents[1] / "node_modules")}
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert run.stdout == "ok\n", run.stderr
