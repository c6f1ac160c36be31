"""A bounded run of the fuzzers: the same seeds each time. `make fuzz` goes on from there."""

import pytest

from tests.fuzz.checks import CHECKS, Replay, compiled_engine, shortest
from tests.fuzz.conversations import Step, conversation
from tests.fuzz.equal import TESTS
from tests.fuzz.parsers import TARGETS

SEEDS = {"protocol": 1500, "hot_paths": 1200, "outbox": 150, **dict.fromkeys(TARGETS, 250), **dict.fromkeys(TESTS, 3)}
"""The tests of tests/fastpath run by themselves."""


@pytest.mark.parametrize("check", CHECKS)
def test_random_input(check: str) -> None:
    for seed in range(SEEDS[check]):
        try:
            CHECKS[check](seed)
        except BaseException:
            print(f"replay: python tests/fuzz/run.py --only {check} --seed {seed}")
            raise


def test_conversations_reach_what_they_are_meant_to_reach() -> None:
    """The generator is no good if all clients are disconnected at the first word."""
    delivered = dropped = answered = refused = cut_off = groups = 0
    for seed in range(300):
        authentication, steps = conversation(seed)
        replay = Replay(compiled_engine(), authentication)
        for step in steps:
            replay.do(step)
        reports = [exchange.report() for exchange in replay.desk.node.namespaces]
        delivered += sum(report["delivered"] for report in reports)
        dropped += sum(report["dropped"]["outbox full"] for report in reports)
        refused += sum(report["dropped"]["refused"] for report in reports)
        waiting = b"".join(replay.waiting()) + b"".join(replay.heard)
        answered += waiting.count(b"NATS/1.0 503")
        cut_off += waiting.count(b"-ERR 'Slow Consumer'")
        groups += sum(len(exchange._groups) for exchange in replay.desk.node.namespaces)
    found = {"delivered": delivered, "dropped": dropped, "answered": answered, "refused": refused}
    assert min(found.values()) >= 50, found
    assert cut_off >= 3
    assert groups >= 30


def test_a_fault_is_found_and_shortened() -> None:
    """The checker is checked: steps that an hot_path cannot even take fail, and only they are left."""
    steps = [Step("come", 0), Step("say", 0, b"PING\r\n"), Step("say", 0, None), Step("read", 0, number=5)]  # type: ignore[arg-type]
    assert shortest(False, steps) == [steps[0], steps[2]]
