import pytest

from fumarole.doors.flushing import LAST_BATCH
from fumarole.doors.standstill import QUIET, StandstillCheck
from fumarole.exchange.node import Node


@pytest.mark.parametrize(
    ("since_batch", "since_late", "checks"),
    [
        pytest.param(0.0, -1.0, [], id="busy"),
        pytest.param(QUIET / 2, -1.0, [], id="a short pause"),
        pytest.param(2 * QUIET, -1.0, ["look"], id="a pause: has another node hung up (G3)"),
        pytest.param(9.0, 1.0, ["wake 100.0"], id="a standstill (C4)"),
        pytest.param(0.0, 1.0, ["wake 100.0"], id="one very long turn of many short batches (C4)"),
    ],
)
def test_checks(monkeypatch: pytest.MonkeyPatch, since_batch: float, since_late: float, checks: list[str]) -> None:
    done: list[str] = []
    node = Node("a", "0", wake=lambda now: done.append(f"wake {now}"), look=lambda: done.append("look"))
    monkeypatch.setattr(LAST_BATCH, "at", 100.0 - since_batch)
    node.late_after = 100.0 - since_late
    StandstillCheck(node).before_batch(100.0)
    assert done == checks
