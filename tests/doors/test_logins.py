"""A2: each credential is verified once, remembered, and goes on when its client has gone."""

import asyncio
import threading

import pytest

from fumarole.doors import login_queue
from fumarole.doors.logins import Logins, TooManyLoginsError
from fumarole.exchange.permissions import User
from fumarole.sessions.stream import Claim, KeyProof

HERE = "10.0.0.1"


class Users:
    """Users whose password is their name. `gate` holds every check up until it is set."""

    def __init__(self) -> None:
        self.checked: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self._known: dict[bytes, User] = {}

    def by_token(self, token: str) -> User | None:
        return User(token, "default") if token == "token" else None

    def named(self, name: str) -> tuple[User, str] | None:
        return None

    def by_key(self, proof: KeyProof) -> User | None:
        return None

    def digest(self, user: str, password: str) -> bytes:
        return f"{user}\0{password}".encode()

    def recall(self, digest: bytes) -> User | None:
        return self._known.get(digest)

    def remember(self, digest: bytes, user: User) -> None:
        self._known[digest] = user

    def check(self, user: str, password: str) -> User | None:
        self.gate.wait(10)
        self.checked.append(user)
        return User(user, "default") if user == password else None


@pytest.fixture
def users() -> Users:
    return Users()


@pytest.fixture
def logins(users: Users) -> Logins:
    return Logins(users)


async def test_right_wrong_and_nothing(logins: Logins) -> None:
    right = await logins.verify(Claim("a", "a", None), HERE)
    assert right is not None
    assert right.name == "a"
    assert await logins.verify(Claim("a", "b", None), HERE) is None
    assert await logins.verify(Claim(None, None, None), HERE) is None
    assert await logins.verify(Claim("a", None, None), HERE) is None
    assert await logins.verify(Claim(None, None, "token"), HERE) is not None
    assert await logins.verify(Claim(None, None, "another"), HERE) is None
    assert logins.failed == 4
    logins.close()


async def test_a_thousand_equal_logins_are_one_verification(logins: Logins, users: Users) -> None:
    found = await asyncio.gather(*(logins.verify(Claim("a", "a", None), f"10.0.{n}.1") for n in range(1000)))
    assert {user and user.name for user in found} == {"a"}
    assert users.checked == ["a"]
    assert await logins.verify(Claim("a", "a", None), HERE) is not None
    assert users.checked == ["a"]
    logins.close()


async def test_a_verification_goes_on_when_its_client_has_gone(logins: Logins, users: Users) -> None:
    users.gate.clear()
    waiting = asyncio.create_task(logins.verify(Claim("a", "a", None), HERE))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    users.gate.set()
    assert await logins.verify(Claim("a", "a", None), HERE) is not None
    assert users.checked == ["a"]
    logins.close()


async def test_too_many_is_said(logins: Logins, users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_queue, "MOST_WAITING_PER_ADDRESS", 1)
    users.gate.clear()
    waiting = [asyncio.create_task(logins.verify(Claim(name, name, None), HERE)) for name in "abc"]
    await asyncio.sleep(0)
    with pytest.raises(TooManyLoginsError):
        await logins.verify(Claim("d", "d", None), HERE)
    assert logins.refused == 1
    users.gate.set()
    assert all(await asyncio.gather(*waiting))
    logins.close()


async def test_a_check_that_raises_is_a_wrong_login(logins: Logins, users: Users) -> None:
    users.check = lambda *_: 1 / 0  # type: ignore[assignment, method-assign]
    assert await logins.verify(Claim("a", "a", None), HERE) is None
    logins.close()


async def test_a_right_password_does_not_wait_behind_wrong_ones_of_another_address(
    users: Users, logins: Logins, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fleet behind two addresses, one of which guesses too: equal credentials are one entry."""
    monkeypatch.setattr(login_queue, "FIRST_PAUSE", 60.0)
    monkeypatch.setattr(login_queue, "LONGEST_PAUSE", 60.0)
    assert await logins.verify(Claim("eve", "wrong", None), HERE) is None
    behind = asyncio.ensure_future(logins.verify(Claim("a", "a", None), HERE))
    await asyncio.sleep(0)
    other = await asyncio.wait_for(logins.verify(Claim("a", "a", None), "10.0.0.2"), 5)
    assert other == await behind == User("a", "default")
    assert users.checked == ["eve", "a"]
    logins.close()
