from pathlib import Path

import pytest

from fumarole.config.settings import Settings
from fumarole.doors.placement import Placement
from fumarole.exchange.readings import Reading
from fumarole.server.broker import Broker
from fumarole.server.workers import Worker

PRODUCER = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"


@pytest.mark.parametrize("number", [None, 0, 1])
def test_only_who_writes_it_down_notes_what_is_to_be_written(tmp_path: Path, number: int | None) -> None:
    """Elsewhere nobody would ever take it off, and no namespace would end."""
    placement = Placement(2)
    worker = None if number is None else Worker(number, 2, tmp_path, placement)
    namespaces = Broker(Settings(data=tmp_path), worker).node.namespaces
    exchange = namespaces.join("lab")
    exchange.producers.hear(Reading(PRODUCER, {"Room": "410"}, 1.0), 0.0)
    exchange.producers.forget(PRODUCER)
    namespaces.leave(exchange)
    assert (namespaces.get("lab") is None) == (number == 1)
    placement.close()
