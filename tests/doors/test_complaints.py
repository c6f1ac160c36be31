import logging

import pytest

from fumarole.doors.complaints import SECONDS, Complaints


def test_each_kind_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    now = [1000.0]
    complain = Complaints(logging.getLogger("complaints"), lambda: now[0])
    for address in ("1", "2", "3"):
        complain("refused %s", address)
    complain("another kind")
    assert caplog.messages == ["refused 1", "another kind"]
    now[0] += SECONDS
    complain("refused %s", "4")
    complain("refused %s", "5")
    assert caplog.messages[2:] == ["refused 4 (2 more since the last such line)"]
    now[0] += SECONDS
    complain("another kind")
    assert caplog.messages[3:] == ["another kind"]
