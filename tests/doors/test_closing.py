import pytest

from fumarole.doors.closing import LAST_WORDS, LINGER, Closing
from tests.doors.fakes import FakeTransport


@pytest.mark.parametrize(
    ("peer_ended", "halves", "ends"),
    [
        pytest.param(False, True, "ended", id="this half first"),
        pytest.param(True, True, "closed", id="the peer was first"),
        pytest.param(False, False, "closed", id="TLS has no halves"),
    ],
)
def test_the_last_words_have_left(peer_ended: bool, halves: bool, ends: str) -> None:
    closing, transport = Closing(), FakeTransport(None, half_close=halves)
    if peer_ended:
        assert closing.receive_eof(transport) == halves
    for _ in range(2):
        closing.finish(transport)
    assert [name for name in ("ended", "closed", "aborted") if getattr(transport, name)] == [ends]
    assert not closing.discards()


def test_the_outbox_has_a_deadline() -> None:
    closing = Closing()
    assert [closing.is_overdue(now) for now in (7.0, 7.0 + LAST_WORDS, 7.1 + LAST_WORDS)] == [False, False, True]


def test_a_door_that_drains_gives_its_own_time() -> None:
    closing = Closing()
    closing.by = 30.0
    assert [closing.is_overdue(now) for now in (8.0 + LAST_WORDS, 30.0, 30.1)] == [False, False, True]


def test_the_peer_has_a_moment_for_its_half() -> None:
    closing, transport = Closing(), FakeTransport(None)
    assert not closing.is_overdue(7.0)
    closing.finish(transport)
    assert [closing.is_overdue(now) for now in (8.0, 8.0 + LINGER, 8.1 + LINGER)] == [False, False, True]
    closing.abort(transport)
    assert transport.aborted
