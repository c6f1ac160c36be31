from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.brokers import BrokerProcess, FakeServer, RealBroker


@pytest.fixture
async def broker() -> AsyncIterator[RealBroker]:
    """A broker with default settings."""
    async with RealBroker() as broker:
        yield broker


StartBroker = Callable[..., Awaitable[RealBroker]]


@pytest.fixture
async def start_broker() -> AsyncIterator[StartBroker]:
    """Starts brokers with settings of the test's own."""
    started: list[RealBroker] = []

    async def start(**settings: Any) -> RealBroker:
        started.append(RealBroker(**settings))
        await started[-1].start()
        return started[-1]

    yield start
    for broker in started:
        await broker.stop()


StartFake = Callable[..., Awaitable[FakeServer]]


@pytest.fixture
async def start_fake() -> AsyncIterator[StartFake]:
    """Starts fake servers."""
    started: list[FakeServer] = []

    async def start(**behaviour: Any) -> FakeServer:
        started.append(FakeServer(**behaviour))
        await started[-1].start()
        return started[-1]

    yield start
    for server in started:
        await server.stop()


StartProcess = Callable[..., BrokerProcess]


@pytest.fixture
def start_process(tmp_path: Path) -> Iterator[StartProcess]:
    """Starts brokers in processes of their own."""
    started: list[BrokerProcess] = []

    def start(*flags: str, port: int = 0) -> BrokerProcess:
        started.append(BrokerProcess(tmp_path, *flags, port=port))
        return started[-1]

    yield start
    for process in started:
        process.stop()
