"""One RabbitMQ for all tests of the bridge, and bridges to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import aio_pika
import pytest
import pytest_asyncio

from tests.integration.bridge.bridges import Dealer, RunningBridge, dealers
from tests.integration.bridge.rabbitmq import RabbitMq

StartBridge = Callable[..., RunningBridge]


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMq]:
    server = RabbitMq(tmp_path_factory.mktemp("rabbitmq"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def bridge(rabbitmq: RabbitMq) -> Iterator[RunningBridge]:
    """One with default settings, for the tests of a module that leave it as it was."""
    running = RunningBridge("--amqp", rabbitmq.url)
    yield running
    running.stop()


@pytest.fixture
def start_bridge(rabbitmq: RabbitMq) -> Iterator[StartBridge]:
    """Bridges of the test's own, ended after it."""
    started: list[RunningBridge] = []

    def start(*arguments: str, ready: bool = True) -> RunningBridge:
        started.append(RunningBridge("--amqp", rabbitmq.url, *arguments, ready=ready))
        return started[-1]

    yield start
    for each in started:
        if not each.stopped:
            each.stop()


@pytest.fixture
def dealer(bridge: RunningBridge) -> Iterator[Dealer]:
    with dealers(bridge.endpoint) as (one,):
        yield one


@pytest_asyncio.fixture
async def channel(rabbitmq: RabbitMq) -> aio_pika.abc.AbstractChannel:  # type: ignore[misc]
    """A plain AMQP client, which others wrote."""
    connection = await aio_pika.connect(rabbitmq.url)
    async with connection:
        yield await connection.channel()
