from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.running import RunningBroker
from tests.pipeline.recordings import Recording


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker with default settings, for the tests of one module."""
    broker = RunningBroker(tmp_path_factory.mktemp("broker"))
    yield broker
    broker.release()


@pytest.fixture
def record() -> Iterator[Callable[..., Recording]]:
    """Starts recorders, each recording when this returns; those that still run are ended after the test."""
    started: list[Recording] = []

    def start(*arguments: object, **options: object) -> Recording:
        started.append(Recording(*arguments, **options))  # type: ignore[arg-type]
        started[-1].wait_for(" records ")
        return started[-1]

    yield start
    for recording in started:
        if recording.process.poll() is None:
            recording.kill()
