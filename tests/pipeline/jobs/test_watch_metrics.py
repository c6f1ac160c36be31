"""How the live job goes, told to others."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from fumarole.pipeline.jobs.watch_metrics import message, served, text
from fumarole.pipeline.jobs.watching import Progress

PROGRESS = Progress(batches=2, rows=30, rate=15.5, lag=0.4, producers=3, open={"hot": 1, "silent": 0}, raised=4)


def test_as_json() -> None:
    said = json.loads(message(PROGRESS))
    assert (said["rows"], said["lag"], said["open"]) == (30, 0.4, {"hot": 1, "silent": 0})


def test_in_the_form_of_prometheus() -> None:
    lines = text(PROGRESS).splitlines()
    assert "fumarole_pipeline_rows_total 30" in lines
    assert "fumarole_pipeline_lag_seconds 0.4" in lines
    assert 'fumarole_pipeline_open_alarms{rule="hot"} 1' in lines
    named = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {line.split()[0].partition("{")[0] for line in lines if not line.startswith("#")} == named


def test_what_is_not_known_is_left_out() -> None:
    assert "lag_seconds" not in text(Progress())


def test_over_http() -> None:
    with served(PROGRESS, "127.0.0.1", 0) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert answer.read().decode() == text(PROGRESS)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/")
