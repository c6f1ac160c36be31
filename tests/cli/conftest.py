import re
from collections.abc import Iterator

import pytest

from tests.cli.commands import CommandLine
from tests.client.brokers import BrokerProcess


@pytest.fixture(scope="session")
def broker_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all commands."""
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"))
    yield broker
    assert broker.stop() == 0


@pytest.fixture
def command_line(broker_process: BrokerProcess, request: pytest.FixtureRequest) -> Iterator[CommandLine]:
    """Commands in a namespace named after the test."""
    namespace = re.sub("[^a-z0-9]+", "-", request.node.name)[:60].strip("-")
    commands = CommandLine(broker_process.url, namespace)
    yield commands
    commands.close()
