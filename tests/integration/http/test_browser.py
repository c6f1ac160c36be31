"""The page of docs/reference/http.md with an EventSource, in a real browser, at an origin that is configured."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import subprocess
import threading
import time
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from tests.integration.http.webs import WebBroker

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "http.md").read_text()
ATKA = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
SECONDS = 60.0
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--no-proxy-server"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
TELLS = """
<script type="module">
  const tell = () => fetch("HERE/v1/topics/result?retain=1", {method: "POST", body: document.body.innerText})
  setInterval(tell, 300)
</script>
"""


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        pass


def ask(url: str, body: str | None = None, **fields: str) -> bytes:
    request = urllib.request.Request(url, None if body is None else body.encode())
    for name, value in fields.items():
        request.add_header(name.replace("_", "-"), value)
    with urllib.request.urlopen(request, timeout=10) as answer:
        said: bytes = answer.read()
        return said


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_the_page_with_an_event_source(tmp_path: Path) -> None:
    (page,) = [each for each in re.findall(r"```html\n(.*?)```", PAGE, re.DOTALL) if "EventSource" in each]
    pages = tmp_path / "pages"
    pages.mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(pages))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{server.server_port}"
        broker = WebBroker(tmp_path, f"[http]\norigins = ['{origin}']\n")
        here = page.replace("`/v1/stream", f"`{broker.web}/v1/stream") + TELLS.replace("HERE", broker.web)
        (pages / "index.html").write_text(here)
        command = ["chromium", *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--remote-debugging-port=0", origin]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as chromium:
            try:
                assert "volcanoes.italy.etna 21.5\n" in shown(broker)
            finally:
                chromium.terminate()
        server.shutdown()
        broker.stop()


def shown(broker: WebBroker) -> str:
    """What the page shows once a reading has come to it."""
    fields = {"Fumarole_Producer": ATKA, "Fumarole_Metadata": '{"Region": "italy"}'}
    end, text = time.monotonic() + SECONDS, ""
    while "etna" not in text and time.monotonic() < end:
        ask(f"{broker.web}/v1/topics/volcanoes/italy/etna", "21.5", **fields)
        time.sleep(0.5)
        values = json.loads(ask(f"{broker.web}/v1/topics/result"))["values"]
        text = values[0]["payload"] if values else ""
    return text + "\n"
