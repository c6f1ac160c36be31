import logging

import pytest

from fumarole.doors.log_limiter import SECONDS, LogLimiter


def test_each_kind_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    now = [1000.0]
    warn = LogLimiter(logging.getLogger("log_limiter"), lambda: now[0])
    for address in ("1", "2", "3"):
        warn("refused %s", address)
    warn("another kind")
    assert caplog.messages == ["refused 1", "another kind"]
    now[0] += SECONDS
    warn("refused %s", "4")
    warn("refused %s", "5")
    assert caplog.messages[2:] == ["refused 4 (2 more since the last such line)"]
    now[0] += SECONDS
    warn("another kind")
    assert caplog.messages[3:] == ["another kind"]
