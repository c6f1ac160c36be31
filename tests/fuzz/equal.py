"""The compiled loops against the pure ones, without end: the tests of tests/fastpath, on input made of random bytes."""

from __future__ import annotations

import random
from typing import Any

from tests.fastpath import (
    test_capture,
    test_cluster_protocol_equal,
    test_http_equal,
    test_json_paths,
    test_mqtt_equal,
    test_nats_readings_equal,
    test_readings_equal,
)

TESTS: dict[str, Any] = {
    "equal_capture": test_capture.test_equal,
    "equal_link": test_cluster_protocol_equal.test_the_same_bytes_to_clients_and_peers,
    "equal_http": test_http_equal.test_the_same_answers,
    "equal_http_lines": test_http_equal.test_the_same_lines,
    "equal_json": test_json_paths.test_equal,
    "equal_json_text": test_json_paths.test_any_text,
    "equal_mqtt": test_mqtt_equal.test_the_same_bytes_out,
    "equal_msgpack": test_readings_equal.test_the_same_bytes_out,
    "equal_nats_readings": test_nats_readings_equal.test_the_same_bytes_out,
}
BYTES = 6_000
"""From which hypothesis chooses one input."""


def check(name: str, seed: int) -> None:
    """One input of one test."""
    TESTS[name].hypothesis.fuzz_one_input(random.Random(f"{name} {seed}").randbytes(BYTES))
