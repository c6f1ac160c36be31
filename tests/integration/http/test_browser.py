"""The pages of docs/reference/http.md, with EventSource and with nats.js, in a real browser at an origin that is configured."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.integration.http.webs import WebBroker

ROOT = Path(__file__).parents[3]
PAGES = re.findall(r"```html\n(.*?)```", (ROOT / "docs" / "reference" / "http.md").read_text(), re.DOTALL)
MODULES = ROOT / "build" / "web" / "node_modules"
NATS = "@nats-io/nats-core"
PACKAGES = {
    NATS: f"{NATS}/lib/mod",
    "@nats-io/nkeys": "@nats-io/nkeys/lib/mod",
    "@nats-io/nuid": "@nats-io/nuid/lib/mod",
    "tweetnacl": "tweetnacl/nacl-fast",
}
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
LOADER = r"""
const made = {}
function load(name) {
  if (name in made) return made[name].exports
  const module = (made[name] = { exports: {} })
  const folder = name.slice(0, name.lastIndexOf("/"))
  const found = (asked) => (asked.startsWith("./") ? folder + asked.slice(1).replace(/\.js$/, "") : packages[asked])
  modules[name](module, module.exports, (asked) => load(found(asked)))
  return module.exports
}
export const { wsconnect } = load(packages["@nats-io/nats-core"])
"""

pytestmark = pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")


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


def page_with(text: str) -> str:
    (page,) = [str(each) for each in PAGES if text in each]
    return page


def bundle() -> str:
    """nats.js as one module. A content network makes the same of it for the page in the documentation."""
    functions = []
    for main in PACKAGES.values():
        files = [MODULES / f"{main}.js"] if main.startswith("tweetnacl") else (MODULES / main).parent.glob("*.js")
        for file in files:
            name = json.dumps(str(file.relative_to(MODULES).with_suffix("")))
            functions.append(f"{name}: (module, exports, require) => {{\n{file.read_text()}\n}}")
    modules = ",\n".join(functions)
    return f"const modules = {{{modules}}}\nconst packages = {json.dumps(PACKAGES)}\n{LOADER}"


@contextmanager
def shown(folder: Path, page: str) -> Iterator[WebBroker]:
    """A browser that shows this page from an origin of its own, and the broker that it speaks with."""
    pages = folder / "pages"
    pages.mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(pages))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{server.server_port}"
        broker = WebBroker(folder, f"[http]\norigins = ['{origin}']\n")
        here = page.replace("127.0.0.1:8222", f"127.0.0.1:{broker.web_port}")
        here = here.replace("`/v1/stream", f"`{broker.web}/v1/stream").replace(f"https://esm.sh/{NATS}", "/nats.js")
        (pages / "nats.js").write_text(bundle())
        (pages / "index.html").write_text(here + TELLS.replace("HERE", broker.web))
        command = ["chromium", *FLAGS, f"--user-data-dir={folder / 'profile'}", "--remote-debugging-port=0", origin]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as chromium:
            try:
                yield broker
            finally:
                chromium.terminate()
                server.shutdown()
                broker.stop()


def text_of(broker: WebBroker, *wanted: str) -> str:
    """What the page shows as soon as all of this is in it. Readings come to it meanwhile."""
    fields = {"Fumarole_Producer": ATKA, "Fumarole_Metadata": '{"Region": "italy"}'}
    end, text = time.monotonic() + SECONDS, ""
    while not all(each in text for each in wanted) and time.monotonic() < end:
        ask(f"{broker.web}/v1/topics/volcanoes/italy/etna", "21.5", **fields)
        time.sleep(0.5)
        values = json.loads(ask(f"{broker.web}/v1/topics/result"))["values"]
        text = values[0]["payload"] + "\n" if values else ""
    return text


def test_the_page_with_an_event_source(tmp_path: Path) -> None:
    with shown(tmp_path, page_with("EventSource")) as broker:
        text = text_of(broker, "volcanoes.italy.etna 21.5\n", ATKA)
        assert "volcanoes.italy.etna 21.5\n" in text
        assert ATKA in text


def test_the_page_with_nats(tmp_path: Path) -> None:
    """What it publishes itself, and what comes by HTTP."""
    with shown(tmp_path, page_with("wsconnect")) as broker:
        text = text_of(broker, "volcanoes.usa.atka 21.5\n", "volcanoes.italy.etna 21.5\n")
        assert "volcanoes.usa.atka 21.5\n" in text
        assert "volcanoes.italy.etna 21.5\n" in text
