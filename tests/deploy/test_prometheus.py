"""deploy/prometheus and deploy/grafana ask for what /metrics has; a real Prometheus scrapes a real node."""

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from fumarole.pipeline.jobs.watch_metrics import text
from fumarole.pipeline.jobs.watching import Progress
from fumarole.sessions.http.metrics import FAMILIES
from tests.integration.http.webs import WebBroker
from tests.ports import free_port

DEPLOY = Path(__file__).parents[2] / "deploy"
PIPELINE = re.findall(r"^# TYPE (\S+)", text(Progress(lag=0.0)), re.MULTILINE)
NAMES = {family.name for family in FAMILIES} | set(PIPELINE)
SECONDS = 40.0


def asked(text: str) -> set[str]:
    return set(re.findall(r"\b(?:fumarole|process)_[a-z0-9_]+", text))


def test_rules_and_dashboard_name_what_there_is() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())
    expressions = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    for name in ("fumarole", "pipeline"):
        dashboard = json.loads((DEPLOY / "grafana" / f"{name}.json").read_text())
        own = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        assert all(map(asked, own)), name
        expressions += own
    assert set().union(*map(asked, expressions)) <= NAMES


def query(port: int, expression: str) -> list[Any]:
    url = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            result: list[Any] = json.load(answer)["data"]["result"]
            return result
    except OSError:
        return []


def scraped(folder: Path, expression: str, condition: str) -> str:
    """The value of an expression as soon as the condition holds, in a Prometheus with this folder's configuration."""
    port = free_port()
    shutil.copy(DEPLOY / "prometheus" / "rules.yml", folder)
    listen = [f"--web.listen-address=127.0.0.1:{port}", f"--storage.tsdb.path={folder / 'series'}"]
    command = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", *listen, "--log.level=error"]
    with subprocess.Popen(command, cwd=folder) as prometheus:
        try:
            end = time.monotonic() + SECONDS
            while not (query(port, condition) and query(port, expression)):
                assert time.monotonic() < end, f"never true: {condition}"
                time.sleep(0.2)
            value: str = query(port, expression)[0]["value"][1]
            return value
        finally:
            prometheus.terminate()


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
def test_a_real_prometheus(tmp_path: Path) -> None:
    broker = WebBroker(tmp_path)
    try:
        request = urllib.request.Request(f"{broker.web}/v1/topics/a", b"21.5")
        urllib.request.urlopen(request, timeout=5).close()
        config = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
        config = config.replace("127.0.0.1:8222", f"127.0.0.1:{broker.web_port}").replace("15s", "1s")
        (tmp_path / "prometheus.yml").write_text(config)
        received = 'fumarole_received_messages_total{namespace="default"}'
        assert scraped(tmp_path, received, 'up{job="fumarole"} == 1') == "1"
    finally:
        broker.stop()
