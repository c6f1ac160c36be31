"""Passwords and tokens: who gets in, and what it costs to find out."""

import base64
import threading
from concurrent.futures import ThreadPoolExecutor

import argon2
import nkeys
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.config.settings import PermissionSettings, UserSettings
from fumarole.config.values import Secret
from fumarole.exchange.permissions import User
from fumarole.server.cookies import SignedCookies
from fumarole.server.credentials import (
    LONGEST_SECRET,
    Credentials,
    hash_password,
    new_key_pair,
    new_token,
    token_digest,
    verify_password,
)
from fumarole.sessions.stream import KeyProof

CHEAP = argon2.PasswordHasher.from_parameters(argon2.profiles.CHEAPEST)


ADAS_HASH = CHEAP.hash("hunter2")


def with_password(name: str, password_hash: str) -> UserSettings:
    return UserSettings(name=name, password=Secret(password_hash), namespace=f"of-{name}")


def with_token(name: str, token: str) -> UserSettings:
    return UserSettings(name=name, token=Secret(token_digest(token)), namespace=f"of-{name}")


BOTH = UserSettings(name="both", password=Secret(CHEAP.hash("pass")), token=Secret(token_digest("both-token")))
LONGEST = "x" * LONGEST_SECRET
USERS = [
    with_password("ada", ADAS_HASH),
    with_password("zoë", CHEAP.hash("pässwörd 🌋")),
    with_password("long", CHEAP.hash(LONGEST)),
    with_token("sensor", "random-token"),
    with_token("lång", LONGEST),
    BOTH,
]
CREDENTIALS = Credentials(USERS)

Given = tuple[str | None, str | None, str | None]

CHECKS: dict[str, tuple[Given, str | None]] = {
    "a name and its password": (("ada", "hunter2", None), "ada"),
    "beyond ASCII": (("zoë", "pässwörd 🌋", None), "zoë"),
    "the longest password": (("long", LONGEST, None), "long"),
    "a token": ((None, None, "random-token"), "sensor"),
    "the longest token": ((None, None, LONGEST), "lång"),
    "an empty token beside a password": (("ada", "hunter2", ""), "ada"),
    "either, by password": (("both", "pass", None), "both"),
    "either, by token": ((None, None, "both-token"), "both"),
    "a token beside a name": (("ada", None, "random-token"), "sensor"),
    "a wrong token beside the right password": (("ada", "hunter2", "x"), None),
    "nothing": ((None, None, None), None),
    "empty": (("", "", ""), None),
    "a name alone": (("ada", None, None), None),
    "an empty password": (("ada", "", None), None),
    "a password alone": ((None, "hunter2", None), None),
    "a wrong password": (("ada", "hunter3", None), None),
    "a password with more behind it": (("ada", "hunter2\0", None), None),
    "the password of another": (("zoë", "hunter2", None), None),
    "a name in another case": (("Ada", "hunter2", None), None),
    "a name that nobody has": (("eve", "hunter2", None), None),
    "a token's name with a password": (("sensor", "random-token", None), None),
    "a wrong token": ((None, None, "random-tokem"), None),
    "a token's digest as the token": ((None, None, token_digest("random-token")), None),
    "a password's hash as the password": (("ada", ADAS_HASH, None), None),
    "one byte above the longest password": (("long", LONGEST + "x", None), None),
    "a huge password": (("ada", "x" * 10_000_000, None), None),
    "a huge name": (("x" * 10_000_000, "hunter2", None), None),
    "a huge token": ((None, None, "x" * 10_000_000), None),
    "half a surrogate pair": (("ada", "\ud800", None), None),
    "half a surrogate pair as name": (("\udfff", "hunter2", None), None),
    "half a surrogate pair as token": ((None, None, "\ud800"), None),
    "NUL": (("\0", "\0", None), None),
}


def found(credentials: Credentials, user: str | None, password: str | None, token: str | None) -> User | None:
    """As the doors ask: a token, if one is given, decides alone."""
    return credentials.by_token(token) if token else credentials.check(user or "", password or "")


@pytest.mark.parametrize(("given", "name"), CHECKS.values(), ids=CHECKS.keys())
def test_check(given: Given, name: str | None) -> None:
    user = found(CREDENTIALS, *given)
    assert (user and user.name) == name


ANY_TEXT = st.none() | st.text(st.characters(codec=None), max_size=2000)


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_strangers_get_nothing_but_no(user: str | None, password: str | None, token: str | None) -> None:
    assert found(CREDENTIALS, user, password, token) is None


