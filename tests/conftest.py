import os
import re
import signal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled

# The same examples in every run. Others: pytest --hypothesis-profile=default
settings.register_profile("ci", derandomize=True, deadline=None, database=None, print_blob=True)
settings.register_profile("quick", settings.get_profile("ci"), max_examples=20)
settings.load_profile("ci")

# Who is started in the background by a shell has Ctrl-C ignored, by nohup SIGHUP; so would each process that a test
# starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# No command of a test leaves a warm Spark session behind.
os.environ["FUMAROLE_COLD"] = "1"

TESTS = Path(__file__).parent
PIPELINE = "pipeline/"
SPARK = re.compile(r"\bspark[:,)]|SparkSession|commands_in_session")
"""What is in a file with tests in the Spark session of the run. One process has them all, and so one session."""
TOGETHER = ("integration/bridge/", "integration/cluster/", "integration/kubemq/")
"""Rooms that share what takes long to start."""


class ByRoom(LoadScopeScheduling):  # type: ignore[misc] # it has no types
    """Where two processes share the tests (pytest -n 2), each takes a room, and the longest go first."""

    def _split_scope(self, nodeid: str) -> str:
        return _room(nodeid.partition("::")[0].removeprefix("tests/"))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByRoom:
    config.option.loadscopereorder = False
    return ByRoom(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Quick tests first, those with real servers last; with two processes the other way about: so neither waits long."""
    items.sort(key=_effort, reverse=hasattr(config, "workerinput"))


@cache
def _room(path: str) -> str:
    if path.startswith(PIPELINE) and SPARK.search((TESTS / path).read_text()):
        return "spark"
    return next((room for room in TOGETHER if path.startswith(room)), path)


def _effort(item: pytest.Item) -> int:
    path = item.path.relative_to(TESTS).as_posix()
    return 2 if _room(path) == "spark" else int(path.startswith(("integration/", PIPELINE)))


@pytest.fixture(params=["plain", "compiled"])
def hot_path(request: pytest.FixtureRequest) -> HotPath:
    """Each form of the hot path in turn."""
    if request.param == "plain":
        return PLAIN
    built = compiled()
    assert built is not None, "the compiled fast path is not built: `make setup` says why"
    return built
