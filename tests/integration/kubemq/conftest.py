"""Brokers with a KubeMQ door, beside the NATS door that all brokers of the tests have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.integration.conftest import Brokers
from tests.integration.kubemq.calls import Calls
from tests.integration.oracle import Target, watched
from tests.integration.raw import RawClient
from tests.integration.running import RunningBroker

DOOR = 'doors.kubemq = ["127.0.0.1:0"]\n'
"""The configuration begins with this."""


def kubemq_port(broker: RunningBroker) -> int:
    (port,) = (int(found[1]) for line in broker.log if (found := re.search(r"KubeMQ door open on [0-9.]+:(\d+)", line)))
    return port


@pytest.fixture
def broker(brokers: Brokers, engine_name: str) -> RunningBroker:
    """With eyes inside."""
    return brokers.share(DOOR, engine_name, observed=True)


@pytest.fixture
def calls(broker: RunningBroker) -> Iterator[Calls]:
    with Calls(kubemq_port(broker)) as client:
        yield client


@pytest.fixture
def nats(broker: RunningBroker) -> Iterator[RawClient]:
    """A NATS client of the same namespace."""
    with RawClient(broker.port) as client:
        client.connect(user="kubemq")
        yield client


@pytest.fixture
def target(brokers: Brokers, broker: RunningBroker) -> Iterator[Target]:
    """The same broker, under the oracle."""
    with alone(brokers, broker) as watched_target:
        yield watched_target


@contextmanager
def alone(brokers: Brokers, broker: RunningBroker) -> Iterator[Target]:
    """Under the oracle, once the calls of earlier tests have ended. The canary lives in the default namespace."""
    canary = brokers.canary(broker)
    canaries = 2  # its connections
    before = Target(broker, canary).settle(lambda seen: seen["connections"] == canaries)
    assert before["connections"] == canaries
    with watched(broker, canary) as target:
        yield target