@pytest.mark.parametrize("given", [(None, None, None), ("", "", ""), ("ada", "hunter2", None), (None, None, "x")])
def test_with_no_users_nobody_gets_in(given: Given) -> None:
    assert found(Credentials([]), *given) is None


def test_a_damaged_hash_lets_nobody_in() -> None:
    for damaged in (
        "",
        "$argon2id$",
        "$argon2id$v=19$m=8,t=1,p=1$!!!!$!!!!",
        "$argon2id$v=19$m=0,t=0,p=0$YWFhYQ$YWFhYQ",
    ):
        assert Credentials([UserSettings(name="ada", password=Secret(damaged))]).check("ada", "hunter2") is None


class Counted:
    """Stands in for argon2: says no, and counts what it was asked."""

    def __init__(self, answer: bool = False) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def __call__(self, password_hash: str, password: bytes) -> bool:
        self.asked.append(password_hash)
        return self.answer


COSTS: dict[str, tuple[Given, int]] = {
    "a known name": (("ada", "x", None), 1),
    "an unknown name": (("eve", "x", None), 1),
    "the name of one who has only a token": (("sensor", "x", None), 1),
    "a known name and too long a password": (("ada", LONGEST + "x", None), 0),
    "an unknown name and too long a password": (("eve", LONGEST + "x", None), 0),
    "a known name and no password": (("ada", None, None), 0),
    "an unknown name and no password": (("eve", None, None), 0),
    "a token": ((None, None, "random-token"), 0),
    "a wrong token": ((None, None, "x"), 0),
}


@pytest.mark.parametrize(("given", "cost"), COSTS.values(), ids=COSTS.keys())
def test_an_unknown_name_costs_what_a_known_one_costs(given: Given, cost: int) -> None:
    verify = Counted()
    found(Credentials(USERS, verify), *given)
    assert len(verify.asked) == cost


def test_an_unknown_name_gets_in_not_even_with_the_password_it_was_compared_with() -> None:
    verify = Counted(answer=True)
    assert Credentials(USERS, verify).check("eve", "x") is None
    assert len(verify.asked) == 1


@given(st.text(min_size=1))
def test_an_unknown_name_always_costs_the_same(name: str) -> None:
    verify = Counted()
    credentials = Credentials(USERS, verify)
    credentials.check(name, "x")
    credentials.check(name, "y")
    first, second = verify.asked
    assert first == second


def test_users_carry_their_namespace_and_permissions() -> None:
    settings = UserSettings(
        name="ada",
        token=Secret(token_digest("t")),
        namespace="lab",
        publish=PermissionSettings(allow=("a.>",), deny=("a.b",)),
        subscribe=PermissionSettings(allow=()),
    )
    user = Credentials([settings]).by_token("t")
    assert isinstance(user, User)
    assert (user.name, user.namespace) == ("ada", "lab")
    assert user.publish is not None
    assert [user.publish.allows(topic) for topic in ("a.c", "a.b", "b")] == [True, False, False]
    assert user.subscribe is not None
    assert not user.subscribe.allows("a")


def test_users_without_permissions_may_do_everything() -> None:
    user = CREDENTIALS.by_token("random-token")
    assert user == User("sensor", "of-sensor", None, None)


def test_several_threads_at_once() -> None:
    together = threading.Barrier(4)

    def check(number: int) -> str | None:
        together.wait(10)
        user = CREDENTIALS.check("ada", "hunter2" if number % 2 else "x")
        return user.name if user else None

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(check, range(4))) == [None, "ada", None, "ada"]


def test_a_hash_is_argon2id_with_the_recommended_parameters() -> None:
    hashed = hash_password("pässwörd")
    assert argon2.extract_parameters(hashed) == argon2.profiles.RFC_9106_LOW_MEMORY
    assert hashed != hash_password("pässwörd")
    assert verify_password(hashed, "pässwörd".encode())
    assert not verify_password(hashed, b"password")


