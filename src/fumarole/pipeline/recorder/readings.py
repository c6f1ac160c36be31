"""Readings that a query selected, as the columns that a capture would have made of them."""

from __future__ import annotations

import json
from collections.abc import Iterable

from fumarole.client import Reading
from fumarole.client.capture import Columns, gather


def columns_of(readings: Iterable[Reading], now: int) -> Columns:
    """As if each were a message: the payload is the value as text, the headers say whose it is (M8)."""
    return gather(((each.topic, str(each.value).encode(), _headers(each)) for each in readings), now)


def _headers(reading: Reading) -> list[tuple[str, str]]:
    headers = [("Producer", reading.producer)]
    if reading.metadata:
        headers.append(("Metadata", json.dumps(reading.metadata)))
    return headers
