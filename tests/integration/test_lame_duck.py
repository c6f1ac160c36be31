"""SIGUSR2: clients are told, leave or are sent away, and the broker ends with 0 (A7)."""

from __future__ import annotations

import json
import signal
import socket

import pytest

from tests.integration.conftest import StartBroker
from tests.integration.raw import RawClient


def test_clients_are_told_at_once_and_sent_away_in_time(start_broker: StartBroker) -> None:
    broker = start_broker('[limits]\ndrain = "4 s"\n')
    clients = [RawClient(broker.port) for _ in range(10)]
    for client in clients:
        client.connect()
        client.talk(b"SUB a 1\r\n")
    asked = broker.ask_to_end(signal.SIGUSR2)
    for client in clients:
        assert json.loads(client.read_until(b"\r\n")[5:])["ldm"] is True
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", broker.port), 1).close()
    clients[0].send(b"PUB a 2\r\nhi\r\n")
    heard = [client.read_to_end() for client in clients]
    assert sum(b"hi" in each for each in heard) == 10, "what was published meanwhile arrives"
    assert broker.await_end(asked) < 4.5
    for client in clients:
        client.close()


def test_it_ends_sooner_when_no_client_is_left(start_broker: StartBroker) -> None:
    broker = start_broker('[limits]\ndrain = "30 s"\n')
    client = RawClient(broker.port)
    client.connect()
    asked = broker.ask_to_end(signal.SIGUSR2)
    assert b'"ldm":true' in client.read_until(b"\r\n")
    client.close()
    assert broker.await_end(asked) < 5