@pytest.mark.parametrize("password", ["", LONGEST + "x", "é" * (LONGEST_SECRET // 2) + "x"])
def test_passwords_that_nobody_could_use_are_not_hashed(password: str) -> None:
    with pytest.raises(ValueError, match="1 to 1024 bytes"):
        hash_password(password)


@pytest.mark.parametrize("password", ["x", LONGEST])
def test_passwords_of_any_length_within_bounds_are_hashed(password: str) -> None:
    assert verify_password(hash_password(password), password.encode())


def test_new_tokens_are_long_and_never_the_same() -> None:
    token, digest = new_token()
    assert len(token) >= 43
    assert digest == token_digest(token)
    assert token not in digest
    assert len({new_token() for _ in range(100)}) == 100


def test_credentials_that_were_right_are_remembered_by_a_keyed_digest() -> None:
    credentials = Credentials(USERS)
    digest = credentials.digest("ada", "hunter2")
    assert credentials.recall(digest) is None
    ada = User("ada", "lab")
    credentials.remember(digest, ada)
    assert credentials.recall(credentials.digest("ada", "hunter2")) is ada
    for other in (("ada", "hunter3"), ("adah", "unter2"), ("ad", "ahunter2"), ("Ada", "hunter2")):
        assert credentials.recall(credentials.digest(*other)) is None
    assert Credentials(USERS).digest("ada", "hunter2") != digest


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fumarole.server.credentials.REMEMBERED", 2)
    credentials = Credentials(USERS)
    users = [User(str(number), "lab") for number in range(3)]
    digests = [credentials.digest(user.name, "x") for user in users]
    credentials.remember(digests[0], users[0])
    credentials.remember(digests[1], users[1])
    credentials.recall(digests[0])
    credentials.remember(digests[2], users[2])
    assert [credentials.recall(digest) for digest in digests] == [users[0], None, users[2]]


# Keys.


def proof_of(seed: str, nonce: str) -> KeyProof:
    """As NATS' clients make it."""
    pair = nkeys.from_seed(seed.encode())
    signature = base64.urlsafe_b64encode(pair.sign(nonce.encode())).decode().rstrip("=")
    return KeyProof(pair.public_key.decode(), signature, nonce)


def with_key(name: str) -> tuple[str, Credentials]:
    seed, public = new_key_pair()
    return seed, Credentials([UserSettings(name=name, nkey=public, namespace=f"of-{name}")])


def test_who_signs_the_nonce_gets_in() -> None:
    seed, credentials = with_key("ada")
    proof = proof_of(seed, "n0nce")
    assert credentials.by_key(proof) == User("ada", "of-ada")
    standard = base64.b64encode(base64.urlsafe_b64decode(proof.signature + "==")).decode()
    assert credentials.by_key(proof._replace(signature=standard)) == User("ada", "of-ada"), "as nats-py writes it"


def test_who_does_not_stays_out() -> None:
    seed, credentials = with_key("ada")
    proof, stranger = proof_of(seed, "n0nce"), proof_of(new_key_pair()[0], "n0nce")
    for wrong in (
        stranger,
        stranger._replace(nkey=proof.nkey),
        proof._replace(nonce="another"),
        proof_of(seed, ""),
        proof._replace(signature=""),
        proof._replace(signature=proof.signature[:-4]),
        proof._replace(signature="é" * 86),
        proof._replace(signature="A" * 100_000),
        proof._replace(nkey=""),
    ):
        assert credentials.by_key(wrong) is None, wrong


# Cookies of browsers (server/cookies.py).


def cookies(users: list[UserSettings], secret: bytes = b"s", now: float = 1000.0) -> SignedCookies:
    found = Credentials(users)
    return SignedCookies(lambda: found, secret, lambda: now)


LAB = UserSettings(name="lab ä", namespace="lab", token=Secret(token_digest("t")))


def test_a_cookie_is_good_on_every_node() -> None:
    """H5."""
    user = Credentials([LAB]).by_token("t")
    assert user is not None
    cookie = cookies([LAB]).give(user, 60.0)
    found = cookies([LAB], now=1059.0).user_of(cookie)
    assert found is not None
    assert found.name == "lab ä"


def test_cookies_that_are_not_good() -> None:
    user = Credentials([LAB]).by_token("t")
    assert user is not None
    cookie = cookies([LAB]).give(user, 60.0)
    assert cookies([LAB], now=1060.0).user_of(cookie) is None  # it has ended
    assert cookies([LAB], secret=b"x").user_of(cookie) is None
    assert cookies([]).user_of(cookie) is None
    changed = UserSettings(name="lab ä", namespace="lab", token=Secret(token_digest("other")))
    assert cookies([changed]).user_of(cookie) is None
    name, end, digest = cookie.split(".")
    for forged in (
        f"{name}.99999999999.{digest}",
        f"{name}.{end}.{digest[:-1]}",
        f"{name}.{end}.",
        f"{name}..{digest}",
    ):
        assert cookies([LAB]).user_of(forged) is None
    for odd in (
        "",
        ".",
        "..",
        "a.b.c",
        f"%.{end}.{digest}",
        f"ä.{end}.{digest}",
        f"{name}.{end}.ä",
        f"{name}.-1.{digest}",
    ):
        assert cookies([LAB]).user_of(odd) is None
