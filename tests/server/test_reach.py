"""Without users every door is for this machine alone (A1); links between machines are encrypted or said not to be (A9)."""

import logging

import pytest

from fumarole.config.load import load
from fumarole.doors.registry import DOORS
from fumarole.server.reach import ExposedError, check_reach, is_local

HOSTS = [
    ("127.0.0.1", True),
    ("127.0.0.53", True),
    ("::1", True),
    ("localhost", True),
    ("0.0.0.0", False),
    ("::", False),
    ("10.0.0.1", False),
    ("example.org", False),
]


@pytest.mark.parametrize(("host", "local"), HOSTS)
def test_which_addresses_only_this_machine_reaches(host: str, local: bool) -> None:
    assert is_local(host) is local


@pytest.mark.parametrize("door", DOORS)
def test_every_door_beyond_this_machine_wants_users(door: str, caplog: pytest.LogCaptureFixture) -> None:
    settings = load(None, {}, {f"--{door}": "0.0.0.0:7000"})
    with pytest.raises(ExposedError, match=f"{door} 0.0.0.0:7000.*--insecure"):
        check_reach(settings, insecure=False)
    assert caplog.messages == []
    check_reach(settings, insecure=True)
    assert len(caplog.messages) == 1
    assert "every client of other machines is let in" in caplog.messages[0]


def test_all_is_well_on_this_machine_or_with_users(tmp_path: object, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    check_reach(load(None, {}, {}), insecure=False)
    check_reach(load(None, {}, {"--nats": "localhost:0,[::1]:0"}), insecure=False)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("flags", "warned"),
    [
        ({"--cluster": "127.0.0.1:6222"}, False),
        ({"--cluster": "0.0.0.0:6222"}, True),
        ({"--cluster": "127.0.0.1:6222", "--peer": "10.0.0.2:6222"}, True),
    ],
)
def test_links_that_are_not_encrypted(flags: dict[str, str], warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    check_reach(load(None, {}, flags), insecure=False)
    assert bool(caplog.messages) is warned
