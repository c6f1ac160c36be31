"""The examples of docs/reference/kubemq.md, each run as it stands, with the SDK that it is for."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.conftest import Brokers
from tests.integration.kubemq.conftest import DOOR, kubemq_port
from tests.integration.kubemq.sdks import python_of

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "kubemq.md").read_text()
EXAMPLES = dict(re.findall(r"(?s)### kubemq ([^\n]+)\n```python\n(.*?)```", PAGE))


def test_there_is_an_example_for_each() -> None:
    assert {name.split(",")[0] for name in EXAMPLES} == {"2.4.0", "3.6.0", "4.1.5"}
    assert len(EXAMPLES) == PAGE.count("```python") == 5


@pytest.mark.parametrize("name", EXAMPLES)
def test_quick_start(brokers: Brokers, name: str) -> None:
    broker = brokers.share(DOOR, observed=True)
    code = EXAMPLES[name].replace("localhost:50000", f"127.0.0.1:{kubemq_port(broker)}")
    command = [python_of(name.split(",", maxsplit=1)[0]), "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=40, check=False)
    assert (ended.returncode, ended.stdout) == (0, "volcanoes.atka: 21.5\n"), ended.stderr[-4000:]
