import logging

import pytest

from fumarole.doors.log_limiter import SECONDS, SHOWN, LogLimiter, plain


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


def test_the_words_of_a_client_are_plain_and_short() -> None:
    assert plain("lab 7\n2026 info all is well\x1b[2J é") == "lab 7\\n2026 info all is well\\x1b[2J \\xe9"
    assert len(plain("\U0001f30b" * 1_000)) == 2 * SHOWN
    assert plain("x" * 1_000) == "x" * SHOWN
