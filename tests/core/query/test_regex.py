import time

import pytest

from fumarole.core.query.regex import RegexError, finder


@pytest.mark.parametrize(
    ("regex", "text", "found"),
    [("b", "abc", True), ("^b", "abc", False), ("c$", "abc", True), ("", "", True), ("^.$", "🌋", True)],
)
def test_found_anywhere(regex: str, text: str, found: bool) -> None:
    assert finder(regex)(text) is found


def test_half_a_surrogate_pair_is_no_error() -> None:
    assert finder("x$")("\ud800x")
    assert not finder("x")("\ud800")


@pytest.mark.parametrize("regex", ["(", "*", "a**", r"(a)\1", "(?=a)", "(?<!a)", "[z-a]", r"(\pL{50}){20}", "a{1001}"])
def test_refused(regex: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RegexError, match=r"\w+"):
        finder(regex)
    assert capfd.readouterr() == ("", ""), "the library writes to standard error unless told not to"


@pytest.mark.parametrize("regex", ["(a+)+$", "(a*)*b$", "(a|aa)+$", "(.*a){12}b", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_time_is_linear(regex: str) -> None:
    find = finder(regex)
    start = time.process_time()
    assert not find("a" * 4_000 + "!")
    assert time.process_time() - start < 0.5
