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


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
def test_a_real_prometheus(tmp_path: Path) -> None:
    broker, port = WebBroker(tmp_path), free_port()
    try:
        request = urllib.request.Request(f"{broker.web}/v1/topics/a", b"21.5")
        urllib.request.urlopen(request, timeout=5).close()
        config = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
        config = config.replace("127.0.0.1:8222", f"127.0.0.1:{broker.web_port}").replace("15s", "1s")
        (tmp_path / "prometheus.yml").write_text(config)
        shutil.copy(DEPLOY / "prometheus" / "rules.yml", tmp_path)
        listen = [f"--web.listen-address=127.0.0.1:{port}", f"--storage.tsdb.path={tmp_path / 'series'}"]
        command = ["prometheus", f"--config.file={tmp_path / 'prometheus.yml'}", *listen, "--log.level=error"]
        with subprocess.Popen(command, cwd=tmp_path) as prometheus:
            try:
                found: list[Any] = []
                end = time.monotonic() + SECONDS
                while not found and time.monotonic() < end:
                    found = query(port, 'fumarole_received_messages_total{namespace="default"}')
                    time.sleep(0.2)
                assert found[0]["value"][1] == "1"
                assert query(port, 'up{job="fumarole"}')[0]["value"][1] == "1"
            finally:
                prometheus.terminate()
    finally:
        broker.stop()
